"""Settings in a file: ``--env-file``."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.documents import ROOT
from tests.support.waiting import WAIT_S


def scraper(*arguments, **environment):
    return subprocess.run(
        (sys.executable, "-m", "scraper_service", *map(str, arguments)),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )


def test_an_env_file_sets_variables_missing_in_the_environment(tmp_path):
    file = tmp_path / "settings.env"
    file.write_text(
        "# of this machine\n\n"
        f"export SCRAPER_DATA_DIR='{tmp_path}/of $the file'  # quoted\n"
    )
    done = scraper("--env-file", file, "keys", "create")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "of $the file" / "jobs.sqlite").exists()
    done = scraper(
        *("--env-file", file, "keys", "create"), SCRAPER_DATA_DIR=str(tmp_path / "own")
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "own" / "jobs.sqlite").exists()


def test_a_setting_without_its_prefix_or_with_a_typing_error_is_named(tmp_path):
    file = tmp_path / ".env"
    file.write_text("EGRESS_ALLOW=127.0.0.2/32\nOTHER=1\nSCRAPER_EGRES_ALLOW=1\n")
    done = scraper("--env-file", file, "scrape", "http://127.0.0.2/")
    assert done.returncode != 0
    told = "EGRESS_ALLOW is not read; the setting is SCRAPER_EGRESS_ALLOW"
    assert told in done.stderr
    assert "OTHER" not in done.stderr
    assert "did you mean 'SCRAPER_EGRESS_ALLOW'?" in done.stderr


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_bad_value_in_a_file_stops_the_start(tmp_path, command):
    file = tmp_path / ".env"
    file.write_text("\ufeffSCRAPER_RETENTION_DAYS=x\n", encoding="utf-8")
    done = scraper(command, "--env-file", file, "--data-dir", tmp_path)
    assert done.returncode == 2
    assert "SCRAPER_RETENTION_DAYS must be a number" in done.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SCRAPER_PORT\n", 1),
        ("# one\n\nA=1\n\n\nSCRAPER_PORT: 3010\n", 6),
        ("A=1\nB='open\n", 2),
        ("A=1\n\n= 3\n", 3),
    ],
)
def test_a_wrong_line_is_refused_with_its_number(tmp_path, text, line):
    file = tmp_path / ".env"
    file.write_text(text)
    done = scraper("serve", "--env-file", file)
    assert done.returncode == 2
    assert f"{file}, line {line}: must be NAME=VALUE" in done.stderr


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path):
    done = scraper("serve", "--env-file", tmp_path / "none")
    assert done.returncode == 2
    assert "none' does not exist" in done.stderr
    (tmp_path / "bytes").write_bytes(b"A=\xff\n")
    done = scraper("serve", "--env-file", tmp_path / "bytes")
    assert done.returncode == 2
    assert f"{tmp_path}/bytes: 'utf-8' codec" in done.stderr
