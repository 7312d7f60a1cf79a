"""Seeded generators of commands: each family makes a kind of text, and mutations bring it near the edges of the grammar."""

from tests.proof.generate.families import FAMILIES, case_of

__all__ = ["FAMILIES", "case_of"]
