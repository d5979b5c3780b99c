"""Jobs over HTTP: what both versions share (interface document, parts 11 and 12)."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from scraper_service.api.connections import Proxies
from scraper_service.api.page_json import camel, encode, iso
from scraper_service.errors import IdempotencyKeyUsed, InvalidParameter
from scraper_service.storage.job_records import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scraper_service.api.http_server import JsonRequest
    from scraper_service.storage.job_records import Job, PageErrorRow

PATHS = {"crawl": "crawl", "batch": "batch/scrape"}
MAX_PAGES = 1000  # in one answer
MAX_SKIP = 2**31 - 1
MAX_DIGITS = 18
_PAGING = frozenset({"skip", "limit"})


@frozen
class Addresses:
    """How the service is reached from outside, for the addresses in answers.

    ``public_url`` wins; else the request's own host counts, and what one of
    ``proxies`` says of it.
    """

    public_url: str = ""
    proxies: Proxies = field(factory=Proxies)

    def base(self, request: JsonRequest) -> str:
        """Return scheme, host and port, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = request.header("Host") or "localhost"
        scheme = "http"
        if getattr(request.getClientAddress(), "host", "") in self.proxies:
            host = _first(request, "X-Forwarded-Host") or host
            scheme = _first(request, "X-Forwarded-Proto") or scheme
        return f"{'https' if scheme == 'https' else 'http'}://{host}"


def _first(request: JsonRequest, name: str) -> str:
    """Return what the outermost of several proxies said in a header."""
    return request.headers_of(name).partition(",")[0].strip()


