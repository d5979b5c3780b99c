"""Language models behind a server of chat completions."""
