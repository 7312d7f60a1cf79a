"""A whole agent session to watch: offline, without a key, with a real crash in the middle."""
