"""Metadata of a page, from its head, its structured data and its visible text."""
