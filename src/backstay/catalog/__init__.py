"""List, load, hold, move, prune and change stored sessions that nobody has open."""
