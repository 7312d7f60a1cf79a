"""The servers that settings, projects and plugins name, and how they are started."""
