"""Files of callers in, pages out (interface document, 20.1)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.application import asyncio_route, note_caller, warning_of
from scraper_service.api.fields.common import ignored_names
from scraper_service.api.page_json import encode
from scraper_service.api.request_body import ignored_of
from scraper_service.api.routes.common import joined
from scraper_service.api.routes.files import with_base
from scraper_service.api.uploads import read_form
from scraper_service.api.v2 import requests, responses
from scraper_service.content.documents.kinds import KINDS
from scraper_service.options.available import can_recognise_text
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from klein import Klein

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import Api

_PLAIN: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("html", ("html", "htm", "xhtml"), ("text/html", "application/xhtml+xml")),
    ("pdf", ("pdf",), ("application/pdf",)),
    ("json", ("json",), ("application/json",)),
    ("xml", ("xml",), ("application/xml", "text/xml")),
    ("txt", ("txt", "text", "log"), ("text/plain",)),
)
_PICTURES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("png", ("png",), ("image/png",)),
    ("jpeg", ("jpg", "jpeg"), ("image/jpeg",)),
    ("tiff", ("tif", "tiff"), ("image/tiff",)),
    ("bmp", ("bmp",), ("image/bmp",)),
    ("gif", ("gif",), ("image/gif",)),
)
_REFUSED = frozenset({"doc", "ppt", "encrypted"})  # known, to say why they are not read
_LIBRARIES = {"xls": "python_calamine"}  # of the extra "documents"


def file_formats() -> list[dict[str, Any]]:
    """Return the kinds of files that can be sent, and whether each works here."""
    found = [_row(*kind, available=True) for kind in _PLAIN]
    for kind in KINDS.values():
        if kind.name not in _REFUSED:
            library = _LIBRARIES.get(kind.name)
            works = library is None or find_spec(library) is not None
            names = (kind.name, kind.extensions, kind.mime_types)
            found.append(_row(*names, available=works))
    reads = can_recognise_text()
    return found + [_row(*kind, "image", available=reads) for kind in _PICTURES]


def _row(
    name: str,
    extensions: tuple[str, ...],
    mime_types: tuple[str, ...],
    kind: str = "document",
    *,
    available: bool,
) -> dict[str, Any]:
    return {
        "format": name,
        "kind": kind,
        "extensions": list(extensions),
        "mimeTypes": list(mime_types),
        "available": available,
    }


def add_parse_routes(app: Klein) -> None:
    """Give ``app`` the routes for uploaded files."""
    ignored = ignored_names(requests.PARSE.fields)

    @app.route("/parse", methods=["POST"])
    @asyncio_route
    async def parse(api: Api, request: JsonRequest) -> bytes:
        team = await api.edge.admit_file(request, Mode.SCRAPE)
        await api.service.charges.require(team, api.service.prices.page)
        form = await read_form(request)
        options = requests.parse_options(form.options)
        options = evolve(options, url=form.file.name)
        note_caller(request, options)
        page = await api.service.parse(form.file, options, team, 2)
        warning = warning_of(ignored_of(form.options, ignored))
        page = evolve(page, warning=joined(page.warning, warning))
        answer = responses.parsed(request, page, options)
        return with_base(answer, api.edge.addresses.base(request))

    @app.route("/parse/formats", methods=["GET"])
    @asyncio_route
    async def formats(api: Api, request: JsonRequest) -> bytes:
        await api.edge.admit(request, Mode.CRAWL_STATUS)
        return encode({"success": True, "data": {"formats": file_formats()}})
