"""Worlds of sessions in one loop with a pretended time."""
