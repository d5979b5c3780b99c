"""The files of ``deploy/``, by their own linters; ``make test-deploy`` tries them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scraper_service import settings
from tests.support.image import steps
from tests.support.waiting import WAIT_S
from tools.bench.processes import ROOT

DEPLOY = ROOT / "deploy"
COMMANDS = Path(sys.executable).parent
UNITS = sorted(DEPLOY.glob("*.service"))
COMPOSE = sorted(DEPLOY.glob("compose*.yaml"))


def lint(*command):
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_image_is_built_by_the_rules():
    assert lint(COMMANDS / "hadolint", DEPLOY / "Dockerfile") == ""


def test_the_image_runs_as_nobody_special():
    found = steps((DEPLOY / "Dockerfile").read_text())
    users = [text for name, text in found if name == "USER"]
    assert users == ["10001"]
    commands = [name for name, _ in found]
    assert "HEALTHCHECK" in commands
    assert commands.index("USER") < commands.index("CMD")


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_follow_their_schema(path):
    schema = ("--builtin-schema", "vendor.compose-spec")
    lint(COMMANDS / "check-jsonschema", *schema, path)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_understood(path, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    text = path.read_text()
    [program] = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
    unit = tmp_path / path.name
    unit.write_text(text.replace(program, "/bin/true"))  # it is not installed here
    said = lint("systemd-analyze", "verify", "--man=no", unit)
    assert path.name not in said, said


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_every_variable_is_a_setting(path, monkeypatch):
    for name in os.environ:
        if name.startswith("SCRAPER_"):
            monkeypatch.delenv(name)
    for name in re.findall(r"SCRAPER_[A-Z_]+[A-Z]", path.read_text()):
        monkeypatch.setenv(name, "x")
    assert settings.unknown_settings() == []
