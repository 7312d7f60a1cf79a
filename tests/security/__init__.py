"""Proofs that what is allowed stays where it is allowed."""
