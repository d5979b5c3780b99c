"""Carries the styles that a browser computed for a page.

The styles are CSS, appended to the page's HTML. So they travel, and are stored,
together with the page.
"""

from __future__ import annotations

_START = b'\n<style id="scraper-looks">'
_END = b"</style>\n"
MAX_CSS_BYTES = 64 * 1024


def append_browser_styles(html: bytes, css: str) -> bytes:
    """Return ``html`` with the computed styles ``css`` appended."""
    safe = css.replace("<", "").encode("utf-8", "replace")[:MAX_CSS_BYTES]
    return html + _START + safe + _END


def split_browser_styles(html: bytes) -> tuple[bytes, str]:
    """Return the HTML without the appended styles, and these styles or an empty text."""
    if not html.endswith(_END):
        return html, ""
    start = html.rfind(_START, max(0, len(html) - MAX_CSS_BYTES - len(_START + _END)))
    if start < 0:
        return html, ""
    css = html[start + len(_START) : -len(_END)]
    return html[:start], css.decode("utf-8", "replace")
