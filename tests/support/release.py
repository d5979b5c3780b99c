"""Build the packages of a release, install the wheel apart, and scrape a page with it.

``python -m tests.support.release`` takes minutes, and needs PyPI and a C compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.conftest import Service
from tests.support.mockserver import MockServer
from tools.bench.processes import ROOT

COMPILED = "from scraper_service.content.passes import compiled; assert compiled"


class InstalledService(Service):
    """The service of another interpreter, without this folder in its path."""

    def __init__(self, python: Path, data_dir: Path):
        self._python = str(python)
        super().__init__(data_dir)

    def _launch(self, environment, cwd):
        self.command = (self._python, "-P", *self.command[1:])
        return super(Service, self)._launch(
            {k: v for k, v in environment.items() if k != "PYTHONPATH"}, Path("/")
        )


def environment(folder: Path, *packages: str) -> Path:
    """Make an environment with packages; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", *packages)
    return python


def run(*command: object, cwd: Path = ROOT) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=cwd)


def sources(folder: Path) -> Path:
    """Copy what Git knows, so that no file of this machine is in the packages."""
    listed = subprocess.run(
        ("git", "ls-files", "-z"), cwd=ROOT, stdout=subprocess.PIPE, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes((ROOT / name).read_bytes())
    return folder


def main() -> int:
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        builder = environment(folder / "builder", "build")
        where = sources(folder / "sources")
        # The wheel is made of the source package.
        run(builder, "-m", "build", "--outdir", folder / "dist", where, cwd=folder)
        [wheel] = (folder / "dist").glob("*.whl")
        [package] = (folder / "dist").glob("*.tar.gz")
        python = environment(folder / "installed", str(wheel))
        run(python, "-c", COMPILED, cwd=folder)
        with (
            MockServer() as site,
            InstalledService(python, folder / "data") as service,
        ):
            reply = service.post("/v2/scrape", {"url": site.url("/text")})
            assert reply.status == 200, reply
            assert reply.json["data"]["markdown"], reply
        print(f"{package.name} and {wheel.name} install, and serve")
    return 0


if __name__ == "__main__":
    sys.exit(main())
