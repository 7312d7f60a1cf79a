"""Child sessions of a session."""
