"""Parts that all wire formats share: requests, streams, errors."""
