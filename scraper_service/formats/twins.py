"""Copies of a text for other sizes of screens, of which a reader sees one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from scraper_service.formats.document import drop
from scraper_service.formats.passes import texts_in

MAX_TWINS = 100  # pairs whose texts are compared
MAX_NAMES = 300  # characters of a class attribute that are looked at
_BLOCKS = ("div", "section", "ul")  # more would take too long
# Of Bootstrap, Foundation and Tailwind, and those that sites make up.
_SCREENS = re.compile(
    r"(?:^|[\s_-])(?:hidden-(?:xs|sm|md|lg)|visible-(?:xs|sm|md|lg)|d-(?:\w\w-)?none"
    r"|(?:sm|md|lg|xl|2xl|\]):hidden|hidden (?:\S+ )*\S+:(?:block|flex|grid|inline\S*)"
    r"|(?:hide|show|hidden|visible)-(?:on-|for-)?(?:mobile|desktop|tablet|small|large)"
    r"|(?:mobile|desktop)(?:-only|-show|-hide|-hidden|-visible)?)(?=$|[\s_-])"
)


def drop_twins(body: Any) -> None:
    """Drop each block whose text is that of the one before it, both for some screens.

    Their classes tell, where these differ.
    """
    pairs = []
    for element in body.iter(*_BLOCKS):
        names = element.get("class")
        if names and _are_of_some(names):
            twin = element.getnext()
            others = None if twin is None else twin.get("class")
            if others and others != names and _are_of_some(others):
                pairs.append((element, twin))
    for element, twin in reversed(pairs[:MAX_TWINS]):
        text = "".join("".join(texts_in(element)).split())
        if text and text == "".join("".join(texts_in(twin)).split()):
            drop(twin)


@lru_cache(maxsize=4096)
def _are_of_some(names: str) -> bool:
    return _SCREENS.search(names[:MAX_NAMES]) is not None
