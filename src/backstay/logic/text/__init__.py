"""Texts of strangers on their way to a model or to a person."""
