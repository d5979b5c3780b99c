"""Parse the pages of the documentation and run their code blocks.

A page runs as one shell session: its ``sh`` and ``python`` blocks run in their order and
share variables and files. A block whose first line is ``# needs ...`` does not run: it
needs more than the service. A ``json`` or ``text`` block directly below a block that runs
shows its output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

from attrs import frozen

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    ROOT / "deploy" / "README.md",
)
SERVICE = "http://127.0.0.1:3002"
RUNS = ("sh", "python")
SHOWS = ("json", "text")
NEEDS = "# needs "
MARK = "\x1e"  # a line between the outputs of two blocks
ANYTHING = "..."  # in the output on a page

_FENCE = re.compile(r"^(`{3,})(\w*)[^\n]*\n(.*?)^\1\n", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


@frozen
class Block:
    """A code block of a page."""

    #: The language after the opening fence, such as ``sh``.
    language: str
    text: str
    #: The ``json`` or ``text`` block directly below, None without one.
    output: str | None = None

    @property
    def runs(self) -> bool:
        """Return True if the block needs only a service to run."""
        return self.language in RUNS and not self.text.startswith(NEEDS)


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    text = page.read_text()
    found = []
    matches = list(_FENCE.finditer(text))
    for match, after in zip_longest(matches, matches[1:]):
        is_output = (
            after is not None
            and after[2] in SHOWS
            and not text[match.end() : after.start()].strip()
        )
        found.append(Block(match[2], match[3], after[3] if is_output else None))
    return found


def prose(page: Path) -> str:
    """Return the text of a page without its blocks."""
    return _FENCE.sub("", page.read_text())


def headings(page: Path) -> list[str]:
    """Return the headings of a page in their order."""
    return _HEADING.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in headings(page):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
        if found[anchor]:
            found[f"{anchor}-{found[anchor]}"] = 0
    return set(found)


def links(page: Path) -> list[str]:
    """Return the targets in the repository of a page's links and images."""
    targets = [first or second for first, second in _LINK.findall(prose(page))]
    return [each for each in targets if not re.match(r"[a-z]+:", each)]


def run(
    page: Path, places: dict[str, str], folder: Path, **variables: str
) -> list[str]:
    """Run a page in ``folder``; return the output of each block that runs.

    ``places`` maps the URLs of the page to the URLs to use. The outputs have the URLs of
    the page again.
    """
    script = ["set -e", 'curl() { command curl --fail-with-body -g "$@"; }']
    for block in (block for block in blocks(page) if block.runs):
        text = block.text
        for shown, real in places.items():
            text = text.replace(shown, real)
        if block.language == "python":
            text = f"python -W ignore - <<'END_OF_PYTHON'\n{text}END_OF_PYTHON\n"
        script += [f"printf '\\n{MARK}\\n'", text]
    scripts = Path(sys.executable).parent
    # Scrapy in this process may have set its settings, and a project has its own.
    inherited = {k: v for k, v in os.environ.items() if k != "SCRAPY_SETTINGS_MODULE"}
    done = subprocess.run(
        ("sh", "-c", "\n".join(script)),
        cwd=folder,
        env={
            **inherited,
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            **variables,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    printed = done.stdout
    for shown, real in places.items():
        printed = printed.replace(real, shown)
    return printed.split(f"\n{MARK}\n")[1:]


def is_like(shown: Any, real: Any) -> bool:
    """Return True if an output matches the page; ``...`` matches any text."""
    if isinstance(shown, dict) and isinstance(real, dict):
        names = shown.keys() - {ANYTHING}
        same = names <= real.keys() if ANYTHING in shown else names == real.keys()
        return same and all(is_like(shown[name], real[name]) for name in names)
    if isinstance(shown, list) and isinstance(real, list):
        if ANYTHING in shown:
            shown = shown[: shown.index(ANYTHING)]
            real = real[: len(shown)]
        return len(shown) == len(real) and all(map(is_like, shown, real))
    if isinstance(shown, str) and ANYTHING in shown:
        parts = map(re.escape, shown.split(ANYTHING))
        text = real if isinstance(real, str) else json.dumps(real)
        return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
    return bool(shown == real)


def shows(block: Block, printed: str) -> bool:
    """Return True if ``printed`` is the output that a block shows."""
    assert block.output is not None
    try:
        return is_like(json.loads(block.output), json.loads(printed))
    except ValueError:
        return is_like(block.output.strip(), printed.strip())
