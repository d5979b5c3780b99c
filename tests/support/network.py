"""Machines with a network and a host name of their own, joined by switches. Root only.

They are namespaces of this machine's kernel, and need neither addresses nor rules of its
own network. Each lasts as long as a process that waits for the end of its input, so
nothing is left even if the tests are killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tools.bench.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAMS = ("unshare", "nsenter", "ip", "bridge", "hostname")
TUNNEL = Path("/dev/net/tun")
KINDS = {"net": 0x40000000, "uts": 0x04000000}  # CLONE_NEWNET, CLONE_NEWUTS
HOLD = 'hostname "$0" && ip link set lo up && echo ready && exec cat'


class NetworkMissing(LookupError):
    """Raised when this machine cannot make namespaces; the text has the reason."""


def enter(pid: int) -> None:
    """Move this thread into the network and the host name of a process.

    Its later processes and threads are there, too.
    """
    library = ctypes.CDLL(None, use_errno=True)
    for name, kind in KINDS.items():
        with Path(f"/proc/{pid}/ns/{name}").open() as file:
            if library.setns(file.fileno(), kind):
                raise OSError(ctypes.get_errno(), f"setns: {name}")


class Machine:
    """A network with its loopback, and a host name. A context manager.

    Raises :exc:`NetworkMissing`.
    """

    def __init__(self, name: str):
        self.name = name
        if os.geteuid():
            raise NetworkMissing("namespaces of networks need root")
        if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
            raise NetworkMissing(f"there is no {missing[0]}")
        self._process = subprocess.Popen(
            ("unshare", "--net", "--uts", "sh", "-c", HOLD, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if not self._process.stdout.readline():
            reason = self._process.stderr.read().strip()
            self.stop()
            raise NetworkMissing(f"there are no namespaces of networks: {reason}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the machine as soon as its last process has ended."""
        self._process.communicate("")

    @property
    def pid(self) -> int:
        return self._process.pid

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread on the machine, with the processes that it starts there."""
        with ExitStack() as stack:
            for name, kind in KINDS.items():
                file = stack.enter_context(Path(f"/proc/thread-self/ns/{name}").open())
                stack.callback(ctypes.CDLL(None).setns, file.fileno(), kind)
            enter(self.pid)
            yield

    def run(self, *words: str) -> None:
        """Run a program of this machine's network, such as ``ip``."""
        command = ("nsenter", "--net", f"--target={self.pid}", *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")


class Link:
    """The link from a machine to a switch."""

    def __init__(self, switch: Machine, port: str):
        self._switch, self._port = switch, port

    def pull(self) -> None:
        """Have no carrier at the machine, as without a cable."""
        self._switch.run("ip", "link", "set", self._port, "down")

    def drop(self) -> None:
        """Drop all packets. The machine sees a link that works."""
        self._switch.run("bridge", "link", "set", "dev", self._port, "state", "0")

    def mend(self) -> None:
        self._switch.run("ip", "link", "set", self._port, "up")
        self._switch.run("bridge", "link", "set", "dev", self._port, "state", "3")


class Switch:
    """A switch, on a machine of its own, with addresses 10.``number``.0.0/24.

    A context manager. Machines have no way out of their switches.
    """

    def __init__(self, name: str, number: int):
        self.network = f"10.{number}.0.0/24"
        self._prefix = f"10.{number}.0."
        self._stack = ExitStack()
        self._machine = self._stack.enter_context(Machine(name))
        self._count = 0
        self._machine.run("ip", "link", "add", "switch", "type", "bridge")
        self._machine.run("ip", "link", "set", "switch", "up")
        self._name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def join(
        self, machine: Machine, delay_s: float = 0.0, loss: float = 0.0
    ) -> tuple[str, Link]:
        """Join a machine. Return its address, and its link.

        Each packet from the machine takes ``delay_s``, and is lost with the probability
        ``loss``.
        """
        self._count += 1
        port, address = f"port{self._count}", f"{self._prefix}{self._count}"
        if delay_s or loss:
            if not TUNNEL.exists():
                raise NetworkMissing(f"there is no {TUNNEL}")
            given = (f"--delay={delay_s}", f"--loss={loss}", f"--seed={self._count}")
            ends = (f"{machine.pid}:{self._name}", f"{self._machine.pid}:{port}")
            line = ServerProcess("tests.support.lossy_link", *given, *ends)
            self._stack.enter_context(line)
            line.line("ready")
        else:
            peer = ("peer", "name", self._name, "netns", str(machine.pid))
            self._machine.run("ip", "link", "add", port, "type", "veth", *peer)
        self._machine.run("ip", "link", "set", port, "master", "switch", "up")
        machine.run("ip", "address", "add", f"{address}/24", "dev", self._name)
        machine.run("ip", "link", "set", self._name, "up")
        return address, Link(self._machine, port)


class Elsewhere:
    """For a server that starts inside of :meth:`Machine.inside`, left of its class.

    A fork of the process that has imported the service would be outside.
    """

    def _launch(self, environment: Mapping[str, str] | None, cwd: Path) -> Any:
        assert isinstance(self, ServerProcess)
        return ServerProcess._launch(self, environment, cwd)
