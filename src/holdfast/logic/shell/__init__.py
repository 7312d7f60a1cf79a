"""Shell commands, read before they are judged: every program that a text would start, wherever it hides."""

from holdfast.logic.shell.reading import read_command

__all__ = ["read_command"]
