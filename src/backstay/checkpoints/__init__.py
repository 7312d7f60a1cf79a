"""Layer 6: what files held before a session changed them, kept and put back."""
