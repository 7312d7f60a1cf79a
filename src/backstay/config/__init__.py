"""Layer 6: settings, read from files in layers."""
