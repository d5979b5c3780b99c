"""Lists that stand below a heading or beside a label."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.fields.concepts import phrase_of, singular
from scraper_service.content.structured_data.sources import places
from scraper_service.content.structured_data.sources.scope import Found

if TYPE_CHECKING:
    from scraper_service.content.structured_data.sources.reading import Line
    from scraper_service.content.structured_data.sources.scope import Scope

MAX_LINES = 200  # of a section
MAX_TEXTS = 20  # lines of a section without a list
MAX_BETWEEN = 6  # lines between a label and its list
MAX_LABEL = 60  # characters
MAX_HEADING = 100
MAX_CHOICES = 40  # of a select or of radio buttons
CHOICE_LINES = 40  # of what is around choices
LEAST_ALIKE = 0.5  # share of a field's words that a heading has
LEAST_ITEMS = 3
LEAST_WORDS = 3  # of an item on average, where the list has no label

_CHOOSE = re.compile(r"^(?:choose|select|please|pick|all|any|-)", re.IGNORECASE)
_LABELS = frozenset({"strong", "b", "summary", "legend", "dt", "button", "th"})


def items_below(scope: Scope, line: Line) -> Found | None:
    """Return the items of the lists behind a line, up to the next heading.

    Behind a heading without a list these are its lines of text, which are trusted less.
    """
    items: list[str] = []
    texts: list[str] = []
    holder = None
    lines = scope.reading.lines[line.number + 1 : line.number + MAX_LINES]
    for following in lines:
        if following.heading and following.heading <= (line.heading or 6):
            break
        item = _item_around(following.block, line.block)
        parent = item.getparent() if item is not None else following.block
        is_apart = holder is not None and not _are_close(holder, parent)
        if item is None:
            if (items and (following.heading or is_apart)) or (
                not items and not line.heading and len(texts) >= MAX_BETWEEN
            ):
                break
            texts.append(following.text)
            continue
        if is_apart and not line.heading:
            break
        holder = holder if holder is not None else parent
        text = places.one_line(scope, item)
        if text and text not in items:
            items.append(text)
    label = f'below "{line.text[:MAX_LABEL]}"'
    if items:
        return Found(", ".join(items), f"list {label}", 0.75, holder, tuple(items))
    if texts and line.heading:
        return Found(texts[0], f"text {label}", 0.35, None, tuple(texts[:MAX_TEXTS]))
    return None


def _item_around(block: Any, label: Any) -> Any:
    """Return the outermost item of a list around a block that has no label around it."""
    found = None
    above = {label, *label.iterancestors()}
    for element in (block, *block.iterancestors()):
        if element in above or element.tag in {"body", "table"}:
            break
        if element.tag in {"li", "dd"}:
            found = element
    return found


def _are_close(one: Any, other: Any) -> bool:
    near = [one, *list(one.iterancestors())[:2]]
    return any(element in near for element in (other, *other.iterancestors()))


def choices(scope: Scope, line: Line) -> Found | None:
    """Return what can be chosen beside a label: sizes, colours."""
    reading = scope.reading
    for place, holder in enumerate(
        line.block.iterancestors() if not line.heading else ()
    ):
        start, end = reading.span(holder)
        if place > 3 or holder.tag in {"form", "body"} or end - start > CHOICE_LINES:
            return None
        texts = [" ".join((e.text or "").split()) for e in holder.iter("option")]
        texts += [
            given.get("value") or ""
            for given in holder.iter("input")
            if given.get("type") == "radio"
        ]
        texts = [t for t in dict.fromkeys(texts) if t and not _CHOOSE.match(t)]
        if 1 < len(texts) <= MAX_CHOICES:
            label = f'choices of "{line.text[:MAX_LABEL]}"'
            return Found(", ".join(texts), label, 0.75, holder, tuple(texts))
    return None


def alike(scope: Scope, words: frozenset[str]) -> Found | None:
    """Return the list below the heading that has most of some words, at least half."""
    best, most = None, LEAST_ALIKE
    for line in scope.lines:
        if line.frame or len(line.text) > MAX_HEADING or not _is_label(line):
            continue
        own = set(phrase_of(line.text).split())
        own |= {singular(word) for word in own}
        share = len(words & own) / max(1, len(words))
        is_better = share > most if best is not None else share >= most
        if is_better and not places.is_foreign(line.block):
            found = items_below(scope, line)
            best, most = (found, share) if found is not None else (best, most)
    if best is None:
        return None
    return Found(best.text, best.source, 0.35 + 0.3 * most, best.element, best.parts)


def _is_label(line: Line) -> bool:
    """Tell whether a line looks as if it named what stands below it."""
    if line.heading or line.text.endswith(":"):
        return True
    names = {element.tag for _, element in line.parts} | {line.block.tag}
    return len(line.text) <= MAX_LABEL and names <= _LABELS


def first_list(scope: Scope) -> Found | None:
    """Return the first list of texts behind the main heading, which are no links."""
    heading = places.main_heading(scope)
    if heading is None:
        return None
    start = scope.reading.order[heading]
    for holder in scope.all("ul"):
        if scope.reading.order[holder] < start or places.is_foreign(holder):
            continue
        entries = list(holder.iterchildren("li"))
        items = [places.one_line(scope, entry) for entry in entries]
        words = sum(len(item.split()) for item in items)
        linked = [e for e in entries if next(e.iter("a", "button"), None) is not None]
        is_prose = len(items) >= LEAST_ITEMS and words >= LEAST_WORDS * len(items)
        if is_prose and len(linked) < len(items) / 3:
            return Found(", ".join(items), "first list", 0.5, holder, tuple(items))
    return None
