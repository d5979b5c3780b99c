"""What is asked of a page or a job on the command line, as the body of a call of /v2.

One spelling serves both: a service takes the body as it is, and a run without one reads
it by the same rules (:mod:`scraper_service.cli.reading`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from scraper_service.cli.catalogue import NAMES, WITH_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

FURTHER = "further"
_LEFT_OUT = frozenset({"sources", "categories", "includeDomains"})  # where empty


@frozen
class Option:
    """An option of a command for the ``key`` of a body, with what click is told."""

    key: str
    flags: tuple[str, ...]
    facts: Mapping[str, Any]

    def add_to(self, command: Callable[..., Any]) -> Callable[..., Any]:
        return click.option(*self.flags, self.key, **self.facts)(command)


def _one(key: str, *flags: str, **facts: Any) -> Option:
    return Option(key, flags, facts)


def _many(key: str, *flags: str, **facts: Any) -> Option:
    return Option(key, flags, {"multiple": True, **facts})


def _on(key: str, flag: str, text: str) -> Option:
    return Option(key, (flag,), {"is_flag": True, "help": text})


def _off(key: str, flag: str, text: str) -> Option:
    facts = {"is_flag": True, "flag_value": False, "default": True, "type": bool}
    return Option(key, (flag,), {**facts, "help": text})


def _headers(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    found = {}
    for value in values:
        name, separator, text = value.partition(":")
        if not separator or not name.strip():
            raise click.BadParameter(f"must be NAME: VALUE, got {value!r}")
        found[name.strip()] = text.strip()
    return found


def _formats(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> list[str]:
    named = [name.strip() for value in values for name in value.split(",")]
    return list(dict.fromkeys(filter(None, named))) or ["markdown"]


def _complete_formats(
    context: click.Context, option: click.Parameter, incomplete: str
) -> list[str]:
    """Return the formats that a shell may complete, also the last one of a list."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{n}" for n in NAMES if n.startswith(last)]


def _milliseconds(context: click.Context, option: click.Parameter, value: int) -> int:
    return value * 1000


def _object(
    context: click.Context, option: click.Parameter, value: str
) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise click.BadParameter(f"must be a JSON object, got {value[:60]!r}")
    return found


def _schema(
    context: click.Context, option: click.Parameter, path: str | None
) -> dict[str, Any] | None:
    """Return the JSON object in a file, or in standard input for ``-``."""
    if path is None:
        return None
    try:
        with click.open_file(path, encoding="utf-8") as file:
            return _object(context, option, file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}") from None


def _data_of(*flags: str) -> tuple[Option, ...]:
    """Return what is asked of the format json; see :func:`_with_data`."""
    return (
        _one(
            "schema",
            "--schema",
            callback=_schema,
            metavar="FILE",
            help="The JSON schema of --format json; - for standard input.",
        ),
        _one(
            "jsonPrompt",
            *flags,
            metavar="TEXT",
            help="What --format json is to find, in words.",
        ),
    )


def _with_data(asked: dict[str, Any]) -> dict[str, Any]:
    """Put the schema and the prompt into the format json of a page."""
    schema, prompt = asked.pop("schema", None), asked.pop("jsonPrompt", None)
    if schema is None and prompt is None:
        return asked
    if "json" not in asked["formats"]:
        raise click.UsageError("--schema and --prompt go with --format json")
    facts = {"type": "json", "schema": schema, "prompt": prompt}
    data = {key: value for key, value in facts.items() if value is not None}
    kept = [data if name == "json" else name for name in asked["formats"]]
    return {**asked, "formats": kept}


