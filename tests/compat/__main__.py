"""Run all clients against a service of their own, and print the table."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from attrs import frozen

from tests import shop
from tests.compat.steps import FAILS_IN_CLIENT, NOT_OFFERED, REFUSED, WORKS
from tests.conftest import Service
from tests.scripted_site import ScriptedSite, slow

FOLDER = Path(__file__).parent
RESULT = FOLDER.parents[1] / "bench" / "results" / "compatibility.md"
INSTALL_TIMEOUT_S = 180
RUN_TIMEOUT_S = 600
PYTHON = ("python_v2", "python_v1", "loaders")
SCRIPTS = ("clients.mjs", "mcp.mjs")


@frozen
class Outcome:
    """What became of one method of one client."""

    client: str
    method: str
    result: str

    @property
    def is_right(self) -> bool:
        """Whether it worked, or failed with a clear error where it is not offered."""
        if self.method.endswith((NOT_OFFERED, FAILS_IN_CLIENT)):
            return self.result.startswith(REFUSED)
        return self.result == WORKS


def install(folder: Path) -> str | None:
    """Install the JavaScript clients into ``folder``; return why it was not possible."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        return "node and npm are not both installed"
    for name in ("package.json", *SCRIPTS):
        shutil.copy(FOLDER / name, folder)
    command = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts")
    done = subprocess.run(
        (*command, "--loglevel=error"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    return done.stderr[-500:] if done.returncode else None


def outcomes(service: Service, site: str, folder: Path | None) -> list[Outcome]:
    """Run every client, those of JavaScript from ``folder``; None leaves them out."""
    commands = [([sys.executable, "-m", f"tests.compat.{x}"], None) for x in PYTHON]
    if folder is not None:
        commands += [(["node", name], folder) for name in SCRIPTS]
    found = []
    for command, place in commands:
        done = subprocess.run(
            (*command, service.url, service.key, site),
            cwd=place or FOLDER.parents[1],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            text = f"{command[-1]}: {done.stderr[-2000:]}"
            raise RuntimeError(text)
        lines = [x for x in done.stdout.splitlines() if x.startswith('{"client"')]
        found += [Outcome(**json.loads(line)) for line in lines]
    return found


def table(found: list[Outcome]) -> str:
    """Return Markdown: method → result, by client."""
    lines = [
        "# Public clients, unmodified",
        "",
        "Written by `make compat`. What is not offered has to fail with a clear error.",
        "",
        "| Client | Method | Result |",
        "| --- | --- | --- |",
    ]
    for each in found:
        result = each.result.replace("|", "\\|").replace("\n", " ")[:160]
        lines.append(f"| {each.client} | {each.method} | {result} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    pages = {**shop.pages(), "/slow": slow("<p>late</p>", 5)}
    with tempfile.TemporaryDirectory() as name, ScriptedSite(pages) as site:
        folder = Path(name) / "js"
        folder.mkdir()
        if why := install(folder):
            print(f"without the JavaScript clients: {why}", file=sys.stderr)
        service = Service(Path(name) / "data")
        try:
            found = outcomes(service, site.url("").rstrip("/"), None if why else folder)
        finally:
            service.stop()
    text = table(found)
    print(text)
    if options.save:
        RESULT.write_text(text)
    wrong = [each for each in found if not each.is_right]
    for each in wrong:
        print(f"{each.client} {each.method}: {each.result}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
