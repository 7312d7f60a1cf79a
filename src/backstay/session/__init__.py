"""Layer 6: open and hold one session."""
