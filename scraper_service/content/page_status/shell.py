"""Whether a page is an empty shell: nothing to read before its scripts have run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lxml import etree

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

LITTLE_TEXT = 200  # characters; a page that asks for JavaScript says little else
NO_TEXT = 60  # characters: a title and a spinner
STATE_BYTES = 500  # of scripts inside a page that hold what it shows

# Elements that frameworks put a page into: React, Vue, Angular, Next, Nuxt, Gatsby,
# Svelte, Ember.
_ROOTS = etree.XPath(
    "//*[@id='root' or @id='app' or @id='__next' or @id='__nuxt' or @id='___gatsby'"
    " or @id='svelte' or @id='main-app' or @id='react-root' or @id='app-root'"
    " or @data-reactroot or @ng-app or @data-server-rendered or self::app-root"
    " or contains(@class, 'ember-application')]"
)
_SCRIPTS = etree.XPath("//script[@src or string-length(.) > 20]")
_SCRIPT_FILES = etree.XPath(
    "//script[@src and not(contains(@type, 'json'))]"
    " | //link[@rel='modulepreload'] | //script[@type='module']"
)
_INLINE = etree.XPath("//script[not(@src)]")
_NOSCRIPTS = etree.XPath("//noscript")
_CONTENT = etree.XPath(
    "//body//img[not(ancestor::noscript)] | //body//a[@href][not(ancestor::noscript)]"
    " | //frame | //iframe | //form | //video | //object | //embed | //svg"
)
_REFRESH = etree.XPath("//meta[translate(@http-equiv, 'REFSH', 'refsh')='refresh']")
_UNSEEN = frozenset({"script", "style", "noscript", "template", "head"})
_ASKS = re.compile(
    r"(enable|turn on|allow|activate|requires?|needs?|without|support)\W+"
    r"(\w+\W+){0,4}java\s?script|java\s?script\W+(\w+\W+){0,4}"
    r"(disabled|required|enabled?|turned off|necessary|not (supported|available))",
    re.IGNORECASE,
)


def shell_reason(document: Document) -> str | None:
    """Return why a page needs its scripts to be read, None if it does not.

    Looks at the page as it was parsed, before anything is cleaned away.
    """
    root = document.root
    text = _text(document.body)  # of most pages it ends here, after a few elements
    if len(text) >= LITTLE_TEXT or not _SCRIPTS(root) or _REFRESH(root):
        return None
    noscript = " ".join(" ".join(e.itertext()) for e in _NOSCRIPTS(root))
    if _ASKS.search(noscript) or _ASKS.search(text):
        return "the page asks for JavaScript"
    if len(text) >= NO_TEXT or len(_CONTENT(root)) > 2:
        return None
    if any(not _text(element) for element in _ROOTS(root)) and _SCRIPT_FILES(root):
        return "the element of the application is empty"
    inline = sum(len(element.text or "") for element in _INLINE(root))
    if inline >= STATE_BYTES or (_SCRIPT_FILES(root) and not text):
        return "all content is in scripts"
    return None


def _text(element: Any) -> str:
    """Return the start of the text that a reader sees, enough of it to judge."""
    found: list[str] = []
    size = 0
    hidden = 0
    for event, node in etree.iterwalk(element, events=("start", "end")):
        is_hidden = not isinstance(node.tag, str) or node.tag in _UNSEEN
        if event == "start":
            hidden += is_hidden
            part = node.text
        else:
            hidden -= is_hidden
            part = node.tail if node is not element else None
        if part and not hidden and (words := " ".join(part.split())):
            found.append(words)
            size += len(words) + 1
            if size > LITTLE_TEXT:
                break
    return " ".join(found)
