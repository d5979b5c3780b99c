"""The commands for keys and teams, on a data directory of their own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.options.limits import Mode
from tests.support.crash import sqlite_of
from tests.support.waiting import wait_until


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a command; it returns exit code and output.

    That is standard output, or what a command that fails says.
    """

    def call(*arguments):
        done = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path)])
        output = done.output if done.exit_code else done.stdout
        return done.exit_code, output.strip()

    return call


def test_help_names_every_mode_that_has_a_rate(run):
    code, text = run("keys", "create", "--help")
    assert code == 0
    modes = re.search(r"of a mode \(([^)]*)\)", text)[1]
    assert set(re.split(r",\s+", modes)) == set(Mode)


def ids_of(text):
    return re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)


def test_a_key_has_a_team_of_its_own_without_limits(run):
    code, key = run("keys", "create", "--name", "mine")
    assert code == 0
    assert re.fullmatch("fc-[0-9a-f]{64}", key)
    _, listed = run("keys", "list")
    assert f"...{key[-4:]}  valid" in listed
    assert "mine  credits unlimited  concurrency unlimited  rates default" in listed
    assert key not in listed


def test_a_key_ends_by_itself(tmp_path, run, start_service):
    key = run("keys", "create", "--name", "lasting")[1]
    short = run("keys", "create", "--name", "short", "--expires-in", "2")[1]
    lines = run("keys", "list")[1].splitlines()
    assert [" valid " in line for line in lines] == [True, True]
    assert [" until " in line for line in lines] == [False, True]
    service = start_service(tmp_path)
    asked = "/v2/team/credit-usage"
    assert service.get(asked, key=short).status == 200
    path = sqlite_of(tmp_path)
    with sa.create_engine(path).begin() as connection:
        change = "UPDATE key SET expires_at = :at WHERE name = 'short'"
        at = (datetime.now(UTC) - timedelta(seconds=1)).replace(tzinfo=None)
        connection.execute(sa.text(change), {"at": str(at)})
    wait_until(lambda: service.get(asked, key=short).status == 401)
    assert service.get(asked, key=key).status == 200
    lines = run("keys", "list")[1].splitlines()
    assert sum(" expired " in line for line in lines) == 1
    assert run("keys", "create", "--expires-in", "0")[0] == 2


def test_creating_a_key_names_its_team_and_whether_the_team_is_new(tmp_path):
    def said(*arguments):
        asked = ["keys", "create", *arguments, "--data-dir", str(tmp_path)]
        done = CliRunner().invoke(main, asked)
        assert re.fullmatch("fc-[0-9a-f]{64}\n", done.stdout)
        return done.stderr

    made, first = said("--team", "shop", "--credits", "9").splitlines()
    assert made.startswith(f"a new job database was made in {tmp_path}: ")
    second = said("--team", "shop")
    assert first.startswith("a new team: ")
    assert second.startswith("the team: ")
    assert "  shop  credits 9 of 9  concurrency unlimited" in first
    assert ids_of(first) == ids_of(second)
    assert said("--name", "mine").startswith("a new team: ")


def test_a_missing_name_is_a_dash_in_lists(run):
    assert run("keys", "create")[0] == 0
    [team_id] = ids_of(run("teams", "list")[1])
    assert run("teams", "list")[1].startswith(f"{team_id}  -  credits ")
    key, _, team = run("keys", "list")[1].partition("  team ")
    assert key.endswith("  -")
    assert team.startswith(f"{team_id}  -  credits ")


def served(monkeypatch, *arguments):
    """Return what `serve` says before it would start, and its exit code."""
    monkeypatch.setattr("scraper_service.server.service.serve", lambda *_: 0)
    done = CliRunner().invoke(main, [*arguments[:-1], "serve", "--host", arguments[-1]])
    assert done.stdout == ""
    return done.stderr, done.exit_code