_TIMEOUT = _one(
    "timeout", "--timeout", type=int, metavar="MS", help="Give up after MS."
)
_LIMIT = ("limit", "--limit")
_SITEMAP = _one(
    "sitemap",
    "--sitemap",
    type=click.Choice(("include", "skip", "only")),
    default="include",
    show_default=True,
    help="Whether sitemaps are read, or nothing else.",
)
_PATHS = (
    _many(
        "includePaths",
        "--include",
        metavar="REGEX",
        help="Only paths that match; may be repeated.",
    ),
    _many(
        "excludePaths",
        "--exclude",
        metavar="REGEX",
        help="No paths that match; may be repeated.",
    ),
    _on("regexOnFullURL", "--full-url", "Match whole addresses, not their paths."),
)
_FURTHER = Option(
    FURTHER,
    ("--options",),
    {
        "callback": _object,
        "default": "{}",
        "metavar": "JSON",
        "help": "Further options, as in the body of a call of the HTTP API.",
    },
)
_PAGE = (
    _many(
        "formats",
        "-f",
        "--format",
        callback=_formats,
        metavar="FORMAT",
        shell_complete=_complete_formats,
        help=f"{', '.join(NAMES)}; a list with commas, or repeated. Those with options"
        f" of their own ({', '.join(WITH_OPTIONS)}) go into --options."
        "  [default: markdown]",
    ),
    _off("onlyMainContent", "--whole-page", "Keep navigation, header and footer."),
    _many(
        "includeTags",
        "--include-tags",
        metavar="CSS",
        help="Keep only what matches; may be repeated.",
    ),
    _many(
        "excludeTags",
        "--exclude-tags",
        metavar="CSS",
        help="Leave out what matches; may be repeated.",
    ),
    _many(
        "headers",
        "-H",
        "--header",
        callback=_headers,
        metavar="NAME:VALUE",
        help="Send a header; may be repeated.",
    ),
    _TIMEOUT,
    _one(
        "maxAge",
        "--max-age",
        callback=_milliseconds,
        type=click.IntRange(0),
        default=0,
        metavar="SECONDS",
        help="Take what was fetched up to SECONDS ago.  [default: 0]",
    ),
    _on("storeInCache", "--keep", "Keep the page, for `search` and --max-age."),
)
PAGE = (*_PAGE, *_data_of("--prompt", "--json-prompt"))
# Of a page of a job, which may have a prompt of its own.
JOB_PAGE = (*_PAGE, *_data_of("--json-prompt"))
# Of a file, which is not fetched.
FILE_PAGE = tuple(
    each for each in PAGE if each.key not in {"headers", "maxAge", "storeInCache"}
)
PACE = (
    _one(
        "maxConcurrency",
        "--concurrency",
        type=int,
        metavar="N",
        help="At most N requests in flight.",
    ),
)
CRAWL = (
    _one(
        "prompt",
        "--prompt",
        metavar="TEXT",
        help="Say in words what to fetch; options that are given win.",
    ),
    _one(*_LIMIT, type=int, metavar="N", help="At most N pages.  [default: 10000]"),
    _one(
        "maxDiscoveryDepth",
        "--depth",
        type=int,
        metavar="N",
        help="At most N links away from URL.  [default: no limit]",
    ),
    *_PATHS,
    _on("allowSubdomains", "--subdomains", "Follow links to subdomains, too."),
    _on("allowExternalLinks", "--external", "Follow links to other sites, too."),
    _on("crawlEntireDomain", "--entire-domain", "Leave the path of URL, upwards too."),
    _SITEMAP,
    _one(
        "delay",
        "--delay",
        type=float,
        metavar="SECONDS",
        help="Pause between two pages.",
    ),
    *PACE,
    _on("ignoreRobotsTxt", "--ignore-robots", "Do not ask robots.txt."),
    _one(
        "robotsUserAgent",
        "--robots-agent",
        metavar="NAME",
        help="Whose rules of robots.txt count.",
    ),
    _on("ignoreQueryParameters", "--ignore-queries", "Tell nothing apart by query."),
    _off(
        "deduplicateSimilarURLs",
        "--keep-similar",
        "Tell apart http and https, www, final slashes.",
    ),
)
MAP = (
    _one("search", "--search", metavar="WORDS", help="Put first what fits the words."),
    _one(*_LIMIT, type=int, metavar="N", help="Print at most N.  [default: 5000]"),
    _SITEMAP,
    *_PATHS,
    _off("includeSubdomains", "--no-subdomains", "Leave out other hosts."),
    _off("ignoreQueryParameters", "--keep-queries", "Tell addresses apart by query."),
    _TIMEOUT,
)
SEARCH = (
    _one(
        *_LIMIT, type=int, metavar="N", help="At most N of each source.  [default: 5]"
    ),
    Option(
        "sources",
        ("--source",),
        {
            "multiple": True,
            "type": click.Choice(("web", "news", "images")),
            "help": "Where to look; may be repeated.  [default: web]",
        },
    ),
    Option(
        "categories",
        ("--category",),
        {
            "multiple": True,
            "type": click.Choice(("github", "research", "pdf")),
            "help": "Only results of this kind; may be repeated.",
        },
    ),
    _many(
        "includeDomains",
        "--site",
        metavar="DOMAIN",
        help="Only results of DOMAIN; may be repeated.",
    ),
    _one("tbs", "--tbs", help="Time filter, such as qdr:w for the last week."),
    _one("lang", "--lang", metavar="CODE", help="Language of the results."),
    _one("country", "--country", metavar="CODE", help="Country of the searcher."),
    _TIMEOUT,
)
SPELLINGS = {
    "query": "QUERY",
    "url": "URL",
    "urls": "FILE",
    **{option.key: option.flags[-1] for option in (*SEARCH, *MAP, *CRAWL, *PAGE)},
}


def takes(
    own: tuple[Option, ...], page: tuple[Option, ...] = (), nested: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options to a command, which gets what they ask for as ``body``.

    Those of ``page`` stand in its ``scrapeOptions`` if they are ``nested``.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_body(**values: Any) -> Any:
            body = _taken(own, values)
            asked = _with_data(_taken(page, values))
            if "storeInCache" in asked:
                asked["storeInCache"] |= asked["maxAge"] > 0
            body |= {"scrapeOptions": asked} if nested else asked
            body |= values.pop(FURTHER)
            return command(body=body, **values)

        whole: Callable[..., Any] = with_body
        for option in reversed((*own, *page, _FURTHER)):
            whole = option.add_to(whole)
        return whole

    return add


def without_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a crawl without options that nobody gave a value."""
    defaults = {each.key: each.facts.get("default", False) for each in CRAWL}
    return {
        key: value
        for key, value in body.items()
        if value != defaults.get(key, ...) and value != []
    }


def _taken(options: tuple[Option, ...], values: dict[str, Any]) -> dict[str, Any]:
    found = {option.key: values.pop(option.key) for option in options}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found.items()
        if value is not None and (value != () or key not in _LEFT_OUT)
    }
