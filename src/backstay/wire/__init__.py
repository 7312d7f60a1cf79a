"""Layer 3: events to bytes and back, for ever."""
