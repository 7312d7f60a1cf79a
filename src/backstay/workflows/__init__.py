"""Workflows of several sessions: a session that changes the program that runs it."""
