"""What is remembered beyond a session: in files that a person can read, changed only with a person's word."""
