"""Skills, agents and command files of people, projects and plugins."""
