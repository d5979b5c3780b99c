"""A link between two networks whose packets take time and get lost. Root only.

``python -m tests.support.lossy_link PID:NAME PID:NAME`` makes an interface in the network of
each process, forwards between them and prints ``ready``. Packets from the first take
``--delay`` seconds, and are lost with the probability ``--loss``. It ends with its standard input or by
SIGTERM, and its interfaces with it. Not all kernels have the queueing discipline ``netem``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import random
import struct

from tests.support.lines import answer_lines
from tests.support.network import TUNNEL, enter

SET_INTERFACE = 0x400454CA  # TUNSETIFF
ETHERNET = 0x0002 | 0x1000  # IFF_TAP, IFF_NO_PI
REQUEST = struct.Struct("16sH22x")  # ifreq
PACKET_BYTES = 2**16


def interface(end: str) -> int:
    """Make one interface; return its descriptor, which reads and writes packets."""
    pid, _, name = end.partition(":")
    enter(int(pid))
    descriptor = os.open(TUNNEL, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, SET_INTERFACE, REQUEST.pack(name.encode(), ETHERNET))
    return descriptor


async def forward(options: argparse.Namespace) -> None:
    chosen = random.Random(options.seed)
    loop = asyncio.get_running_loop()

    def send(target: int, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # its interface is down
            os.write(target, packet)

    def receive() -> None:
        packet = os.read(near, PACKET_BYTES)
        if chosen.random() >= options.loss:
            loop.call_later(options.delay, send, far, packet)

    near, far = (interface(end) for end in options.ends)
    loop.add_reader(near, receive)
    loop.add_reader(far, lambda: send(near, os.read(far, PACKET_BYTES)))
    await answer_lines("ready", lambda line: None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("ends", nargs=2, metavar="PID:NAME")
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(forward(parser.parse_args()))
