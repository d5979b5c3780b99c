"""``setup.cfg`` names all that is imported, and its requirements have wheels."""

from __future__ import annotations

import ast
import configparser
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CONFIG = configparser.ConfigParser()
CONFIG.read(ROOT / "setup.cfg", encoding="utf-8")
EXTRAS = CONFIG["options.extras_require"]
# May be missing, so that their packages are unknown.
BY_HAND = {"anydoc": "firecrawl-anydoc", "ddgs": "ddgs", "olefile": "olefile"}
#: The extras of the image, which ``deploy/Dockerfile`` names.
IMAGE = re.search(r"'\.\[([\w,-]+)\]'", (ROOT / "deploy/Dockerfile").read_text())


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def name_of(requirement: str) -> str:
    """Return the normal form of a package's name (PEP 503)."""
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return re.sub(r"[-_.]+", "-", found[0]).lower()


BASE = lines_of(CONFIG["options"]["install_requires"])
# Not those for measurements, which the package does not import.
OF_EXTRAS = [
    line
    for extra, text in EXTRAS.items()
    if extra not in {"bench", "test", "training"}
    for line in lines_of(text)
]


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the modules that run-time code below ``node`` imports."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for part in child.orelse:
                yield from imported(part)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level:
            yield child.module or ""
        else:
            yield from imported(child)


def imported_modules() -> dict[str, Path]:
    """Return the top names of all imported modules, each with a file that imports it."""
    own = {*sys.stdlib_module_names, "scraper_service", "compression"}
    files = [
        *(ROOT / "scraper_service").rglob("*.py"),
        *(ROOT / "spiders").rglob("*.py"),
    ]
    found = {
        name.partition(".")[0]: path
        for path in files
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
    }
    return {name: path for name, path in found.items() if name not in own}


@pytest.mark.full
def test_every_imported_package_is_declared():
    declared = {name_of(line) for line in [*BASE, *OF_EXTRAS]}
    packages = {**packages_distributions(), **{k: [v] for k, v in BY_HAND.items()}}
    missing = {
        name: str(path)
        for name, path in imported_modules().items()
        if declared.isdisjoint(name_of(found) for found in packages.get(name, [name]))
    }
    assert missing == {}


@pytest.mark.full
def test_every_declared_package_is_imported():
    packages = {**packages_distributions(), **{k: [v] for k, v in BY_HAND.items()}}
    used = {name_of(found) for name in imported_modules() for found in packages[name]}
    # Drivers and plug-ins are loaded by name, data without an import.
    loaded_by_name = {"tzdata", "chardetng-py"}
    assert {name_of(line) for line in BASE} - used - loaded_by_name == set()


def test_the_tested_versions_equal_the_allowed_versions():
    tested = {
        name_of(line) for line in lines_of((ROOT / "constraints.txt").read_text())
    }
    required = [*BASE, *OF_EXTRAS, *lines_of(EXTRAS["test"])]
    assert {name_of(line) for line in required} - tested == set()


PLATFORMS = {
    "Linux x86-64": "x86_64-manylinux_2_28",
    "Linux ARM": "aarch64-manylinux_2_28",
    "macOS ARM": "aarch64-apple-darwin",
    "macOS Intel": "x86_64-apple-darwin",
}


@pytest.mark.slow
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("is_pinned", [False, True], ids=["newest", "tested versions"])
def test_all_requirements_have_wheels(platform, python, is_pinned):
    assert IMAGE
    extras = [line for extra in IMAGE[1].split(",") for line in lines_of(EXTRAS[extra])]
    pins = ["--constraints", str(ROOT / "constraints.txt")] if is_pinned else []
    command = (
        "-m uv pip compile --quiet --no-header --no-annotate --only-binary :all: -"
    )
    done = subprocess.run(
        [
            *(sys.executable, *command.split(), "--python-version", python),
            *("--python-platform", PLATFORMS[platform], *pins),
        ],
        input="\n".join([*BASE, *extras]),
        capture_output=True,
        text=True,
        check=False,
    )
    if "error sending request" in done.stderr or "Failed to fetch" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, f"{platform}, Python {python}: {done.stderr}"
