"""What this release refuses, and what it does without effect."""

from __future__ import annotations

import pytest
from attrs import evolve

from scraper_service.errors import OptionUnavailable
from scraper_service.options import actions, formats, limits
from scraper_service.options.jobs import Webhook
from scraper_service.options.limits import (
    require_available,
    require_job_available,
)
from scraper_service.options.scrape import ImageParser, Location, PdfParser, Profile
from scraper_service.options.spider_arguments import (
    batch_options,
    crawl_options,
    page_options,
)

PLAIN = page_options({"url": "https://example.com"}).scrape


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"formats": ()},
        {
            "formats": (
                formats.Markdown(),
                formats.Html(),
                formats.RawHtml(),
                formats.Links(),
                formats.Images(),
                formats.Attributes((formats.AttributeSelector("a", "href"),)),
            )
        },
        {"formats": (formats.Markdown(), formats.ChangeTracking(("json",)))},
        {"formats": (formats.Branding(), formats.Product(), formats.Menu())},
        {"formats": (formats.RawBase64(),)},
        {"proxy": "basic"},
        {"proxy": "stealth"},
        {"mobile": True, "wait_for_ms": 5, "session": "a"},
        {"actions": (actions.Press("Enter"),)},
        {"formats": (formats.Screenshot(),)},
        {"formats": (formats.Json(), formats.Json(key="extract"), formats.Summary())},
        {"only_clean_content": True},
        {"location": Location("DE")},
        {"profile": Profile("p")},
        {"parsers": ()},
        {"parsers": (PdfParser(mode="fast"), ImageParser())},
        {"block_ads": True, "fast_mode": True, "lockdown": True},
    ],
)
def test_supported_page_options_are_available(changes):
    options = evolve(PLAIN, **changes)
    require_available(options)


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (formats.Audio(), "BAD_REQUEST"),
        (formats.Video(), "BAD_REQUEST"),
    ],
)
def test_format_that_needs_more_is_refused(wanted, code):
    options = evolve(PLAIN, formats=(formats.Markdown(), wanted))
    with pytest.raises(OptionUnavailable, match="is not available here: it needs") as e:
        require_available(options)
    assert (e.value.attribute, e.value.code) == ("formats", code)


BY_MODEL = [formats.Question("q"), formats.Highlights("q"), formats.Query("q")]


@pytest.mark.parametrize("wanted", BY_MODEL, ids=lambda item: item.type)
def test_a_format_that_needs_a_model_is_refused_as_the_only_format(wanted):
    alone = evolve(PLAIN, formats=(wanted,))
    with pytest.raises(OptionUnavailable, match=f"'{wanted.type}' is not available"):
        require_available(alone, model="there is none")
    require_available(alone)
    beside = evolve(PLAIN, formats=(formats.Markdown(), wanted))
    require_available(beside, model="there is none")


@pytest.mark.parametrize(
    ("changes", "attribute"),
    [
        ({"check_prompt_injection": True}, "check_prompt_injection"),
        ({"formats": (formats.Json(check_prompt_injection=True),)}, "formats"),
    ],
)
def test_check_that_only_a_model_can_make_is_never_left_out(changes, attribute):
    options = evolve(PLAIN, **changes)
    with pytest.raises(OptionUnavailable, match="there is none") as error:
        require_available(options, model="there is none")
    assert error.value.attribute == attribute
    require_available(options)


def test_message_names_format_and_why_there_is_no_browser():
    with pytest.raises(OptionUnavailable) as error:
        require_available(evolve(PLAIN, formats=(formats.Screenshot(),)), "none here")
    assert str(error.value) == ("format 'screenshot' is not available here: none here")
    assert (error.value.attribute, error.value.code) == ("formats", "BAD_REQUEST")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"actions": (actions.Press("Enter"),)}, "SCRAPE_ACTIONS_NOT_SUPPORTED"),
        ({"wait_for_ms": 1}, "BAD_REQUEST"),
        ({"mobile": True}, "BAD_REQUEST"),
        ({"session": "a"}, "BAD_REQUEST"),
        ({"parsers": (PdfParser(mode="ocr"),)}, "BAD_REQUEST"),
    ],
)
def test_option_that_needs_more_is_refused(changes, code, monkeypatch):
    monkeypatch.setattr(limits, "can_recognise_text", lambda: False)
    with pytest.raises(OptionUnavailable, match="not available here") as error:
        require_available(evolve(PLAIN, **changes), "none is here")
    assert error.value.attribute == next(iter(changes))
    assert error.value.code == code


def test_a_profile_is_no_reason_to_refuse_a_page_where_there_is_no_browser():
    require_available(evolve(PLAIN, profile=Profile("p")), "none is here")


CRAWL = crawl_options({"url": "https://example.com"})
BATCH = batch_options({"urls": "https://example.com"})


@pytest.mark.parametrize(
    "options",
    [
        CRAWL,
        BATCH,
        evolve(CRAWL, limit=5, max_discovery_depth=1, delay_s=2, max_concurrency=3),
        evolve(CRAWL, sitemap="skip", prompt="a"),
        evolve(CRAWL, max_path_depth=3),
        evolve(CRAWL, crawl_entire_domain=True, allow_subdomains=True),
        evolve(CRAWL, allow_external_links=True),
        evolve(CRAWL, include_paths=("a",), exclude_paths=("b",)),
        evolve(CRAWL, regex_on_full_url=True),
        evolve(CRAWL, deduplicate_similar_urls=False, ignore_query_parameters=True),
        evolve(BATCH, max_concurrency=2),
        evolve(CRAWL, webhook=Webhook(url="a")),
        evolve(BATCH, webhook=Webhook(url="a")),
    ],
)
def test_supported_job_options_are_available(options):
    require_job_available(options)


@pytest.mark.parametrize(
    ("options", "attribute"),
    [
        (evolve(CRAWL, scrape=evolve(PLAIN, mobile=True)), "mobile"),
        (evolve(BATCH, scrape=evolve(PLAIN, wait_for_ms=5)), "wait_for_ms"),
    ],
)
def test_option_of_a_job_that_needs_more_is_refused(options, attribute):
    with pytest.raises(OptionUnavailable, match="is not available here: ") as error:
        require_job_available(options, "none is here")
    assert (error.value.attribute, error.value.code) == (attribute, "BAD_REQUEST")
