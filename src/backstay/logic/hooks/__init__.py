"""Hooks: what people let run around a session's moments, what those are told, and what their answers mean. Nothing here runs anything."""
