"""The table of options, which every entrance reads."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import attrs
import pytest

from scraper_service.api.requests import v1
from scraper_service.options import (
    catalogue,
    formats,
    jobs,
    map_search,
    scrape,
    v2_requests,
)
from tools import option_reference

CALLER = {"scrape", "origin", "integration", "audit_username"}


@pytest.mark.parametrize(
    ("table", "kind", "further"),
    [
        (catalogue.SCRAPE, scrape.ScrapeOptions, set()),
        (catalogue.CRAWL, jobs.CrawlOptions, CALLER),
        (catalogue.BATCH, jobs.BatchOptions, {*CALLER, "delay_s"}),
        (catalogue.MAP, map_search.MapOptions, CALLER),
        (catalogue.SOURCE, map_search.ResultList, {"kind"}),
        (catalogue.EXTRACT, jobs.ExtractOptions, CALLER),
        (catalogue.AGENT, jobs.AgentOptions, CALLER),
        (catalogue.LLMS_TEXT, jobs.LlmsTextOptions, CALLER),
        (catalogue.RESEARCH, jobs.ResearchOptions, {*CALLER, "json"}),
    ],
)
def test_every_option_attribute_has_a_single_row(table, kind, further):
    rows = [option.attribute for option in table]
    assert len(rows) == len(set(rows))
    assert set(rows) | further == attrs.fields_dict(kind).keys()


@pytest.mark.parametrize(
    "option",
    [each for _, table, _ in option_reference.TABLES for each in table],
    ids=lambda option: option.attribute,
)
def test_help_is_a_sentence(option):
    assert option.help[0].isupper()
    assert option.help.endswith(".")


def test_the_option_reference_equals_the_output_of_its_generator():
    text = "docs/reference/options.md is not up to date: run make docs"
    assert option_reference.PAGE.read_text() == option_reference.page(), text


def with_a_new_option() -> None:
    """Add a row and its attribute, and print what each entrance knows of the option."""
    from scraper_service.options import catalogue, scrape
    from scraper_service.options.parsing import Bool

    catalogue.SCRAPE += (
        catalogue.Option(
            *("dim_lights", "dimLights", Bool(), False, "Dim the lights."),
            flag=catalogue.Flag("--dim-lights"),
            in_cache_key=True,
        ),
    )
    scrape.ScrapeOptions = attrs.make_class(  # the code that obeys it reads this
        "ScrapeOptions",
        {"dim_lights": attrs.field(type=bool)},
        bases=(scrape.ScrapeOptions,),
        frozen=True,
        kw_only=True,
    )

    from click.testing import CliRunner

    from scraper_service.api.requests import v1
    from scraper_service.cli.main import main
    from scraper_service.errors import InvalidOptions
    from scraper_service.options import v2_requests
    from scraper_service.options.spider_arguments import page_options
    from scraper_service.storage.page_cache import source_key

    url = {"url": "https://example.com/"}
    options = {
        "v1": v1.page_options({**url, "dimLights": True}),
        "v2": v2_requests.page_options({**url, "dimLights": True}),
        "arguments": page_options({**url, "dim_lights": "true"}),
        "default": v2_requests.page_options(url),
    }
    found = {name: each.scrape.dim_lights for name, each in options.items()}
    try:
        v2_requests.page_options({**url, "dimlight": True})
    except InvalidOptions as error:
        found["guess"] = "did you mean 'dimLights'?" in error.issues[0].message
    done = CliRunner().invoke(main, ["scrape", "--help"], terminal_width=100)
    line = next(each for each in done.stdout.splitlines() if "--dim-lights" in each)
    found["help"] = line.split()[1:]
    keys = {source_key(url["url"], options[name].scrape) for name in ("v2", "default")}
    found["keys"] = len(keys)
    print(json.dumps(found))


def test_a_new_option_needs_one_row():
    # A fresh process: the entrances read the table when they are imported.
    source = inspect.getsource(with_a_new_option)
    code = f"import json, attrs\n{source}\nwith_a_new_option()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "v1": True,
        "v2": True,
        "arguments": True,
        "default": False,
        "guess": True,
        "help": ["Dim", "the", "lights."],
        "keys": 2,
    }


def test_the_reference_shows_the_units_of_flags_and_computed_defaults():
    rows = [line.split(" | ") for line in option_reference.page().splitlines()]
    cells = {row[0]: row for row in rows if len(row) == 7}
    assert "milliseconds" in cells["| `maxAge`"][6]
    assert cells["| `maxAge`"][3] == "`--max-age SECONDS`"
    assert v1.page_options({"url": "a.com"}).scrape.formats == (formats.Markdown(),)
    assert cells["| `formats`"][5] == "`markdown`"
    (source,) = v2_requests.search_options({"query": "a"}).sources
    assert cells["| `sources`"][5] == f"`{source.kind}`"
