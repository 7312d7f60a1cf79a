"""The memory of a project beyond a session: files that a person can read, changed only with the person's agreement."""
