"""What a scrapyd node runs of this package: its launcher, and its page of metrics.

``deploy/scrapyd.conf`` names :class:`PatientLauncher` as ``launcher`` and :class:`NodeMetrics` as a
service. Only scrapyd imports them. The crawl processes write their counts into files that they
share with the node, as prometheus_client does for servers with several processes.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from scrapyd.launcher import Launcher
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.threads import deferToThread
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from scraper_service.services.observability.metrics import (
    build_info,
    content_type,
    encode_metrics,
    is_open_metrics,
    memory_gauges,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric
    from twisted.python.failure import Failure
    from twisted.web.server import Request


FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # a variable that prometheus_client reads
ENDED = "ended"  # in place of the id of a process

logger = logging.getLogger(__name__)


class ProcessCounts:
    """The counts of the crawl processes of a node, also of those that have ended.

    Processes write into files of :attr:`folder`, one for each kind of metric. :meth:`collect`
    and :meth:`end` may be called in any thread.
    """

    def __init__(self) -> None:
        self._owned = tempfile.TemporaryDirectory(prefix="scraper-metrics-")
        self.folder = Path(self._owned.name)
        self._lock = threading.Lock()

    @contextmanager
    def inherit(self) -> Iterator[None]:
        """Let processes that start in this context write their counts."""
        os.environ[FOLDER] = self._owned.name
        try:
            yield
        finally:
            del os.environ[FOLDER]

    def collect(self) -> list[Metric]:
        """Return the sums over all processes."""
        with self._lock:
            # A file is empty for a moment, when a process has just made it.
            files = [path for path in self.folder.glob("*.db") if path.stat().st_size]
            found = MultiProcessCollector.merge(map(str, files))
            return sorted(found, key=lambda metric: metric.name)

    def end(self, pid: int) -> None:
        """Add the counts of an ended process to those of all ended processes.

        So the number of files has a bound. Gauges of ended processes are dropped.
        """
        with self._lock:
            for path in self.folder.glob(f"*_{pid}.db"):
                kind = path.name.partition("_")[0]
                if kind != "gauge":
                    try:
                        _add(path, self.folder / f"{kind}_{ENDED}.db")
                    except (OSError, RuntimeError, ValueError):
                        logger.warning("the counts in %s were lost", path.name)
                path.unlink(missing_ok=True)


def _add(source: Path, target: Path) -> None:
    total = MmapedDict(str(target))
    try:
        values = MmapedDict.read_all_values_from_file(str(source))
        for key, value, at, _ in values:
            total.write_value(key, total.read_value(key)[0] + value, at)
    finally:
        total.close()


class NodeMetrics(Resource):
    """The page of a node, behind scrapyd's own user and password."""

    isLeaf = True

    def __init__(self, root: Any):
        super().__init__()
        self._root = root

    def render_GET(self, request: Request) -> int:  # Twisted's name
        gone = request.notifyFinish()
        gone.addErrback(lambda _: None)  # the client went away
        is_open = is_open_metrics(request.getHeader("Accept") or "")

        def answer(text: bytes) -> None:
            if not gone.called:
                request.setHeader("Content-Type", content_type(is_open=is_open))
                request.write(text)
                request.finish()

        def fail(failure: Failure) -> None:
            logger.error("the metrics could not be read: %s", failure.value)
            if not gone.called:
                request.setResponseCode(500)
                request.finish()

        work = deferToThread(self._text, is_open=is_open)
        work.addCallback(answer).addErrback(fail)
        return NOT_DONE_YET

    def _text(self, *, is_open: bool) -> bytes:
        counts = getattr(self._root.launcher, "counts", None)
        found = [] if counts is None else counts.collect()
        return encode_metrics(
            [build_info(), *memory_gauges("node"), *found], is_open=is_open
        )


class PatientLauncher(Launcher):  # type: ignore[misc]  # scrapyd has no annotations
    """Passes SIGTERM on, so that processes store their pages and return their leases.

    Scrapyd's own launcher ends at once and leaves orphaned processes. Raises
    :exc:`ValueError` for a scrapyd that other machines can reach without a password.
    """

    _stopping = False

    def __init__(self, config: Any, app: Any):
        _check_access(config)
        super().__init__(config, app)
        self.counts = ProcessCounts()

    def stopService(self) -> Deferred[Any]:  # Twisted's name
        self._stopping = True
        running = list(self.processes.values())
        for process in running:
            process.transport.signalProcess("TERM")
        return DeferredList([process.deferred for process in running])

    def _spawn_process(self, message: dict[str, Any], slot: int) -> None:
        with self.counts.inherit():
            super()._spawn_process(message, slot)

    def _process_finished(self, result: Any, slot: int) -> None:
        self.counts.end(self.processes[slot].pid)
        super()._process_finished(result, slot)

    def _get_message(self, slot: int) -> None:
        if not self._stopping:
            super()._get_message(slot)


def _check_access(config: Any) -> None:
    found = {
        name: os.environ.get(f"SCRAPYD_{name.upper()}") or config.get(name, "")
        for name in ("bind_address", "username", "password")
    }
    address = found["bind_address"] or "127.0.0.1"
    if address == "localhost" or (found["username"] and found["password"]):
        return
    try:
        is_loopback = ip_address(address).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ValueError(
            f"bind_address {address} takes SCRAPYD_USERNAME and SCRAPYD_PASSWORD: who"
            " can call scrapyd can run code"
        )