def job_id(text: str) -> str:
    """Return the id in a path; raise :exc:`InvalidParameter` if it is no UUID."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidParameter(
            f"Invalid job ID format: must be a UUID, got {text[:60]!r}"
        ) from None


def idempotency_key(request: JsonRequest) -> str | None:
    """Return the key of a request; raise :exc:`IdempotencyKeyUsed` if it is no UUID."""
    text = request.header("x-idempotency-key")
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise IdempotencyKeyUsed("Idempotency key already used") from None


def paging(request: JsonRequest) -> tuple[int | None, int | None]:
    """Return ``skip`` and ``limit`` of the query, None where not given.

    Raises :exc:`InvalidParameter`.
    """
    return (
        number(request, "skip", 0, MAX_SKIP),
        number(request, "limit", 1, MAX_PAGES),
    )


def argument(request: JsonRequest, name: str) -> str | None:
    """Return a parameter of the query, None where it is not given.

    Raises :exc:`InvalidParameter` for two of it, and for NUL, which PostgreSQL refuses.
    """
    values = (request.args or {}).get(name.encode()) or []
    if len(values) > 1:
        kind = "pagination" if name in _PAGING else name
        raise InvalidParameter(
            f"Invalid {kind}: {name} must be given once, got {len(values)} of it"
        )
    text = values[0].decode("utf-8", "replace") if values else None
    if text is not None and "\0" in text:
        raise InvalidParameter(f"Invalid {name}: must not contain NUL")
    return text


def number(request: JsonRequest, name: str, low: int, high: int) -> int | None:
    """Return a number of the query; raise :exc:`InvalidParameter`."""
    text = argument(request, name)
    if text is None:
        return None
    if not is_number(text, low, high):
        raise InvalidParameter(
            f"Invalid pagination: {name} must be an integer from {low} to {high},"
            f" got {text[:60]!r}"
        )
    return int(text)


def is_number(text: str, low: int, high: int) -> bool:
    """Return True for at most 18 ASCII digits, a number from ``low`` to ``high``."""
    # Python refuses to parse numbers of some thousand digits.
    is_short = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return is_short and low <= int(text) <= high


def started(
    job: Job,
    base: str,
    version: str,
    invalid_urls: Iterable[str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> bytes:
    """Answer the start of a job; ``facts`` are further members."""
    members: dict[str, Any] = {
        "success": True,
        "id": job.id,
        "url": f"{base}/{version}/{PATHS[job.kind]}/{job.id}",
    }
    if invalid_urls is not None:
        members["invalidURLs"] = list(invalid_urls)
    return encode({**members, **(facts or {})})


def status(
    job: Job,
    pages: list[bytes],
    asked: tuple[int | None, int | None],
    path: str,
    facts: dict[str, Any],
) -> bytes:
    """Answer the status of a job with a chunk of its pages.

    ``path`` is the absolute address of the status; ``facts`` are members of the
    version's own.
    """
    skip, limit = asked
    members = _members(job, facts)
    after = (skip or 0) + len(pages)
    # An empty chunk that was asked for has no next: clients that follow it without
    # comparing would spin while the job goes on.
    if job.pages > after or (job.is_active and (pages or skip is None)):
        more = f"&limit={limit}" if limit is not None else ""
        members["next"] = f"{path}?skip={after}{more}"
    return b'%s,"data":[%s]}' % (encode(members)[:-1], b",".join(pages))


def snapshot(
    job: Job,
    pages: list[bytes],
    facts: dict[str, Any],
    state: JobState | None = None,
) -> list[bytes]:
    """Return the status of a job without ``next``, as parts that belong together.

    ``state`` is shown in place of the job's own.
    """
    members = _members(job if state is None else evolve(job, state=state), facts)
    with_commas = [part for page in pages for part in (b",", page)][1:]
    return [encode(members)[:-1], b',"data":[', *with_commas, b"]}"]


def _members(job: Job, facts: dict[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {
        "success": True,
        "status": shown(job.state),
        "total": job.total,
        "completed": job.pages,
        "creditsUsed": job.credits,
        "expiresAt": iso(job.expires_at),
        **facts,
    }
    if job.state is JobState.FAILED:
        members["error"] = error_of(job)
    return members


def error_of(job: Job) -> str:
    """Return why a job failed."""
    return job.error or "The job failed."


def errors(rows: list[PageErrorRow], robots_blocked: list[str]) -> bytes:
    """Answer the pages of a job that failed or that robots.txt refuses."""
    found = [
        {
            "id": row.id,
            "timestamp": iso(row.at),
            "url": row.url,
            "code": row.code,
            "error": row.error,
        }
        for row in rows
    ]
    return encode({"success": True, "errors": found, "robotsBlocked": robots_blocked})


def cancelled() -> bytes:
    """Answer a cancel."""
    return encode({"success": True, "status": "cancelled"})


def active(
    jobs: list[Job], crawl_names: dict[str, str], page_names: dict[str, str]
) -> bytes:
    """Answer the crawls that go on.

    The names are the keys that the version has for options of a crawl and of a page;
    an option without one is left out.
    """
    crawls = []
    for job in jobs:
        options = json.loads(job.options)
        scrape, _ = options.pop("scrape"), options.pop("url")
        spelled = _spelled(options, crawl_names)
        spelled["scrapeOptions"] = _spelled(scrape, page_names)
        crawls.append(
            {
                "id": job.id,
                "teamId": job.team_id,
                "url": job.url,
                "created_at": iso(job.created_at),
                "options": spelled,
            }
        )
    return encode({"success": True, "crawls": crawls})


def _spelled(options: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    result = {}
    for name, value in options.items():
        key = names.get(name)
        if key is not None and value not in (None, []):
            result[key] = _SPELLINGS.get(key, _as_it_is)(value)
    return result


def _as_it_is(value: Any) -> Any:
    return value


def _typed(values: list[dict[str, Any]]) -> list[Any]:
    """Return formats and the like; one without options of its own is just its name."""
    spelled = []
    for value in values:
        item = {camel(k): v for k, v in value.items() if v is not None and v != ""}
        item["type"] = camel(item["type"])
        spelled.append(item if len(item) > 1 else item["type"])
    return spelled


# Values that a body has in another form than the options, by key.
_SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "actions": _typed,
    "formats": _typed,
    "headers": dict,
    "ignoreSitemap": lambda sitemap: sitemap == "skip",
    "parsePDF": bool,
    "parsers": _typed,
    "threatProtection": lambda rules: {camel(k): v for k, v in rules.items()},
}


def shown(state: JobState) -> str:
    """Return the word for a state; a queued job is shown as scraping."""
    return "scraping" if state is JobState.QUEUED else state.value
