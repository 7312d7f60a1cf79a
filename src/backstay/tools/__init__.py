"""Layer 4: what a model can call."""
