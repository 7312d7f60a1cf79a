"""The conversation as people and exports see it."""
