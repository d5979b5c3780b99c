"""From a schema or a prompt to data, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.formats.extraction.results import Extraction, Place
from scraper_service.options.schemas import Field, field_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scraper_service.formats.extraction.page import ExtractionPage


def extract(
    page: ExtractionPage,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
) -> Extraction:
    """Return what the page has of a schema; without one, of what a prompt names.

    With neither, the key facts of the page. A value that was not found is left out, or
    null where the schema requires it; none is made up.

    :raises SchemaRefused: for a schema that :func:`field_of` does not take.
    """
    wanted = field_of(schema) if schema else Field(kind="object")
    data: dict[str, Any] = {}
    places: dict[str, Place] = {}
    missing: list[str] = []
    for name, value in _facts(page).items():
        if any(below.name == name for below in wanted.properties) or not schema:
            data[name] = value
            places[f"/{name}"] = Place("metadata", str(value))
    for below in wanted.properties:
        if below.required and below.name not in data:
            data[below.name] = None
            missing.append(f"/{below.name}")
    return Extraction(data, places, tuple(missing))


def _facts(page: ExtractionPage) -> dict[str, Any]:
    facts = {k: v for k, v in page.known.items() if isinstance(v, (str, int))}
    if page.evidence.headings:
        facts["title"] = page.evidence.headings[0]
    return facts
