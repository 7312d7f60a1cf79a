"""The project context of a session: instructions, skills, tools, commands, mentions."""
