"""Answers in JSON that need no version of the API: constants, 404 and 405."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twisted.web.resource import Resource

from scraper_service.api.errors import error_body
from scraper_service.api.page_json import encode

if TYPE_CHECKING:
    from twisted.web.server import Request


class Constant(Resource):
    """A resource that always has the same members, and nothing below it."""

    isLeaf = True

    def __init__(self, members: dict[str, Any]):
        super().__init__()
        self._body = encode(members)

    def render(self, request: Request) -> bytes:
        if request.postpath:
            return not_found(request)
        refusal = refused_method(request)
        return self._body if refusal is None else refusal


class NotFound(Resource):
    """A 404 in JSON, for everything below."""

    isLeaf = True

    def render(self, request: Request) -> bytes:
        return not_found(request)


def not_found(request: Request) -> bytes:
    """Return the body of a 404."""
    request.setResponseCode(404)
    return encode(error_body("Not found"))


def refused_method(request: Request) -> bytes | None:
    """Return the body of a 405; None for the methods GET and HEAD."""
    if request.method in {b"GET", b"HEAD"}:
        return None
    request.setResponseCode(405)
    request.setHeader(b"Allow", b"GET, HEAD")
    return encode(error_body("Method not allowed"))
