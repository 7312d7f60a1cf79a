"""Layer 6: what people keep beside their work for an agent: skills, agents, commands, plugins."""
