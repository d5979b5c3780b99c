"""Language models behind a server with the chat-completions protocol."""
