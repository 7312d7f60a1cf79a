"""Layer 6: keep what files held before a session changed them, and restore it."""
