"""The main function of an export process: rows come in, the bytes of a file go out.

Both go through one connection. What comes in are frames: a length of four bytes, then the
bytes. The first frame is JSON, see :func:`main`; rows follow, compressed as the database has
them. An empty frame ends the rows, so a service that dies does not look like the end.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import IO, TYPE_CHECKING

from scraper_service.content.stored_pages import decompress
from scraper_service.exports.formats import FORMATS, FileSpec, make_writer

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH = struct.Struct("<I")
BUFFER_BYTES = 64 * 2**10
NICE = 10  # a lower priority than crawls and requests, which clients wait for
CUT = 3  # exit code if the rows have no end


def main(connection_fd: int) -> None:
    """Write one file, and end the process.

    The first frame has the members of a :class:`FileSpec` in ``spec``, and in ``base`` the
    URL of the service that replaces ``placeholder`` in rows.
    """
    os.nice(NICE)
    code = 1
    try:
        with socket.socket(fileno=connection_fd) as connection:
            code = _write_file(connection)
    except ConnectionError:  # the service has ended, or reads no more
        pass
    os._exit(code)


def _write_file(connection: socket.socket) -> int:
    received = connection.makefile("rb")
    sent = connection.makefile("wb", BUFFER_BYTES)
    frame = _read_frame(received)
    if frame is None:  # the client went away before the export began
        return CUT
    first = json.loads(frame)
    old, new = first["placeholder"].encode(), first["base"].encode()
    spec = FileSpec(**{**first["spec"], "fields": tuple(first["spec"]["fields"])})
    writer = make_writer(spec)
    sent.write(writer.head())
    is_archive = FORMATS[spec.format].needs_sources
    for row in _rows(received):
        if row is None:
            return CUT
        whole = row if is_archive else decompress(row).replace(old, new)
        sent.write(writer.add(whole))
    sent.write(writer.end())
    sent.flush()
    return 0


def _rows(received: IO[bytes]) -> Iterator[bytes | None]:
    """Yield rows up to the empty frame; None instead of a missing end."""
    while row := _read_frame(received):
        yield row
    if row is None:
        yield None


def _read_frame(received: IO[bytes]) -> bytes | None:
    """Return the bytes of the next frame, None at the end of the connection."""
    head = received.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    data = received.read(length)
    return data if len(data) == length else None
