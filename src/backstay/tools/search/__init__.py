"""Grep and Glob."""
