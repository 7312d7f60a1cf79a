"""Fetch and install plugins from folders, archives, git and package indexes."""
