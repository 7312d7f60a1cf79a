"""Layer 3: this machine, for every layer: files, handles, programs, and requests to the network."""
