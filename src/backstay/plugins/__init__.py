"""Plugins: what they bring, how they are found, installed and switched on."""
