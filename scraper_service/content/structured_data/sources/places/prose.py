"""The text of a record: what was written, or a few sentences about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.sources.places.naming import titles
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.structured_data.sources.scope import Scope

LONG_LINE = 60  # characters of a line that is prose
LEAST_SENTENCE = 2  # words
LEAST_SHARE = 0.25  # of a record's text that the element of its body has

_BODIES = (
    ("post", "body"),
    ("comment", "content"),
    ("message", "content"),
    ("comment", "text"),
    ("comment", "body"),
    ("body",),
    ("content",),
    ("message",),
    ("description",),
    ("prose",),
    ("text",),
    ("md",),
)
_BRIEFS = (
    ("short", "description"),
    ("description",),
    ("summary",),
    ("excerpt",),
    ("teaser",),
    ("snippet",),
    ("intro",),
    ("abstract",),
    ("deck",),
)


def bodies(scope: Scope) -> Iterator[Found]:
    """Yield the text of a record: its elements named so, else its long lines."""
    for words in _BODIES:
        best = max(
            (e for e in scope.named(words) if e not in scope.elements),
            key=lambda e: len(scope.reading.text(e)),
            default=None,
        )
        text = scope.reading.text(best) if best is not None else ""
        share = len(text) / max(1, len(scope.text))
        if len(text) > 3 and (share > LEAST_SHARE or len(text) > LONG_LINE):
            yield Found(text, f"element named {' '.join(words)}", 0.75, best)
            break
    long = [n for n in scope.lines if len(n.text) >= LONG_LINE and not n.heading]
    if not long:
        yield from _rest(scope)
        return
    home = _common(long[0].block, long[-1].block)
    if home is not None and home not in scope.elements and scope.holds(home):
        yield Found(scope.reading.text(home), "text", 0.6, home)
    else:
        text = "\n".join(line.text for line in long)
        yield Found(text, "text", 0.55, long[0].block)


def _rest(scope: Scope) -> Iterator[Found]:
    """Yield what a record has besides its title, where that is a sentence or two."""
    title = next(titles(scope), None)
    lines = [n for n in scope.lines if title is None or n.text != title.text]
    texts = [line.text for line in lines if len(line.text.split()) >= LEAST_SENTENCE]
    if texts:
        yield Found("\n".join(texts), "text", 0.5, lines[0].block)


def briefs(scope: Scope) -> Iterator[Found]:
    """Yield a few sentences about a record, which are not its title."""
    title = next(titles(scope), None)
    name = title.text if title else ""
    for element in scope.elements:
        if element.tag == "dd" and any(e.tag == "dt" for e in scope.elements):
            yield Found(scope.reading.text(element), "definition", 0.8, element)
            return
    for words in _BRIEFS:
        for element in scope.named(words):
            text = scope.reading.text(element)
            if element in scope.elements or _is_named(text, name) or len(text) < 3:
                continue
            yield Found(text, f"element named {' '.join(words)}", 0.75, element)
            return
    for line in scope.lines:
        if len(line.text) >= LONG_LINE and not line.heading and line.text != name:
            yield Found(line.text, "text", 0.6, line.block)
            return
    for found in _rest(scope):
        yield Found(found.text.split("\n")[0], found.source, 0.45, found.element)


def _is_named(text: str, name: str) -> bool:
    """Tell whether a text is that of the whole record: it begins with the title."""
    return bool(name) and (text == name or text.startswith(f"{name}\n"))


def _common(one: Any, other: Any) -> Any:
    above = [one, *one.iterancestors()]
    return next((e for e in [other, *other.iterancestors()] if e in above), None)
