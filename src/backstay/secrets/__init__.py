"""Secrets that were written down: counted where they stand in stored sessions, and erased."""
