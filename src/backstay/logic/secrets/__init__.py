"""Find, mask and erase secrets in texts."""
