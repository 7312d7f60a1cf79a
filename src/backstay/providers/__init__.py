"""Layer 4: what answers."""
