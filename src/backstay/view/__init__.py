"""Layer 7: how a session looks from outside, in the formats that programs read."""
