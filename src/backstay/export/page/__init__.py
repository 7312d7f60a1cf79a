"""A conversation as one page of HTML or Markdown."""
