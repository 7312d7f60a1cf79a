"""Layer 7: sessions without a terminal interface: `-p`, stream-json, the formats and results that programs read."""
