"""Run all clients against a service of their own, and print the table."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from tests.browser.conftest import SETTINGS, why_no_browser
from tests.compat.steps import FAILS_IN_CLIENT, NOT_OFFERED, REFUSED, WORKS
from tests.conftest import Service
from tests.support import shop
from tests.support.chat_server import ChatServer
from tests.support.scripted_site import ScriptedSite, slow

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parent
RESULT = FOLDER.parents[1] / "tools" / "bench" / "results" / "compatibility.md"
INSTALL_TIMEOUT_S = 600
RUN_TIMEOUT_S = 600
PYTHON = ("python_v2", "python_v1")
LOADERS = ("loaders", "hosts")
SCRIPTS = (
    *("clients.mjs", "cli.mjs", "n8n.mjs"),
    *("mcp.mjs", "mcp_upload.mjs", "hosts.mjs"),
)


def answer_of(lamp: str) -> dict[str, Any]:
    """Return what the language model answers to everything.

    These are a report of deep research, and for all else data of a page, options of a
    crawl, searches of deep research, and an action of an agent, which reads the page
    ``lamp``.
    """
    data = {
        "name": "Brass Lamp",
        "include_paths": ["^/shop"],
        "limit": 5,
        "queries": ["founder of the shop"],
        "action": "scrape",
        "urls": [lamp],
    }
    return {
        "by_text": {"Write the answer in Markdown": "The shop has a founder.", "": data}
    }


@frozen
class Outcome:
    """What became of one method of one client."""

    client: str
    method: str
    result: str

    @property
    def is_right(self) -> bool:
        """Whether it worked, or failed with a clear error where it is not offered."""
        if self.method.endswith(NOT_OFFERED):
            # By the service: a method called with wrong arguments shows nothing.
            return self.result.startswith(REFUSED) and "TypeError" not in self.result
        if self.method.endswith(FAILS_IN_CLIENT):
            return self.result.startswith(REFUSED)
        return self.result == WORKS


def install_scripts(folder: Path) -> str | None:
    """Install the JavaScript clients into ``folder``; return why it was not possible."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        return "node and npm are not both installed"
    folder.mkdir()
    for name in ("package.json", "n8n_node.mjs", *SCRIPTS):
        shutil.copy(FOLDER / name, folder)
    command = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts")
    return _failure((*command, "--loglevel=error"), folder)


def install_loaders(folder: Path) -> str | None:
    """Install the loaders into an environment of their own, ``folder``.

    They ask for other releases of libraries than the service does. Returns why it was
    not possible.
    """
    venv.create(folder, with_pip=True)
    wanted = ("-r", str(FOLDER / "loaders.txt"))
    pip = (_python_of(folder), "-m", "pip", "install", "--quiet")
    return _failure((*pip, "--disable-pip-version-check", *wanted), folder)


def _failure(command: tuple[str, ...], folder: Path) -> str | None:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    return done.stderr[-500:] if done.returncode else None


def _python_of(folder: Path) -> str:
    return str(folder / "bin" / "python")


def outcomes(
    service: Service, site: str, scripts: Path | None, loaders: Path | None
) -> list[Outcome]:
    """Run every client.

    Those of JavaScript are in the folder ``scripts``, the loaders in the environment
    ``loaders``; None leaves them out.
    """
    python = dict.fromkeys(PYTHON, sys.executable)
    if loaders is not None:
        python |= dict.fromkeys(LOADERS, _python_of(loaders))
    root = FOLDER.parents[1]
    # Hosts start the service's own MCP server.
    own = {"SERVICE_PYTHON": sys.executable, "SERVICE_FOLDER": str(root)}
    commands = [([x, "-m", f"tests.compat.{name}"], root) for name, x in python.items()]
    if scripts is not None:
        commands += [(["node", name], scripts) for name in SCRIPTS]
    found = []
    for command, place in commands:
        done = subprocess.run(
            (*command, service.url, service.key, site),
            cwd=place,
            capture_output=True,
            text=True,
            env={**os.environ, **own},
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


def _installed(install: Callable[[Path], str | None], folder: Path) -> Path | None:
    """Return the folder, or None where nothing can be installed, which is said."""
    why = install(folder)
    if why:
        print(f"without those of {folder.name}: {why}", file=sys.stderr)
    return None if why else folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"write {RESULT.name}")
    options = parser.parse_args()
    pages = {**shop.pages(), "/slow": slow("<p>late</p>", 5)}
    with (
        tempfile.TemporaryDirectory() as name,
        ScriptedSite(pages) as site,
        ChatServer() as chat,
    ):
        chat.behave(answer=answer_of(site.url("/shop/lamp")))
        scripts = _installed(install_scripts, Path(name) / "js")
        loaders = _installed(install_loaders, Path(name) / "loaders")
        if why := why_no_browser():
            print(f"sessions of the browser will fail: {why}", file=sys.stderr)
        service = Service(Path(name) / "data", **SETTINGS, **chat.environment)
        try:
            found = outcomes(service, site.url("").rstrip("/"), scripts, loaders)
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
