"""Makes the formats of a page besides Markdown and HTML, and shortens or redacts formats."""
