"""Layer 6: slash commands, which a person types and a model may call."""
