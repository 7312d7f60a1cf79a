"""A world for each test."""

from tests.config.world import world

__all__ = ["world"]
