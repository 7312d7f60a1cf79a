"""Runs hooks: programs, addresses, models and functions, all at once, each for its time, whatever they do."""
