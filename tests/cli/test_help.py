"""Help and completion: what a user learns at the prompt."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from scraper_service.cli.main import main
from scraper_service.cli.outputs.page_files import NAMES

NAME = "scraper-service"


def commands(group=main, path=()):
    """Yield each command with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


def completed(words):
    """Return what bash offers for the last one of ``words``."""
    variables = {
        "_SCRAPER_SERVICE_COMPLETE": "bash_complete",
        "COMP_WORDS": f"{NAME} {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    done = CliRunner().invoke(main, env=variables, prog_name=NAME)
    return {line.partition(",")[2] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("words", sorted(commands()), ids=" ".join)
def test_every_command_has_help_and_page_commands_have_examples(words):
    done = CliRunner().invoke(main, [*words, "--help"], prog_name=NAME)
    assert done.exit_code == 0
    _, _, end = done.stdout.partition("Examples:\n")
    shows = [line for line in end.splitlines() if f"{NAME} {words[0]} " in line]
    is_everyday = words[0] in {"scrape", "parse", "map", "search", "crawl", "batch"}
    assert bool(shows) or not is_everyday


@pytest.mark.parametrize("command", ["scrape", "crawl", "batch", "parse"])
def test_help_names_every_format(command):
    done = CliRunner().invoke(main, [command, "--help"], terminal_width=200)
    missing = [name for name in NAMES if name not in done.stdout]
    assert missing == []


def test_a_shell_completes_commands_options_and_formats():
    assert completed("scr") == {"scrape"}
    assert {"--schema", "--server"} <= completed("scrape --s")
    assert completed("scrape -f markdown,li") == {"markdown,links"}
    done = CliRunner().invoke(
        main, env={"_SCRAPER_SERVICE_COMPLETE": "zsh_source"}, prog_name=NAME
    )
    assert "#compdef scraper-service" in done.stdout


def test_formats_are_a_list_or_repeated():
    asked = ["scrape", "http://127.0.0.2/", "-f", "markdown, links", "-f", "nope,html"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2
    assert done.stderr.count("got ") == 1
    assert "got 'nope'" in done.stderr
