"""Scrapes, uploaded files and maps: routes that return their results at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.api.application import joined, note_caller, with_base
from scraper_service.api.errors import PAGE_STATUSES, WORK_ERRORS
from scraper_service.api.openapi.described import Described
from scraper_service.api.openapi.shapes import (
    BOOL,
    ID,
    TEXT,
    array,
    one_of,
    ref,
    shape,
    success,
)
from scraper_service.api.parameters import parse_job_id
from scraper_service.api.request_body import ignored_of, warning_of
from scraper_service.api.requests.pages import ignored_names
from scraper_service.api.responses import encode
from scraper_service.api.uploads import read_form
from scraper_service.api.version import Routes
from scraper_service.content.documents.kinds import KINDS
from scraper_service.errors import JobNotFound, MapTimedOut
from scraper_service.options.availability import can_recognise_text
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.api.version import RouteT

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
_FORMATS = success(
    {
        "data": shape(
            {
                "formats": array(
                    shape(
                        {
                            "format": TEXT,
                            "kind": one_of("document", "image"),
                            "extensions": array(TEXT),
                            "mimeTypes": array(TEXT),
                            "available": BOOL,
                        }
                    )
                )
            }
        )
    }
)


class PageRoutes(Routes):
    """Scrapes and maps."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/scrape", self.scrape),
            ("GET", "/scrape/<scrape_id>", self.read_scrape),
            ("POST", "/map", self.map_site),
        )

    @Described(
        returns="SCRAPED",
        body="PAGE",
        example={"url": "https://example.com", "formats": ["markdown", "links"]},
        errors=(*WORK_ERRORS, *PAGE_STATUSES),
    )
    async def scrape(self, request: JsonRequest) -> bytes:
        """Fetch one page and return its formats."""
        team, body, _ = await self.checks.admit_work(request, Mode.SCRAPE)
        options = await body.read(self.api.requests.page_options)
        note_caller(request, options)
        warning = await body.warning(ignored_names(self.api.requests.PAGE.fields))
        page = await self.services.scraping.scrape(options, team, self.api.version)
        page = evolve(page, warning=joined(page.warning, warning))
        answer = self.api.responses.scraped(request, page, options)
        return with_base(answer, self.base_url(request))

    @Described(returns=success({"data": ref("Page")}), errors=(JobNotFound,))
    async def read_scrape(self, request: JsonRequest, scrape_id: str) -> bytes:
        """Return a page that was scraped, as long as it is stored."""
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        page = await self.services.scraping.stored_scrape(parse_job_id(scrape_id), team)
        answer = b'{"success":true,"data":%s}' % page
        return with_base(answer, self.base_url(request))

    @Described(
        returns="MAPPED",
        body="MAP",
        example={"url": "https://example.com", "limit": 100},
        errors=(*WORK_ERRORS, *PAGE_STATUSES, MapTimedOut),
    )
    async def map_site(self, request: JsonRequest) -> bytes:
        """Return the URLs of a site."""
        team, body, _ = await self.checks.admit_work(request, Mode.MAP)
        options = await body.read(self.api.requests.map_options)
        note_caller(request, options)
        warning = await body.warning(ignored_names(self.api.requests.MAP.fields))
        found = await self.services.scraping.map(
            options, team, self.api.version, self.api.responses.MAP_SHAPE
        )
        found.warnings.extend(filter(None, [warning]))
        answer: bytes = self.api.responses.mapped(request, found)
        return answer


class FileRoutes(Routes):
    """Uploaded files, see docs/api.md, Uploads."""

    def routes(self) -> Iterable[RouteT]:
        return (
            ("POST", "/parse", self.parse),
            ("GET", "/parse/formats", self.formats),
        )

    @Described(
        returns=success({"data": ref("Page"), "scrape_id?": ID}),
        body="PARSE",
        takes_file=True,
        example={"formats": ["markdown"]},
        errors=(*WORK_ERRORS, *PAGE_STATUSES),
    )
    async def parse(self, request: JsonRequest) -> bytes:
        """Convert an uploaded file and return its formats."""
        team = await self.checks.admit_file(request, Mode.SCRAPE)
        await self.checks.charges.require(team, self.checks.prices.page)
        form = await read_form(request)
        options = self.api.requests.parse_options(form.options)
        options = evolve(options, url=form.file.name)
        note_caller(request, options)
        page = await self.services.scraping.parse(
            form.file, options, team, self.api.version
        )
        ignored = ignored_names(self.api.requests.PARSE.fields)
        warning = warning_of(ignored_of(form.options, ignored))
        page = evolve(page, warning=joined(page.warning, warning))
        answer = self.api.responses.parsed(request, page, options)
        return with_base(answer, self.base_url(request))

    @Described(returns=_FORMATS)
    async def formats(self, request: JsonRequest) -> bytes:
        """Return the kinds of files that can be uploaded."""
        await self.checks.admit(request, Mode.CRAWL_STATUS)
        return encode({"success": True, "data": {"formats": file_formats()}})


def file_formats() -> list[dict[str, Any]]:
    """Return the kinds of files that can be sent, and whether each works here."""
    found = [_row(*kind, available=True) for kind in _PLAIN]
    for kind in KINDS.values():
        if kind.refusal is None:
            names = (kind.name, kind.extensions, kind.mime_types)
            found.append(_row(*names, available=True))
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
