"""Options to JSON and back, and spider arguments to options.

Names are those of the attributes. A spider argument is a string: ``-a url=...
-a formats=markdown,links -a only_main_content=false``; ``-a options={...}`` holds many
as JSON, and the others override it. Arguments that start with an underscore belong to
whoever started the spider (scrapyd's ``_job``) and are ignored.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import attrs

from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import urls
from scraper_service.options.converter import structured
from scraper_service.options.formats import merged
from scraper_service.options.jobs import PageOptions
from scraper_service.options.scrape import ScrapeOptions, broken_rules
from scraper_service.options.structure import short
from scraper_service.options.values import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T", bound=attrs.AttrsInstance)
ReadersT: TypeAlias = "Mapping[str, Callable[[str], Any]]"

# For runs by hand: every page is fetched, nothing is kept.
DEFAULTS: dict[str, Any] = {
    "actions": [],
    "block_ads": True,
    "check_prompt_injection": False,
    "exclude_tags": [],
    "fast_mode": False,
    "formats": ["markdown"],
    "headers": [],
    "include_tags": [],
    "location": None,
    "lockdown": False,
    "max_age_ms": 0,
    "min_age_ms": None,
    "mobile": False,
    "only_clean_content": False,
    "only_main_content": True,
    "parsers": ["pdf"],
    "profile": None,
    "proxy": "auto",
    "session": None,
    "remove_base64_images": True,
    "site_rules": None,
    "skip_tls_verification": True,
    "store_in_cache": False,
    "timeout_ms": None,
    "wait_for_ms": 0,
    "zero_data_retention": False,
}

# Values of ``type`` which are not the snake_case of another spelling.
_TAG_ALIASES: dict[str, dict[str, Any]] = {
    "screenshot@full_page": {"type": "screenshot", "full_page": True},
    "extract": {"type": "json", "key": "extract"},
}


def page_options(arguments: Mapping[str, str]) -> PageOptions:
    """Return the options that spider arguments ask for.

    :raises InvalidOptions: with paths that start with the name of the argument.
    """
    values = read_arguments(arguments, {"url": urls.caller_url}, "url")
    return options_of(PageOptions, values)


def read_arguments(
    arguments: Mapping[str, str], own: ReadersT, required: str
) -> dict[str, Any]:
    """Return the values of ``arguments`` by name, read by ``own`` or as of a page.

    :raises InvalidOptions: for what is unknown, wrong, or missing.
    """
    readers = {**_READERS, **own}
    given = {k: v for k, v in arguments.items() if not k.startswith("_")}
    if unknown := [key for key in given if key not in readers]:
        text = f"Unrecognized key in arguments: {short(unknown)}; allowed are "
        text += ", ".join(sorted(readers))
        raise InvalidOptions([Issue("unrecognized_keys", (), text, {"keys": unknown})])
    values: dict[str, Any] = {}
    issues = []
    for name, text in given.items():
        try:
            values[name] = readers[name](text)
        except (ValueError, RecursionError) as error:
            issues.append(Issue("custom", (name,), f"{name}: {str(error)[:300]}"))
    if required not in given:
        issues.append(
            Issue(
                "invalid_type",
                (required,),
                f"{required} is required: -a {required}=...",
            )
        )
    if issues:
        raise InvalidOptions(issues)
    return values


def options_of(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return options of ``kind``; values it has no attribute for are of its pages.

    :raises InvalidOptions: with paths that start with the name of the value.
    """
    names = {a.name for a in attrs.fields(kind)}
    own = {name: value for name, value in values.items() if name in names}
    pages = {name: value for name, value in values.items() if name not in names}
    scrape = {**DEFAULTS, **pages.pop("options", {}), **pages}
    scrape = {name: _expanded(name, value) for name, value in scrape.items()}
    checked = _checked(structured(scrape, ScrapeOptions))
    return kind(**{"origin": "spider", **own, "scrape": checked})


def _checked(options: ScrapeOptions) -> ScrapeOptions:
    """Return ``options`` after the checks that a type cannot express."""
    issues = list(broken_rules(options))
    for name, check in _CHECKS.items():
        try:
            check(getattr(options, name))
        except InvalidOptions as error:
            issues += [attrs.evolve(i, path=(name, *i.path)) for i in error.issues]
    try:
        formats = merged(options.formats)
    except ValueError as error:
        issues.append(Issue("custom", ("formats",), str(error)))
        formats = ()
    if issues:
        raise InvalidOptions(issues)
    # mypy leaves the type variable of the field's converter unbound.
    return attrs.evolve(options, formats=formats)  # type: ignore[arg-type]


def _expanded(name: str, value: Any) -> Any:
    """Return ``value`` with short forms written out."""
    if name in {"formats", "parsers", "actions"} and isinstance(value, list):
        return [_tagged(item) for item in value]
    if name == "headers" and isinstance(value, dict):
        return [[key, item] for key, item in value.items()]
    return value


def _tagged(item: Any) -> Any:
    if isinstance(item, str):
        item = {"type": item}
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return item
    tag = (
        re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", item["type"]).lower().replace("-", "_")
    )
    return {**item, "type": tag, **_TAG_ALIASES.get(tag, {})}


def flag(text: str) -> bool:
    """Return what ``true`` or ``false`` says."""
    if text not in {"true", "false"}:
        raise ValueError(f"must be true or false, got {short(text)}")
    return text == "true"


def whole(text: str) -> int:
    """Return the integer >= 0 that ``text`` is."""
    if not re.fullmatch(r"[0-9]{1,16}", text) or int(text) > MAX_INTEGER:
        raise ValueError(
            f"must be an integer from 0 to {MAX_INTEGER}, got {short(text)}"
        )
    return int(text)


def whole_or_none(text: str) -> int | None:
    """Return None for ``none`` or nothing, else as :func:`whole`."""
    return None if text in {"", "none"} else whole(text)


def _names(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        return json.loads(text)
    return [name.strip() for name in text.split(",") if name.strip()]


def selectors(text: str) -> list[Any]:
    """Return the JSON array that ``text`` is, else one of ``text`` alone."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return value if isinstance(value, list) else [text]


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"must be a JSON object, got {short(text)}")
    return value


_READERS: ReadersT = {
    "origin": str,
    "integration": str,
    "audit_username": str,
    "options": _object,
    "actions": json.loads,
    "block_ads": flag,
    "check_prompt_injection": flag,
    "exclude_tags": selectors,
    "fast_mode": flag,
    "formats": _names,
    "headers": json.loads,
    "include_tags": selectors,
    "location": json.loads,
    "lockdown": flag,
    "max_age_ms": whole,
    "min_age_ms": whole_or_none,
    "mobile": flag,
    "only_clean_content": flag,
    "only_main_content": flag,
    "parsers": _names,
    "profile": json.loads,
    "proxy": str,
    "session": str,
    "remove_base64_images": flag,
    "site_rules": json.loads,
    "skip_tls_verification": flag,
    "store_in_cache": flag,
    "timeout_ms": whole_or_none,
    "wait_for_ms": whole,
    "zero_data_retention": flag,
}

_CHECKS: dict[str, Callable[[Any], Any]] = {
    "headers": urls.caller_headers,
    "include_tags": urls.caller_selectors,
    "exclude_tags": urls.caller_selectors,
    "formats": urls.caller_formats,
    "actions": urls.caller_actions,
}
