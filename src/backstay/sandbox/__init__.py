"""Layer 4: what a session may reach: walls around programs, egress, git, protected files."""
