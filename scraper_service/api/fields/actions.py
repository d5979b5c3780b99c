"""The actions of both versions: the interface document, part 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.fields.common import FieldsT, build, need
from scraper_service.options import actions
from scraper_service.options.scrape import MAX_ACTIONS
from scraper_service.options.structure import (
    Array,
    Field,
    Kind,
    Object,
    Place,
    Tagged,
    Then,
)
from scraper_service.options.urls import MAX_SELECTOR, page_selector
from scraper_service.options.values import Bool, Number, Text, choice, integer

if TYPE_CHECKING:
    from collections.abc import Mapping

_SELECTOR = Then(Text(MAX_SELECTOR, minimum=1), page_selector)

_PAPER_SIZES = "A0 A1 A2 A3 A4 A5 A6 Letter Legal Tabloid Ledger"


def _wait(values: dict[str, Any], at: Place) -> Any:
    if len(values) != 1:
        text = f"{at.name} must have exactly one of milliseconds and selector"
        return at.report("custom", text)
    return actions.Wait(**values)


def action_kinds(screenshot: FieldsT) -> Kind:
    """Return the actions of a version whose screenshots take these fields."""
    kinds: Mapping[str, Kind] = {
        "wait": Object(
            {
                "milliseconds": Field(integer(1), "milliseconds"),
                "selector": Field(_SELECTOR, "selector"),
            },
            _wait,
        ),
        "click": Object(
            {
                "selector": need(_SELECTOR, "selector"),
                "all": Field(Bool(), "all"),
            },
            build(actions.Click),
        ),
        "screenshot": Object(screenshot, build(actions.ScreenshotAction)),
        "write": Object({"text": need(Text(), "text")}, build(actions.Write)),
        "press": Object(
            {"key": need(Text(100, minimum=1), "key")},
            build(actions.Press),
        ),
        "scroll": Object(
            {
                "direction": Field(choice("up", "down"), "direction"),
                "selector": Field(_SELECTOR, "selector"),
            },
            build(actions.Scroll),
        ),
        "scrape": Object({}, build(actions.ScrapeAction)),
        "executeJavascript": Object(
            {"script": need(Text(), "script")},
            build(actions.ExecuteJavascript),
        ),
        "pdf": Object(
            {
                "landscape": Field(Bool(), "landscape"),
                "scale": Field(Number(0.1, 2), "scale"),
                "format": Field(choice(*_PAPER_SIZES.split()), "format"),
            },
            build(actions.Pdf),
        ),
    }
    return Array(Tagged(kinds, shorthand=False), MAX_ACTIONS)
