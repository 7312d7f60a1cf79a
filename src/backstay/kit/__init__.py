"""Layer 6: what a session finds around its folder, put together and put to use."""
