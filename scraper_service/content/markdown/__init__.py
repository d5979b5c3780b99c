"""HTML to Markdown: our own writer, or another by the setting ``MARKDOWN_CONVERTER``."""

from __future__ import annotations

NATIVE = "native"
HTML2TEXT = "html2text"
MARKDOWN_CONVERTERS = (NATIVE, HTML2TEXT)  # the values of the setting
