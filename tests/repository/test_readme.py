"""The README: ``make serve`` in a fresh clone gives the key and the call it promises.

The clone has an environment with what the package requires, and nothing of its extras. It is
linked from that of the tests: ``make test-deploy`` installs the package anew.

Its other commands are run by ``tests/test_docs.py``, as those of every page.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.documents import ROOT

PUBLIC = "https://example.org"
PACKAGE = "scraper-service"


def link_requirements(environment: Path) -> None:
    """Link what the package requires into a virtual environment."""
    [folder] = environment.glob("lib/*/site-packages")
    required = required_by(PACKAGE, frozenset())
    shared = {
        path.parts[0]
        for each in distributions()
        if canonicalize_name(each.name) not in required
        for path in each.files or ()
    }
    for each in map(distribution, required):
        for path in each.files or ():
            # A namespace is a folder of several packages.
            part = Path(*path.parts[: 2 if path.parts[0] in shared else 1])
            link = folder / part
            if ".." not in part.parts and not link.exists():
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(each.locate_file(part))


def required_by(name: str, extras: frozenset[str]) -> set[str]:
    """Return the names of what a distribution requires, directly or through others."""
    found = set()
    for text in distribution(name).requires or ():
        each = Requirement(text)
        if each.marker is None or any(
            each.marker.evaluate({"extra": extra}) for extra in extras | {""}
        ):
            found.add(canonicalize_name(each.name))
            found |= required_by(each.name, frozenset(each.extras))
    return found


@pytest.mark.full
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_make_serve_in_a_fresh_clone(tmp_path, site):
    clone = tmp_path / "clone"
    files = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    for name in filter(None, files.split("\0")):
        if (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, clone / name, follow_symlinks=False)
    venv.create(clone / ".venv", with_pip=True, symlinks=True)
    link_requirements(clone / ".venv")
    environment = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    environment["SCRAPER_EGRESS_ALLOW"] = "127.0.0.2/32"
    environment["CC"] = "false"  # the tests run with the extension that they compiled
    environment["PIP_COMPILE"] = "0"  # nor is a module that only builds the package
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            ("make", "serve", "ARGS=--port 0"),
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as make,
    ):
        try:
            curl = next(
                (line for line in make.stdout if line.strip().startswith("curl")), None
            )
            assert curl, (tmp_path / "log").read_text()
            curl = curl.replace(PUBLIC, site.url("/example"))
            done = subprocess.run(shlex.split(curl), capture_output=True, check=True)
        finally:
            os.killpg(make.pid, signal.SIGTERM)
    assert json.loads(done.stdout)["data"]["markdown"].startswith("# Example Domain")
    assert (clone / "data" / "jobs.sqlite").exists()
