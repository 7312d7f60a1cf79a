"""The web: pages as Markdown, and what search engines find. Whatever comes from here was written by strangers."""
