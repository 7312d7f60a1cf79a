"""Layer 4: the stores of sessions: SQLite, memory, and the trace beside them."""
