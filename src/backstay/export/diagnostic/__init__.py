"""The diagnostic log of a session: its lines, how they are made and checked."""
