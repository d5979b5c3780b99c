"""The Model Context Protocol: the operations of the API as tools for agents."""
