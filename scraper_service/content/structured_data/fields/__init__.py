"""What the fields of a schema, or the words of a prompt, ask for."""
