"""Options of several commands: the output of pages, and the body of a request of /v2."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from scraper_service.cli.outputs.output import FORMATS, destination
from scraper_service.cli.outputs.page_files import NAMES, WITH_OPTIONS
from scraper_service.errors import prefix_name
from scraper_service.options import catalogue
from scraper_service.options.map_search import CATEGORIES, SOURCES
from scraper_service.options.parsing import (
    Array,
    Bool,
    Choice,
    Number,
    Pairs,
    bare_kind,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from scraper_service.cli.outputs.output import Destination

FURTHER = "further"
_MAY_BE_EMPTY = ("sources", "categories", "include_domains")
# Keys that are left out of a body where they are empty.
_LEFT_OUT = (
    *catalogue.keys(catalogue.select(catalogue.SEARCH, *_MAY_BE_EMPTY), "v2"),
    "urls",
)
_FORMATS = catalogue.select(catalogue.SCRAPE, "formats")
_OUTPUT = (
    click.option(
        "-o",
        "--output",
        "path",
        metavar="PATH",
        help="Write to a file: .jsonl, .csv, .zip, .sqlite, .parquet, .warc.gz, .wacz; or to a folder: FOLDER/.",
    ),
    click.option(
        "--output-format",
        "format_",
        type=click.Choice(FORMATS),
        help="The format of the output, whatever the name of PATH.",
    ),
    click.option(
        "--overwrite", is_flag=True, help="Write into a folder that has files already."
    ),
    click.option(
        "-q", "--quiet", is_flag=True, help="Show neither progress nor summary."
    ),
)


@frozen
class CommandOption:
    """An option of a command for the ``key`` of a body, with the arguments of click."""

    key: str
    flags: tuple[str, ...]
    facts: Mapping[str, Any]

    def add_to(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``command`` with this option."""
        return click.option(*self.flags, self.key, **self.facts)(command)


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
    """Return completions of a format, which may be the last one of a list."""
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


# Arguments of click for options whose text is not that of their kind, by attribute.
_SPECIAL: Mapping[str, Mapping[str, Any]] = {
    "formats": {
        "callback": _formats,
        "shell_complete": _complete_formats,
        "help": f"{', '.join(NAMES)}; a list with commas, or repeated. Those with options"
        f" of their own ({', '.join(WITH_OPTIONS)}) go into --options."
        "  [default: markdown]",
    },
    "headers": {"callback": _headers},
    "max_age_ms": {
        "callback": _milliseconds,
        "type": click.IntRange(0),
        "default": 0,
    },
    "sources": {
        "type": click.Choice(SOURCES),
        "help": "Where to look; may be repeated.  [default: web]",
    },
    "categories": {"type": click.Choice(CATEGORIES)},
}


def command_options(table: catalogue.TableT) -> tuple[CommandOption, ...]:
    """Return the options of ``table`` that have a flag."""
    return tuple(_command_option(each, each.flag) for each in table if each.flag)


def _command_option(option: catalogue.Option, flag: catalogue.Flag) -> CommandOption:
    facts: dict[str, Any] = {"help": flag.help or option.help}
    kind = bare_kind(option.value_kind("v2"))
    default = option.default_value("shell")
    if flag.metavar:
        facts["metavar"] = flag.metavar
    if isinstance(kind, Bool):
        facts["is_flag"] = True
        if default:
            facts |= {"flag_value": False, "default": True, "type": bool}
    elif isinstance(kind, Number):
        facts["type"] = int if kind.whole else float
        if default is not None and not flag.help:
            facts["help"] += f"  [default: {default}]"
    elif isinstance(kind, Choice):
        facts["type"] = click.Choice(tuple(kind.values))
        facts |= {"default": default, "show_default": True}
    elif isinstance(kind, Array | Pairs):
        facts["multiple"] = True
        facts["help"] = facts["help"].removesuffix(".") + "; may be repeated."
    facts |= _SPECIAL.get(option.attribute, {})
    return CommandOption(option.name("v2") or "", tuple(flag.names.split()), facts)


def _data_of(*flags: str) -> tuple[CommandOption, ...]:
    """Return the options of the format json; see :func:`_with_data`."""
    return (
        CommandOption(
            "schema",
            ("--schema",),
            {
                "callback": _schema,
                "metavar": "FILE",
                "help": "The JSON Schema of --format json; - for standard input.",
            },
        ),
        CommandOption(
            "jsonPrompt",
            flags,
            {"metavar": "TEXT", "help": "What --format json is to find, in words."},
        ),
    )


