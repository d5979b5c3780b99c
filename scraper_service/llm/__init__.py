"""Language models of a server with the chat-completions protocol."""
