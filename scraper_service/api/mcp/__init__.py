"""The Model Context Protocol: the API as tools for agents."""