def _with_data(scrape: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a page with schema and prompt in the format json."""
    schema, prompt = scrape.pop("schema", None), scrape.pop("jsonPrompt", None)
    if schema is None and prompt is None:
        return scrape
    if "json" not in scrape["formats"]:
        raise click.UsageError("--schema and --prompt go with --format json")
    facts = {"type": "json", "schema": schema, "prompt": prompt}
    data = {key: value for key, value in facts.items() if value is not None}
    kept = [data if name == "json" else name for name in scrape["formats"]]
    return {**scrape, "formats": kept}


def page_options(table: catalogue.TableT) -> tuple[CommandOption, ...]:
    """Return the options of a page in ``table``, and those of its format json."""
    return (*command_options(table), *_data_of("--prompt", "--json-prompt"))


_FURTHER = CommandOption(
    FURTHER,
    ("--options",),
    {
        "callback": _object,
        "default": "{}",
        "metavar": "JSON",
        "help": "Further options, as in a request body of the HTTP API.",
    },
)
_PAGE = command_options(
    # The formats are the first option in the help text.
    (*_FORMATS, *(each for each in catalogue.SCRAPE if each not in _FORMATS))
)
PAGE = (*_PAGE, *_data_of("--prompt", "--json-prompt"))
# For the pages of a job, which may have a prompt of its own.
JOB_PAGE = (*_PAGE, *_data_of("--json-prompt"))
#: The keys of options that only a page has which is fetched.
FETCHED = tuple(
    catalogue.keys(
        catalogue.select(catalogue.SCRAPE, "headers", "max_age_ms", "store_in_cache"),
        "v2",
    )
)
_, _MAX_AGE, _KEEP = FETCHED
# For a file, which is not fetched.
FILE_PAGE = tuple(each for each in PAGE if each.key not in FETCHED)
PACE = command_options(catalogue.PACE)
CRAWL = command_options(catalogue.CRAWL)
MAP = (
    *command_options(catalogue.MAP),
    *command_options(catalogue.select(catalogue.SCRAPE, "timeout_ms")),
)
SEARCH = command_options(catalogue.SEARCH)
SPELLINGS = {
    "query": "QUERY",
    "url": "URL",
    "urls": "FILE",
    **{option.key: option.flags[-1] for option in (*SEARCH, *MAP, *CRAWL, *PAGE)},
}


def takes(
    own: tuple[CommandOption, ...],
    page: tuple[CommandOption, ...] = (),
    nested: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options to a command, which receives them as ``body``.

    With ``nested`` the options of ``page`` stand in its ``scrapeOptions``.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_body(**values: Any) -> Any:
            body = _take_options(own, values)
            scrape = _with_data(_take_options(page, values))
            if _KEEP in scrape:
                scrape[_KEEP] |= scrape[_MAX_AGE] > 0
            body |= {"scrapeOptions": scrape} if nested else scrape
            body |= values.pop(FURTHER)
            return command(body=body, **values)

        whole: Callable[..., Any] = with_body
        for option in reversed((*own, *page, _FURTHER)):
            whole = option.add_to(whole)
        return whole

    return add


def without_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a crawl without options that have their defaults."""
    defaults = {each.key: each.facts.get("default", False) for each in CRAWL}
    return {
        key: value
        for key, value in body.items()
        if value != defaults.get(key, ...) and value != []
    }


def _take_options(
    options: tuple[CommandOption, ...], values: dict[str, Any]
) -> dict[str, Any]:
    found = {option.key: values.pop(option.key) for option in options}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found.items()
        if value is not None and (value != () or key not in _LEFT_OUT)
    }


def with_flag(path: tuple[str | int, ...] | list[str | int], message: str) -> str:
    """Return a message about a key of a body, with its flag or argument instead."""
    keys = [key for key in path if key != "scrapeOptions"]
    name = SPELLINGS.get(str(keys[0])) if keys else None
    if name is None:
        return message
    # A message begins with the path, or does not name it.
    start = re.escape(".".join(map(str, path)))
    rest = re.sub(rf"^{start}\b:? ?", "", message)
    return prefix_name(name, rest)


@frozen
class Wanted:
    """The requested output of the pages of a job."""

    path: str | None
    format: str | None
    overwrite: bool
    quiet: bool

    def destination(self, *, archives: bool = False) -> Destination:
        """Return the destination; raise :exc:`click.UsageError`.

        ``archives`` is True for a command that can write archives.
        """
        return destination(
            self.path, self.format, overwrite=self.overwrite, archives=archives
        )

    def destination_if_named(self) -> Destination | None:
        """Return the destination, None if the command line names none."""
        is_named = self.path is not None or self.format is not None
        return self.destination() if is_named else None


def examples(*commands: str) -> str:
    """Return the end of a command's help: examples."""
    # Without this mark click joins the lines.
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def takes_output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the output; the command receives them as ``wanted``."""

    @functools.wraps(command)
    def with_wanted(
        path: str | None,
        format_: str | None,
        overwrite: bool,
        quiet: bool,
        **values: Any,
    ) -> Any:
        wanted = Wanted(path, format_, overwrite, quiet)
        return command(wanted=wanted, **values)

    return with_options(_OUTPUT, with_wanted)


def with_options(
    options: tuple[Any, ...], command: Callable[..., Any]
) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command
