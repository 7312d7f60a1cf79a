"""The web: pages as Markdown, and results of search engines. All of its text is untrusted."""
