"""How the weights of the main content model are made; nothing here runs in the service."""
