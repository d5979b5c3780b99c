"""Exports: the pages, errors or URLs of a job as one file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.api.openapi.route import Parameter, Route
from scraper_service.api.parameters import (
    SKIP,
    ChoiceParameter,
    HeaderParameter,
    NumberParameter,
    argument,
    parse_job_id,
)
from scraper_service.api.responses import RESULT_MEMBERS, Metadata, PageErrorJson
from scraper_service.api.routes.crawl_report import JobUrlJson
from scraper_service.api.routing import Routes
from scraper_service.api.streams.export_stream import ExportStream
from scraper_service.errors import (
    ExportUnavailable,
    InvalidParameter,
    JobNotFound,
    JobRunning,
    QueueFull,
    RangeInvalid,
    SourcesNotStored,
)
from scraper_service.exports.formats import ERRORS, FORMATS, PAGES, URLS, WHAT
from scraper_service.exports.job_exports import ExportQuery
from scraper_service.exports.tables import COLUMNS
from scraper_service.options.limits import Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.api.http_server import JsonRequest

MAX_FIELDS = 100
MAX_FIELD = 200  # characters
MAX_ROWS = 2**31 - 1

_FORMAT = ChoiceParameter("format", "The format of the file.", (*FORMATS,), "jsonl")
_WHAT = ChoiceParameter("what", "What the file has a row for.", WHAT, PAGES)
_LIMIT = NumberParameter("limit", "Have at most N rows.", 1, MAX_ROWS)
_RANGE = HeaderParameter(
    "Range",
    "One range of bytes of the file of a job that has ended, with status 206.",
    {"type": "string", "examples": ["bytes=0-1023"]},
)
_IF_RANGE = HeaderParameter(
    "If-Range", "The ETag of the file that the range continues.", {"type": "string"}
)
# Keys of a page and of its metadata, which paths begin with.
_KEYS = {
    PAGES: frozenset((*RESULT_MEMBERS, *Metadata.shape["properties"])),
    ERRORS: frozenset(COLUMNS[ERRORS]),
    URLS: frozenset(COLUMNS[URLS]),
}
_ROWS: dict[str, Callable[[Any], bytes]] = {
    PAGES: bytes,
    ERRORS: PageErrorJson.to_json,
    URLS: JobUrlJson.to_json,
}
_SEGMENT = re.compile(r"[^\s.,]+")


@frozen
class _FieldsParameter(Parameter):
    """The parameter ``fields``: paths of values, separated by commas."""

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "examples": ["url,metadata.title"]}

    def read(self, request: JsonRequest, what: str) -> tuple[str, ...]:
        """Return the paths, none if the parameter is missing.

        Raises :exc:`InvalidParameter`.
        """
        text = argument(request, self.name)
        if text is None:
            return ()
        paths = tuple(each.strip() for each in text.split(","))
        if len(paths) > MAX_FIELDS:
            raise InvalidParameter(
                f"Invalid fields: must be at most {MAX_FIELDS} paths, got {len(paths)}"
            )
        for number, path in enumerate(paths):
            if path in paths[:number]:
                raise InvalidParameter(
                    f"Invalid fields: each path must be given once, got {path[:60]!r} twice"
                )
        for path in paths:
            self._check(path, _KEYS[what])
        return paths

    def _check(self, path: str, keys: frozenset[str]) -> None:
        parts = path.split(".")
        is_path = len(path) <= MAX_FIELD and all(map(_SEGMENT.fullmatch, parts))
        if not is_path or parts[0] not in keys:
            text = (
                f"Invalid fields: a path must begin with one of {', '.join(sorted(keys))},"
                f" got {path[:60]!r}"
            )
            if is_path and "metadata" in keys:
                text += f"; another key of the metadata is metadata.{path[:60]}"
            raise InvalidParameter(text)


_FIELDS = _FieldsParameter(
    "fields",
    "Have these values alone, such as `url,metadata.title`: columns, or keys of each line.",
)
_PARAMETERS = (_FORMAT, _WHAT, _FIELDS, SKIP, _LIMIT, _RANGE, _IF_RANGE)


class ExportRoutes(Routes):
    """Files with the pages, errors or URLs of a crawl or batch."""

    @Route(
        ("GET /crawl/<job_id>/export", "GET /batch/scrape/<job_id>/export"),
        returns={},
        parameters=_PARAMETERS,
        errors=(
            *(JobNotFound, ExportUnavailable, JobRunning, SourcesNotStored),
            *(QueueFull, RangeInvalid),
        ),
        failures={206: {}},
        media=tuple(dict.fromkeys(each.content_type for each in FORMATS.values())),
        is_own=True,
    )
    async def export(self, request: JsonRequest, job_id: str) -> ExportStream:
        """Return the pages of a job as a file.

        The header `X-Total-Pages` has the number of rows, `X-Job-Status` the status of the
        job. The file of a job that has ended has an `ETag` and can be read in ranges.
        """
        team, _ = await self.checks.admit(request, Mode.CRAWL_STATUS)
        query = self._query(request)
        export = await self.services.exports.open(parse_job_id(job_id), team.id, query)
        if request.method != b"HEAD":
            self.api.watchers.exports.check(team)
        return ExportStream(self.api, export, team)

    def _query(self, request: JsonRequest) -> ExportQuery:
        """Return what a request asks for. Raises :exc:`InvalidParameter`."""
        name, what = _FORMAT.read(request), _WHAT.read(request)
        assert name is not None
        assert what is not None
        found = FORMATS[name]
        fields = _FIELDS.read(request, what)
        if what not in found.rows:
            can = ", ".join(each for each in FORMATS if what in FORMATS[each].rows)
            raise InvalidParameter(
                f"Invalid what: {what} can be exported as {can}, got format {name}"
            )
        if fields and not found.takes_fields:
            can = ", ".join(each for each in FORMATS if FORMATS[each].takes_fields)
            raise InvalidParameter(
                f"Invalid fields: only {can} take fields, got format {name}"
            )
        return ExportQuery(
            format=name,
            what=what,
            fields=fields,
            skip=SKIP.read(request),
            limit=_LIMIT.find(request),
            gzip=_accepts_gzip(request.headers_of("Accept-Encoding")),
            base=self.base_url(request),
            row=_ROWS[what],
        )


def _accepts_gzip(header: str) -> bool:
    """Return True if a header ``Accept-Encoding`` names gzip (RFC 9110, 12.5.3)."""
    for each in header.lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in {"gzip", "x-gzip"}:
            return not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", weight)
    return False
