"""Layer 4: what a session may reach: the sandbox of programs, egress, git, protected files."""
