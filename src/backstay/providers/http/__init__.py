"""What all wire formats share: requests, streams, failures."""
