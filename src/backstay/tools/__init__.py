"""Layer 4: the tools that a model can call."""
