"""Outputs of the command line: files, folders and tables of pages."""

from __future__ import annotations


class OutputFailed(Exception):
    """Raised when the output cannot be written; the text is a sentence."""


class ReaderGone(Exception):
    """Raised when the reader of standard output has closed the pipe."""
