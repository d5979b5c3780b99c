"""Writes ``constraints.txt``: the newest versions that ``setup.cfg`` allows, with all extras.

Run it, then all tests; commit the file if they pass::

    python -m tools.constraints
"""

from __future__ import annotations

import configparser
import subprocess
from pathlib import Path

HEAD = """\
# The versions that the tests passed with; `make` and the image install them.
# Written by `python -m tools.constraints`.
"""
# Extras for measurements only, whose requirements contradict those of others.
LEFT_OUT = {"bench", "training"}
# Versions without wheels for one platform; its newest with wheels is older.
OLDER = """
cryptography < 49; sys_platform == "darwin" and platform_machine == "x86_64"
cryptography >= 49; sys_platform != "darwin" or platform_machine != "x86_64"
"""


def requirements() -> list[str]:
    """Return the requirements of the package and of its extras."""
    config = configparser.ConfigParser()
    config.read("setup.cfg", encoding="utf-8")
    extras = config["options.extras_require"]
    texts = [config["options"]["install_requires"]]
    texts += [extras[name] for name in extras if name not in LEFT_OUT]
    lines = [*"\n".join(texts).splitlines(), *OLDER.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def main() -> None:
    """Resolve for all platforms and versions of Python at once."""
    command = "uv pip compile --quiet --universal --python-version 3.11 --no-header"
    found = subprocess.run(  # noqa: S603  # the command above
        [*command.split(), "--no-annotate", "-"],
        input="\n".join(requirements()),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    Path("constraints.txt").write_text(HEAD + found.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
