"""Makes the formats of a page other than Markdown and HTML, and shortens or redacts formats."""
