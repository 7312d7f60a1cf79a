"""Generators of the documents that are read off the code; `make docs` runs them."""
