"""Layer 4: the files a session works on."""
