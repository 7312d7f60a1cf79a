"""Layer 4: where sessions live."""
