"""The installation by ``make``, with a stand-in for uv, and what ``setup.py`` builds when."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.documents import ROOT

UV = """#!/bin/sh
if [ "$1" = venv ]; then mkdir -p "$6/bin"; exit; fi
echo "Resolved 62 packages in 2s" >&2
sleep 1
echo "Prepared 1 package in 1s" >&2
echo "no space left" >&2
exit $STATUS
"""
RUN = """
import sys
from pathlib import Path
from tools import install

install.TICK_S = 0.4
sys.exit(install.main(Path(sys.argv[1]), ["-e", "."]))
"""


@pytest.mark.parametrize("status", [0, 3])
def test_each_step_of_make_is_a_line_with_its_seconds(tmp_path, status):
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    done = subprocess.run(
        (sys.executable, "-c", RUN, tmp_path / "venv"),
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "STATUS": str(status)},
        capture_output=True,
        text=True,
        check=False,
    )
    creating, reading, downloading, installing = done.stdout.splitlines()
    assert creating.startswith(f"creating {tmp_path}/venv … ")
    assert reading.startswith("reading the requirements … ")
    assert downloading.startswith("downloading 62 packages, compiling the extension … ")
    assert downloading.count(" s") >= 3  # not only at its end
    assert installing == "installing the packages … 0 s"
    assert done.returncode == status
    assert ("no space left" in done.stderr) == bool(status)


def test_make_installs_uv_in_the_environment_if_uv_is_missing(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    (tmp_path / "bin/uv").write_text(UV)
    (tmp_path / "bin/uv").chmod(0o755)
    done = subprocess.run(
        (sys.executable, "-c", RUN, tmp_path),
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "STATUS": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    reading, downloading, _installing = done.stdout.splitlines()
    assert reading.startswith("reading the requirements … ")
    assert downloading.startswith("downloading 62 packages")


def test_the_modules_of_a_clone_are_compiled_before_the_first_start(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "spiders").mkdir()
    shutil.copy(ROOT / "tools/install.py", tmp_path / "tools")
    (tmp_path / "spiders/base.py").write_text("x = 1")
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    subprocess.run(
        (sys.executable, "-c", RUN, tmp_path / "venv"),
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "STATUS": "0"},
        capture_output=True,
        check=True,
    )
    assert list((tmp_path / "spiders/__pycache__").iterdir())


def setup(folder, *command):
    shutil.copytree(
        ROOT / "scraper_service/content/passes",
        folder / "scraper_service/content/passes",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("*.so"),
    )
    shutil.copyfile(ROOT / "setup.py", folder / "setup.py")
    (folder / "spiders").mkdir(exist_ok=True)
    return subprocess.run(
        (sys.executable, "-W", "ignore", "setup.py", "-q", *command),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_only_the_build_of_the_extension_writes_its_source(tmp_path):
    setup(tmp_path, "egg_info")
    assert not (tmp_path / "build").exists()


CYTHON = """
from pathlib import Path
from setuptools import Extension
__version__ = "1"
def cythonize(extension):
    Path("build/seen").open("a").write(str(Path(extension.sources[0]).stat().st_mtime_ns) + " ")
    raise ValueError("no C")
"""


def test_an_unchanged_source_is_not_written_again(tmp_path):
    (tmp_path / "Cython").mkdir()
    (tmp_path / "Cython" / "__init__.py").write_text("__version__ = '1'")
    (tmp_path / "Cython" / "Build.py").write_text(CYTHON)
    for _ in range(2):
        assert "not built: ValueError('no C')" in setup(tmp_path, "build_ext")
    first, second = (tmp_path / "build" / "seen").read_text().split()
    assert first == second
