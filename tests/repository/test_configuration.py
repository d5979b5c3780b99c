"""``docs/reference/configuration.md``: it is what the generator writes, and names every setting."""

from __future__ import annotations

import ast
import re

import pytest
from scrapy.settings import Settings

from scraper_service import settings
from tools import configuration


def test_the_configuration_page_equals_the_output_of_its_generator():
    text = "docs/reference/configuration.md is not up to date: run make docs"
    assert configuration.PAGE.read_text() == configuration.page(), text


def test_the_page_names_settings_only():
    named = re.findall(r"^\| `SCRAPER_(\w+)`", configuration.page(), re.MULTILINE)
    assert [name for name in named if not hasattr(settings, name)] == []
    assert len(named) == len(set(named)) > 100


def test_code_in_the_page_is_not_marked_twice():
    text = "Such as `a://TOKEN_A/TOKEN_B/x` and MAX_JOBS; see `LEASE_S`."
    row = configuration.Setting("X", ast.parse("1", mode="eval").body, text).row()
    assert "Such as `a://TOKEN_A/TOKEN_B/x` and `MAX_JOBS`; see `LEASE_S`." in row
    for line in configuration.page().splitlines():
        if line.startswith("| `SCRAPER_"):
            assert re.sub(r"`[^`]+`", "", line).count("`") == 0, line


def checked(**changes):
    found = Settings()
    found.setmodule(settings)
    found.setdict(changes, priority="cmdline")
    settings.check_settings(found)


def test_the_retention_may_have_a_fraction():
    checked(RETENTION_DAYS="0.5", MAX_RETENTION_DAYS="1.5")


def test_the_public_url_may_be_of_an_inner_network_and_have_a_path():
    checked(PUBLIC_URL="http://scraper:3002/api/")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"INTERACT_CODE": "node, ruby"}, "SCRAPER_INTERACT_CODE must be .* 'ruby'"),
        ({"RETENTION_DAYS": "0"}, "SCRAPER_RETENTION_DAYS must be .* from 0.01 to"),
        ({"RETENTION_DAYS": "x"}, "SCRAPER_RETENTION_DAYS must be a number.* 'x'"),
        ({"RETENTION_DAYS": "366"}, "must not exceed .*, 365, got 366"),
        ({"MAX_RETENTION_DAYS": "36501"}, "from 0.01 to 36500, got '36501'"),
        ({"PAUSE_MAX_DAYS": "1.5"}, "without fraction, got '1.5'"),
        ({"PUBLIC_URL": "foo"}, r"SCRAPER_PUBLIC_URL must be an http\(s\) URL.* 'foo'"),
        ({"ENGINES": "a.b.C"}, "SCRAPER_ENGINES: No module named 'a'"),
        ({"ROBOTS_POLICY": "x"}, "SCRAPER_ROBOTS_POLICY: .* not a full path"),
        ({"PAGE_SERIALIZER": "os.nothing"}, "SCRAPER_PAGE_SERIALIZER: .*nothing"),
        ({"JOB_SOURCE": "a.b"}, "SCRAPER_JOB_SOURCE: No module named 'a'"),
        ({"CONVERTER": "os.path"}, "SCRAPER_CONVERTER must be .* with shared, got"),
        ({"JOB_RUNNER": "json.loads"}, "SCRAPER_JOB_RUNNER must be .* with wake, got"),
        ({"PLAYWRIGHT_BROWSER_PROVIDER": "a.b"}, "BROWSER_PROVIDER: No module named"),
        ({"TRUSTED_PROXIES": "zz"}, "SCRAPER_TRUSTED_PROXIES must be IP networks"),
        ({"ARTEFACT_STORE": "ftp://x"}, "az://CONTAINER/PREFIX, got 'ftp://x'"),
        ({"PUBLIC_URL": "ftp://x"}, "got 'ftp://x'"),
        ({"PUBLIC_URL": "https:///api"}, "must be .* URL with a host"),
        ({"PUBLIC_URL": "https://x:99999"}, "got 'https://x:99999'"),
        ({"PUBLIC_URL": "https://x/?a=b"}, "without user, query and fragment"),
        ({"PUBLIC_URL": "https://x/#a"}, "without user, query and fragment"),
        ({"PUBLIC_URL": "https://a:secret@x"}, "fragment, got 'x'$"),
        ({"PUBLIC_URL": "https://x /"}, "must be .* URL"),
    ],
)
def test_a_bad_setting_is_named(changes, error):
    with pytest.raises(ValueError, match=error):
        checked(**changes)


@pytest.mark.parametrize("name", ["BLOCKLIST_URL", "BROWSER_CDP_URL", "SENTRY_DSN"])
def test_a_former_setting_is_refused_with_the_name_of_its_replacement(
    name, monkeypatch
):
    monkeypatch.setenv(f"SCRAPER_{name}", "false")
    checked()
    monkeypatch.setenv(f"SCRAPER_{name}", "true")
    with pytest.raises(ValueError, match=f"SCRAPER_{name} is no longer offered: "):
        checked()
