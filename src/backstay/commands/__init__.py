"""Layer 6: what a person types after a slash, and what a model may ask for in the same words."""
