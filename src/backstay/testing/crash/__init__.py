"""A crash at every point of a run, and what must hold after it."""
