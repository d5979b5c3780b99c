"""Copies the libraries of the web page out of their npm packages: `make web-libraries`.

``libraries.json`` beside the copies lists name, version, source, licence and checksums. A
test checks that the copies are those of the list.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

STATIC = Path(__file__).parents[1] / "scraper_service" / "web" / "static" / "libraries"
#: Package, licence, and files of the package by the name of their copy.
PACKAGES = (
    (
        "preact@11.2.0",
        "MIT",
        {"preact.js": "dist/preact.mjs", "hooks.js": "hooks/dist/hooks.mjs"},
    ),
    (
        "@preact/signals-core@1.14.5",
        "MIT",
        {"signals-core.js": "dist/signals-core.mjs"},
    ),
    ("@preact/signals@2.11.4", "MIT", {"signals.js": "dist/signals.mjs"}),
    ("htm@3.1.1", "Apache-2.0", {"htm.js": "dist/htm.module.js"}),
    (
        "uplot@1.6.32",
        "MIT",
        {"uplot.js": "dist/uPlot.iife.min.js", "uplot.css": "dist/uPlot.min.css"},
    ),
)
#: Browsers resolve only relative names without an import map, which would have to be an
#: inline script.
IMPORTS = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_IMPORT = re.compile(rb'\bfrom ?"([^".][^"]*)"')
_SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=\S+\s*$")


def main() -> None:
    """Copy all files and write the list."""
    listed = []
    with tempfile.TemporaryDirectory() as folder:
        for package, licence, files in PACKAGES:
            archive = packed(package, folder)
            listed.append(
                {
                    "package": package,
                    "source": f"https://www.npmjs.com/package/{package.rpartition('@')[0]}",
                    "licence": licence,
                    "archiveSha512": hashlib.sha512(archive).hexdigest(),
                    "files": {
                        name: copied(archive, path, name)
                        for name, path in files.items()
                    },
                }
            )
            text = member(archive, "LICENSE")
            name = package.rpartition("@")[0].rpartition("/")[2]
            (STATIC / f"LICENSE.{name}.txt").write_bytes(text)
    (STATIC / "libraries.json").write_text(json.dumps(listed, indent=2) + "\n")


def packed(package: str, folder: str) -> bytes:
    """Return the archive of a package. Raises :exc:`subprocess.CalledProcessError`."""
    done = subprocess.run(  # noqa: S603  # the arguments are ours
        ["npm", "pack", "--silent", package],  # noqa: S607
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return (Path(folder) / done.stdout.split()[-1]).read_bytes()


def member(archive: bytes, path: str) -> bytes:
    """Return a file of an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        file = opened.extractfile(f"package/{path}")
        assert file is not None
        return file.read()


def copied(archive: bytes, path: str, name: str) -> dict[str, str]:
    """Write a copy with relative imports; return its path and checksums."""
    original = member(archive, path)
    text = _SOURCE_MAP.sub(b"\n", original)

    def relative(match: re.Match[bytes]) -> bytes:
        return b'from"%s"' % IMPORTS[match[1].decode()].encode()

    text = _IMPORT.sub(relative, text)
    (STATIC / name).write_bytes(text)
    return {
        "path": path,
        "originalSha256": hashlib.sha256(original).hexdigest(),
        "sha256": hashlib.sha256(text).hexdigest(),
    }


if __name__ == "__main__":
    main()
