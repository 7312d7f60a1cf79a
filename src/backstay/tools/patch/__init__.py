"""`apply_patch`."""
