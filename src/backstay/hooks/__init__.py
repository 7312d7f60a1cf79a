"""Hooks: programs, requests and functions that look at what a session does, and may refuse it."""
