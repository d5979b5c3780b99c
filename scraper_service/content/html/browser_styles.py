"""How a browser shows a page, as CSS behind the HTML that it left.

So it travels, and is stored, together with the page.
"""

from __future__ import annotations

_START = b'\n<style id="scraper-looks">'
_END = b"</style>\n"
MAX_LOOKS = 64 * 1024  # bytes


def with_looks(html: bytes, css: str) -> bytes:
    """Return a page with what a browser computed of its styles."""
    safe = css.replace("<", "").encode("utf-8", "replace")[:MAX_LOOKS]
    return html + _START + safe + _END


def without_looks(html: bytes) -> tuple[bytes, str]:
    """Return a page as the browser left it, and its computed styles, empty for none."""
    if not html.endswith(_END):
        return html, ""
    start = html.rfind(_START, max(0, len(html) - MAX_LOOKS - len(_START + _END)))
    if start < 0:
        return html, ""
    css = html[start + len(_START) : -len(_END)]
    return html[:start], css.decode("utf-8", "replace")
