"""What of a page's options a language model answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.options import formats

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from scraper_service.options.scrape import ScrapeOptions

#: Formats that only a model can answer.
BY_MODEL = (formats.Question, formats.Highlights, formats.Query)

NO_MODEL = (
    "it needs a language model, which the operator has not set up"
    " (SCRAPER_LLM_BASE_URL)"
)


def is_by_either(item: formats.Format) -> bool:
    """Tell whether rules answer a format where there is no model, or it fails."""
    return isinstance(item, (formats.Json, formats.Summary)) or (
        isinstance(item, formats.ChangeTracking) and "json" in item.modes
    )


def missing_model(settings: Mapping[str, Any]) -> str | None:
    """Return why there is no model, None if there is one."""
    return None if settings["LLM_BASE_URL"] else NO_MODEL


def is_answered(item: formats.Format) -> bool:
    """Tell whether a model is asked for a format, if there is one."""
    return is_by_either(item) or isinstance(item, BY_MODEL)


def asks_model(options: ScrapeOptions) -> bool:
    """Tell whether a page is to be read by a model, if there is one."""
    return (
        options.only_clean_content
        or options.checks_injection
        or any(map(is_answered, options.formats))
    )
