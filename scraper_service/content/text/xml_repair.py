"""Repairs the text of XML documents for a parser, piece by piece."""

from __future__ import annotations

import html
import re
from functools import lru_cache
from html.entities import html5

_DECLARATION = re.compile(r"\s*<\?xml.*?\?>", re.DOTALL | re.IGNORECASE)
_DOCTYPE = re.compile(r"<!DOCTYPE", re.IGNORECASE)
_END_OF_DOCTYPE = re.compile(r"[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)
_REFERENCE = re.compile(
    r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&(?!(?:amp|lt|gt|quot|apos);)(#?\w{1,32};)?", re.DOTALL
)
FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def cut_of(text: str) -> int:
    """Return how many characters of ``text`` can be parsed before more text comes.

    The cut keeps references and CDATA sections whole for :func:`repair_text`.
    """
    end = text.rfind(">") + 1
    section = text.rfind("<![CDATA[", 0, end)
    return section if section > text.rfind("]]>", 0, end) else end


def without_prolog(text: str) -> str:
    """Remove XML declaration and document type; line numbers stay the same."""
    if part := _DECLARATION.match(text):
        text = "\n" * part[0].count("\n") + text[part.end() :]
    begin = _DOCTYPE.search(text)
    if begin and (part := _END_OF_DOCTYPE.match(text, begin.end())):
        lines = "\n" * part[0].count("\n")
        text = text[: begin.start()] + lines + text[part.end() :]
    return text


def repair_text(text: str) -> str:
    """Replace references unknown to XML, and remove forbidden characters."""
    text = FORBIDDEN.sub("", text)
    return _REFERENCE.sub(_replacement, text) if "&" in text else text


def _replacement(match: re.Match[str]) -> str:
    if match[0][0] == "<":
        return match[0]
    if not match[1]:
        return "&amp;"  # unescaped, as in a URL with a query
    return _resolve_reference(match[0])


@lru_cache(maxsize=256)
def _resolve_reference(reference: str) -> str:
    name = reference[1:]
    text = html.unescape(reference) if name[0] == "#" else html5.get(name, reference)
    return html.escape(FORBIDDEN.sub("", text))
