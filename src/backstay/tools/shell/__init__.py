"""Bash and the processes that it starts."""
