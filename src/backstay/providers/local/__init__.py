"""Local models: a file that is downloaded once and checked, and an engine in a process of its own."""
