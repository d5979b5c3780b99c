"""Outputs of the command line: files, folders and tables of pages."""
