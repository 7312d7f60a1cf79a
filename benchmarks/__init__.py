"""The numbers that the design holds itself to, measured beside what a user would pick instead: `make bench`."""
