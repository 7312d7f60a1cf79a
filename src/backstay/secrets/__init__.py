"""Count the secrets in stored sessions, and erase them."""
