"""How each kind of hook is run."""
