"""The wish of a page to be replaced by another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scraper_service.content.html.page_urls import absolute, has_place, is_web
from scraper_service.items import MetaRefresh

if TYPE_CHECKING:
    from scraper_service.content.metadata.evidence import Evidence

_REFRESH = re.compile(
    r"\s*(?P<time>\d+)?(?P<rest>[\d.]*)(?:[\s;,]\s*[;,]?\s*(?P<url>.*))?\Z", re.DOTALL
)
_URL_PREFIX = re.compile(r"url\s*=\s*", re.IGNORECASE)


def refresh(evidence: Evidence) -> MetaRefresh | None:
    """Return the page's first usable meta refresh to another http(s) address."""
    for meta in evidence.meta_elements:
        if (meta.get("http-equiv") or "").strip().lower() != "refresh":
            continue
        content = meta.get("content")
        if content is not None and next(meta.iterancestors("noscript"), None) is None:
            return parse_refresh(content, evidence.document.base)
    return None


def parse_refresh(content: str, base: str) -> MetaRefresh | None:
    """Parse as the HTML standard, "shared declarative refresh steps".

    The ``Refresh`` header of an answer has the same form.
    """
    match = _REFRESH.match(content)
    if not match or not match["url"] or not (match["time"] or match["rest"]):
        return None
    url = _URL_PREFIX.sub("", match["url"], count=1)
    if url[:1] in {'"', "'"}:
        url = url[1:].split(url[0], 1)[0]
    address = absolute(base, url)
    if address is None or not is_web(address) or not has_place(address):
        return None
    return MetaRefresh(float(int((match["time"] or "0")[:9])), address)
