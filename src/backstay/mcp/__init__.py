"""The client of MCP servers: connections, and what servers offer as tools, resources and commands."""
