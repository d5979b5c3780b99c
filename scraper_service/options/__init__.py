"""What a caller may ask: frozen classes without defaults."""