def test_a_public_service_without_secret_keys_refuses_to_start_or_warns(monkeypatch):
    sample = ("-s", "API_KEYS=fc-secret,fc-change-me")
    said, code = served(monkeypatch, *sample, "0.0.0.0")
    assert code == 2
    assert "SCRAPER_API_KEYS has the key of the documentation, fc-change-me" in said
    said, code = served(monkeypatch, *sample, "127.0.0.1")
    assert (code, said[:9]) == (0, "WARNING: ")
    for host, is_told in (("0.0.0.0", True), ("10.1.2.3", True), ("::1", False)):
        said, code = served(monkeypatch, "-s", "AUTH_ENABLED=false", host)
        assert (code, said[:9]) == (0, "WARNING: ")
        assert "everybody who can reach this service may use it" in said
        assert ("can be reached from other machines" in said) == is_told
    for host in ("0.0.0.0", "127.0.0.1"):
        assert served(monkeypatch, "-s", "API_KEYS=fc-secret", host) == ("", 0)


def test_a_team_has_limits_and_further_keys(run):
    limits = ("--credits", "100", "--concurrency", "3", "--rate", "scrape=20")
    assert run("keys", "create", "--team", "shop", *limits)[0] == 0
    assert run("keys", "create", "--team", "shop", "--name", "second")[0] == 0
    _, teams = run("teams", "list")
    [team_id] = ids_of(teams)
    line = f"{team_id}  shop  credits 100 of 100  concurrency 3  rates scrape=20  disk 0.0 MiB of default"
    assert teams == line
    _, keys = run("keys", "list")
    assert [line in each for each in keys.splitlines()] == [True, True]
    code, text = run("keys", "create", "--team", "shop", "--credits", "5")
    assert code == 2
    assert "the team 'shop' exists: change what it may do with `teams set`" in text
    assert run("keys", "create", "--team", team_id)[0] == 0


def test_a_team_is_changed(run):
    run("keys", "create", "--team", "shop", "--credits", "10")
    change = ("--add-credits", "5", "--rate", "map=7", "--rate", "crawl=0")
    _, text = run("teams", "set", "shop", *change)
    assert "credits 15 of 15  concurrency unlimited  rates crawl=0,map=7" in text
    change = ("--credits", "unlimited", "--rate", "map=default", "--name", "store")
    _, text = run("teams", "set", "shop", *change)
    assert "store  credits unlimited  concurrency unlimited  rates crawl=0" in text


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("teams", "set", "shop"), "say what to change"),
        (("teams", "set", "nope", "--credits", "1"), "no team has the id or name"),
        (("teams", "set", "shop", "--credits", "-1"), "must be a number or unlimited"),
        (
            ("teams", "set", "shop", "--concurrency", "0"),
            "must be >= 1, or unlimited; got 0",
        ),
        (
            ("teams", "set", "shop", "--disk-mb", "0"),
            "must be >= 1, or unlimited or default; got 0",
        ),
        (("teams", "set", "shop", "--rate", "scrape"), "MODE=NUMBER"),
        (("teams", "set", "shop", "--rate", "nope=1"), "the mode must be one of"),
        (("teams", "set", "shop", "--add-credits", "1"), "set a number first"),
        (
            ("teams", "set", "shop", "--add-credits", "1", "--credits", "1"),
            "not both",
        ),
        (("teams", "set", "twin", "--credits", "1"), "2 teams have the name 'twin'"),
    ],
)
def test_key_commands_that_fail_name_the_reason(run, arguments, fault):
    run("keys", "create", "--team", "shop")
    for _ in range(2):
        run("keys", "create", "--name", "twin")
    code, text = run(*arguments)
    assert code != 0
    assert fault in text


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        ("RATE_LIMITS=scrape", "RATE_LIMITS entry 'scrape' must be MODE=NUMBER"),
        ("RATE_LIMITS=fly=3", "a mode is one of scrape, crawl, map"),
        ("BLOCKED_SITES=http://a.example", "BLOCKED_SITES entry 'http://a.example'"),
    ],
)
def test_settings_that_make_no_sense_are_named(setting, fault):
    done = CliRunner().invoke(main, ["-s", setting, "serve", "--port", "0"])
    assert done.exit_code == 2
    assert fault in done.output
