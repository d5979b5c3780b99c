"""The README: ``make serve`` in a fresh clone gives the key and the call it promises.

Its other commands are run by ``tests/test_docs.py``, as those of every page.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess

import pytest

from tests.support.documents import ROOT

PUBLIC = "https://example.org"


@pytest.mark.timeout(1800)  # it installs everything
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a git checkout")
def test_make_serve_in_a_fresh_clone_and_a_fresh_environment(tmp_path, site):
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
    environment = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}
    environment["SCRAPER_EGRESS_ALLOW"] = "127.0.0.2/32"
    environment["CC"] = "false"  # the tests run with the extension that they compiled
    environment["PIP_NO_COMPILE"] = "1"  # few of the installed modules are imported
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
