"""Layer 6: read settings files, merge them by rank and trust, and find the model and the keys that they name."""
