"""What a project brings to a session: instructions, skills, tools, commands, mentions."""
