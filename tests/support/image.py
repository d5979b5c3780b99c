"""Build and test the image without Docker: run the steps of the Dockerfile in a clean Debian.

``python -m tests.support.image`` takes minutes. It needs root, ``debootstrap`` and a network.
Release and Python are those of this machine's Debian. Afterwards the
services of the compose files start as in containers, and Chromium with its sandbox.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support import compose
from tools.bench.processes import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PACKAGES = "python3,python3-dev,python3-venv,python-is-python3,ca-certificates"
# Files that pip and apt need to reach the network from the image.
OF_THIS_MACHINE = (
    *("/etc/resolv.conf", "/etc/pip.conf", "/etc/hosts"),
    *("/etc/ssl/certs/ca-certificates.crt", "/etc/apt/apt.conf"),
)
FIRST_STAGE = ("gcc", "libc6-dev", "python3-dev")
MIB = 2**20


def steps(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, as (name, arguments), in order."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = (line.partition(" ") for line in whole.splitlines() if line.strip())
    return [(name.upper(), rest.strip()) for name, _, rest in found]


class Image:
    """The folder of the image. ``mirror`` is the URL of a Debian mirror."""

    def __init__(self, folder: Path, mirror: str):
        self.folder = folder
        self.mirror = mirror
        self.workdir = "/"
        self.user = "0"
        self.environment = {
            "PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin",
            "DEBIAN_FRONTEND": "noninteractive",
            **{k: v for k, v in os.environ.items() if k.startswith("PIP_")},
        }
        self.commands: dict[str, list[str]] = {}
        self._copied_mb = 0  # of files that only this machine needs

    def build(self) -> None:
        """Run all steps. Both stages share the folder, so copies between them are there."""
        release = dict(
            line.split("=", 1)
            for line in Path("/etc/os-release").read_text().splitlines()
            if "=" in line
        )["VERSION_CODENAME"]
        run(
            *("debootstrap", "--variant=minbase", f"--include={PACKAGES}", release),
            *(str(self.folder), self.mirror),
        )
        (self.folder / "dev" / "shm").chmod(0o1777)  # as in Docker, for locks
        for name in OF_THIS_MACHINE:
            if Path(name).exists():
                shutil.copy(name, self.inside(name))
        for path in os.environ.get("PIP_FIND_LINKS", "").split():
            if Path(path).is_dir():
                shutil.copytree(path, self.inside(path), dirs_exist_ok=True)
                sizes = (x.stat().st_size for x in Path(path).rglob("*"))
                self._copied_mb += sum(sizes) // MIB
        for name, text in steps(DOCKERFILE.read_text()):
            print(f"# {name} {text}", file=sys.stderr)
            self.step(name, text)

    def inside(self, path: str) -> Path:
        found = self.folder / path.lstrip("/")
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def step(self, name: str, text: str) -> None:
        if name == "RUN":
            self.chroot("/bin/sh", "-c", text)
        elif name == "COPY" and not text.startswith("--from"):
            *sources, target = text.split()
            for source in sources:
                self.copy(ROOT / source, target)
        elif name == "ENV":
            for key, value in re.findall(r"(\w+)=(\S+)", text):
                path = self.environment["PATH"]
                self.environment[key] = value.replace("$PATH", path)
        elif name == "WORKDIR":
            self.workdir = text
            self.inside(text).mkdir(exist_ok=True)
        elif name == "USER":
            self.user = text
        elif name == "CMD":
            self.commands["CMD"] = json.loads(text)
        elif name == "HEALTHCHECK":
            self.commands["HEALTHCHECK"] = json.loads(text.partition("CMD ")[2])

    def copy(self, source: Path, target: str) -> None:
        place = self.inside(f"{self.workdir}/{target}" if target[0] != "/" else target)
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, place, dirs_exist_ok=True, ignore=ignored)
        elif target.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place / source.name)
        else:
            shutil.copy(source, place)

    def command(self, *command: str) -> list[str]:
        go = f'cd {self.workdir} && exec "$@"'
        user = f"--userspec={self.user}:{self.user}"
        return ["chroot", user, str(self.folder), "/bin/sh", "-c", go, "-", *command]

    def chroot(self, *command: str) -> None:
        subprocess.run(self.command(*command), env=self.environment, check=True)

    def try_out(self) -> None:
        """Run the services of all compose files, the doctor and the programs."""
        compose.try_sandbox(self)
        compose.try_one(self)
        compose.try_nodes(self)
        compose.try_workers(self)
        self.examine()
        for program in ("scrapyd", "chromium-headless-shell", "tesseract"):
            self.chroot(program, "--version")

    def size_mb(self) -> int:
        """Return the size without what only the first stage has.

        Packages that the machine's Python needs for the compiler count as those of the
        Python image.
        """
        self.user = "0"
        self.chroot("apt-get", "purge", "--yes", "--auto-remove", *FIRST_STAGE)
        self.chroot("apt-get", "clean")
        done = subprocess.run(
            ("du", "-sxm", self.folder), stdout=subprocess.PIPE, text=True, check=True
        )
        return int(done.stdout.split()[0]) - self._copied_mb

    def examine(self) -> None:
        """Run the doctor; ignore a failed name resolution, which depends on the machine."""
        done = subprocess.run(
            self.command("scraper-service", "doctor", "--port", "3002"),
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(done.stdout)
        failed = [x for x in done.stdout.splitlines() if x.startswith("fails")]
        if not done.stdout or [x for x in failed if " names: " not in x]:
            raise SystemExit("the doctor finds something that fails")


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    options = parser.parse_args()
    if os.geteuid() or shutil.which("debootstrap") is None:
        raise SystemExit("this takes the rights of root, and debootstrap")
    with socket.socket() as listener:  # before the build, which takes minutes
        if listener.connect_ex(("127.0.0.1", compose.PORT)) == 0:
            raise SystemExit(f"port {compose.PORT} is in use: end what listens there")
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)  # another user needs it as root folder
    try:
        image = Image(folder, options.mirror)
        image.build()
        run("mount", "-t", "proc", "proc", str(folder / "proc"))
        try:
            image.try_out()
            print(f"the image has {image.size_mb()} MB")
        finally:
            run("umount", str(folder / "proc"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("the image builds, its services start, answer and stop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
