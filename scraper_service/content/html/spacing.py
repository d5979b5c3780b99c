"""Adds spaces between words, links and prices that only styles separate."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.passes import texts_in, unseparated

# For writing systems with spaces between words; a single letter is part of a word.
_ENDS_WORD = re.compile(r"(?:[^\W\u2e80-\uffff]{2}|\w\))$")
_BEGINS_WORD = re.compile(r"[^\W\u2e80-\uffff]{2}")
_ENDS_PHRASE = re.compile(r"\w[a-z\u00df-\u00f6\u00f8-\u00ff)]\Z")
_BEGINS_NAME = re.compile(r"[A-Z][a-z]")
_REDUCTION = re.compile(r"\d\d?%")
_CURRENCY = frozenset("$\u20ac\u00a3")
# Class names of labels and values: a pair of them is not one word.
_LABELS = re.compile(r"(?:^|[\s_-])(?:label|name|key|title|value|count)(?=$|[\s_-])")
_ENDS_LABEL = re.compile(r"[^\W\d_]:\Z")
# Roles of elements with a place of their own.
_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader", "tooltip"})
_EXACT = frozenset({"pre", "code", "kbd", "samp", "tt", "math", "textarea"})


def separate_words(body: Any) -> None:
    """Add a space between links, and between spans of one class, that styles separate.

    The space also goes between other links, spans and bold texts in these cases: a new
    word begins behind several words, a new price begins, a value follows its label, a
    cell follows another one, or a note follows its mark in the text.
    """
    for element, behind in unseparated(
        body, "a", "span", "b", "strong", "sup", "input"
    ):
        if behind.tag == "sup":
            continue
        if behind.tag == element.tag and (
            element.tag == "a"
            or (element.get("class") and element.get("class") == behind.get("class"))
        ):
            before, after = "".join(texts_in(element)), "".join(texts_in(behind))
            is_end = bool(_ENDS_WORD.search(before[-3:]) and _BEGINS_WORD.match(after))
        else:
            after = behind.text or "".join(texts_in(behind))
            if not after[:1].isalnum() and after[:1] not in _CURRENCY:
                continue
            before = "".join(texts_in(element))
            is_note = behind.tag == "a" and after.isdigit()
            is_end = (
                not is_note and _are_apart(before, after)
            ) or _are_label_and_value(element, behind, before)
        if (is_end or _is_placed(element, behind)) and not any(
            above.tag in _EXACT for above in element.iterancestors()
        ):
            element.tail = " "


def _is_placed(element: Any, behind: Any) -> bool:
    """Return True for a cell or a note, which styles place beside the text."""
    if element.tag == "input" or behind.get("role") in _ROLES:
        return True
    return element.tag == "sup" and " " in "".join(texts_in(behind)).strip()


def _are_apart(before: str, after: str) -> bool:
    """Return True if a word or a price ends and a new one begins, by their letters."""
    first = after[0]
    if before[-1:].isdigit():
        if first in _CURRENCY or (before[:1] in _CURRENCY and _REDUCTION.match(after)):
            return True
        if not _BEGINS_NAME.match(after):
            return False
    elif first.islower() or first in _CURRENCY or not _ENDS_PHRASE.search(before[-2:]):
        return False
    return " " in f"{before}{after}".strip()


def _are_label_and_value(element: Any, behind: Any, before: str) -> bool:
    """Return True for a label and its value, by a colon or by their class names."""
    if _ENDS_LABEL.search(before[-2:]):
        return True
    names, others = element.get("class"), behind.get("class")
    return bool(
        names
        and others
        and _LABELS.search(names)
        and _LABELS.search(others)
        and _ENDS_WORD.search(before[-3:])
    )
