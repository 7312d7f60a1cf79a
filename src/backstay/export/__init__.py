"""Layer 7: sessions as documents."""
