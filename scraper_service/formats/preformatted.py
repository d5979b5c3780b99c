"""Code blocks: ``<pre>`` as a fenced block with its language."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.formats.inline import text_with_breaks

_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-(?!source)|brush:\s*|sourceCode\s+)"
    r"([a-zA-Z0-9_+#.-]{1,30})"
)
_NO_LANGUAGE = frozenset(
    {"none", "plaintext", "text", "nohighlight", "default", "plain"}
)


def fenced(element: Any) -> str:
    """Return a ``pre`` element as a fenced code block, empty if it has no text."""
    code = text_with_breaks(element).replace("\r\n", "\n").replace("\xa0", " ")
    code = re.sub("[\0\ufeff\u200b]", "", code).strip("\n").rstrip()
    if not code.strip():
        return ""
    longest = max((len(run) for run in re.findall("`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{_language(element)}\n{code}\n{fence}"


def _language(element: Any) -> str:
    """Read the language from the classes of pre, its code, and its parents."""
    parents = list(element.iterancestors())[:2]
    for candidate in (element, *element.iter("code"), *parents):
        named = candidate.get("data-lang") or candidate.get("data-language") or ""
        if re.fullmatch(r"[a-zA-Z0-9_+#.-]{1,30}", named):
            return _settled(named)
        match = _LANGUAGE.search(candidate.get("class") or "")
        if match:
            return _settled(match[1])
    return ""


def _settled(name: str) -> str:
    name = name.lower().rstrip(".;")
    return "" if name in _NO_LANGUAGE else name
