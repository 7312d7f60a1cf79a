"""What to write next, from what the log means."""
