"""Proof by execution: commands that the judge allows are run under a tracer, and do nothing that the verdict does not name."""
