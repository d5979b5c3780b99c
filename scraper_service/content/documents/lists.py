"""Lists of files that give each paragraph a level instead of nesting them."""

from __future__ import annotations

from scraper_service.content.documents.markup import element


def nested_list(items: list[tuple[int, str]], tag: str = "ul") -> str:
    """Return items of (level from 0, HTML) as lists inside each other."""
    if not items:
        return ""
    least = min(level for level, _ in items)
    parts = []
    index = 0
    while index < len(items):
        content = items[index][1]
        index += 1
        below = []
        while index < len(items) and items[index][0] > least:
            below.append(items[index])
            index += 1
        parts.append(element("li", content + nested_list(below, tag)))
    return f"{element(tag, ''.join(parts))}\n"
