"""Read shell commands: what is proved, and for all other texts what can be seen in them."""

from backstay.permissions.shell.read import read_command

__all__ = ["read_command"]
