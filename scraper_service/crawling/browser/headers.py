"""The caller's headers: sent to the origin that was asked for, and to no other."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from scraper_service.options.origins import origin, root_url

if TYPE_CHECKING:
    from scraper_service.options.origins import OriginT


class OwnHeaders:
    """What a caller gave for an origin: ``cookies`` for its host, and ``others``."""

    def __init__(self, asked: OriginT, given: tuple[tuple[str, str], ...]):
        self._asked = asked
        self.others = {n.lower(): (n, v) for n, v in given if n.lower() != "cookie"}
        self.cookies: list[dict[str, Any]] = [
            {"name": name, "value": value, "url": root_url(asked)}
            for header, text in given
            if header.lower() == "cookie"
            for name, value in _pairs(text)
        ]

    def of(self, request: dict[str, Any]) -> list[dict[str, str]]:
        """Return the headers that a request of the page is to have.

        ``request`` is one of the browser's own protocol.
        """
        sent = {k.lower(): (k, v) for k, v in request["headers"].items()}
        if origin(request["url"]) == self._asked:
            sent |= self.others
        else:
            # A redirect takes along what was set for the request before.
            for name, (_, value) in self.others.items():
                if sent.get(name, ("", ""))[1] == value:
                    del sent[name]
        return [{"name": name, "value": value} for name, value in sent.values()]


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = SimpleCookie(text)
    except CookieError:
        return []
    return [(name, morsel.coded_value) for name, morsel in found.items()]
