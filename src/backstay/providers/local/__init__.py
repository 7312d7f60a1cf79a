"""A real language model in the box: its file, fetched once and checked, and its engine in a process of its own."""
