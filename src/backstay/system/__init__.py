"""What touches this machine for every layer: files, handles, programs."""
