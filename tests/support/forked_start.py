"""Starts ``python -m scraper_service`` by forking a process that has imported the service.

A new interpreter would import for a second, and tests start hundreds of services. The fork runs
the command line from its beginning, so settings, reactor, database and sockets are its own.
``python -m tests.support.forked_start`` is the process that forks.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Nothing that imports the reactor, as klein does: the service has to install it first.
PRELOADED = """
scraper_service.cli.main scraper_service.cli.settings scraper_service.server
scrapy.crawler scrapy.core.engine scrapy.core.scraper scrapy.utils.project
scraper_service.api.application scraper_service.api.errors
scraper_service.api.parameters scraper_service.api.requests.crawl
scraper_service.api.requests.feedback scraper_service.api.streams.streaming
scraper_service.api.v1.requests scraper_service.api.v2.requests
scraper_service.api.webhook_payloads scraper_service.cli.output
scraper_service.content.answers scraper_service.content.documents.kinds
scraper_service.crawling.robots scraper_service.llm.prompts
scraper_service.services.deep_research.report_writer
scraper_service.services.deep_research.research scraper_service.services.extraction
scraper_service.services.jobs scraper_service.services.llms_txt
scraper_service.services.scraping scraper_service.storage.files.uploads
scraper_service.web.sessions werkzeug.routing wsproto multipart
scraper_service.crawling.converter_pool.pool scraper_service.crawling.download.engines
scraper_service.crawling.download.handler scraper_service.crawling.middlewares
scraper_service.crawling.pipelines scraper_service.crawling.scheduler
scraper_service.search_engines.searches scraper_service.services.capabilities
scraper_service.services.health scraper_service.services.job_following
scraper_service.services.job_runner scraper_service.services.mapping
scraper_service.services.operations scraper_service.services.resident_crawler
scraper_service.services.webhooks scraper_service.spiders.crawl
scraper_service.spiders.scrape scraper_service.storage.database
""".split()
# Variables that an interpreter reads when it starts.
OF_INTERPRETERS = ("PYTHON", "LD_", "MALLOC_")
ROOT = Path(__file__).parents[2]
MESSAGE_BYTES = 2**18
CODE = struct.Struct("<i")  # an exit code, or the id of a process


def may_fork(environment: Mapping[str, str]) -> bool:
    """Return True if a new interpreter with this environment would be like this one."""
    return _of_interpreters(environment) == _of_interpreters(os.environ)


def _of_interpreters(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(OF_INTERPRETERS)}


class ForkedProcess:
    """``python -m scraper_service`` with ``arguments``, like :class:`subprocess.Popen`.

    It leads a session. Its output arrives at ``stdout``, its errors in the file ``errors``.
    """

    def __init__(
        self, arguments: tuple[str, ...], environment: Mapping[str, str], errors: int
    ):
        their_in, our_in = os.pipe()
        our_out, their_out = os.pipe()
        self._status, their_status = os.pipe()
        request = json.dumps([arguments, dict(environment)]).encode()
        control = _control()
        theirs = [their_in, their_out, errors, their_status]
        socket.send_fds(control, [request], theirs)
        (self.pid,) = CODE.unpack(control.recv(CODE.size))
        for each in (their_in, their_out, their_status):
            os.close(each)
        self.stdin = os.fdopen(our_in, "w")
        self.stdout = os.fdopen(our_out)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._status], (), (), 0)[0]:
            return self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], (), (), timeout)[0]:
                raise subprocess.TimeoutExpired("a forked service", timeout or 0.0)
            (self.returncode,) = CODE.unpack(os.read(self._status, CODE.size))
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@functools.cache
def _control() -> socket.socket:
    """Return the connection to the process that forks. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = (sys.executable, "-m", "tests.support.forked_start", str(theirs.fileno()))
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=(theirs.fileno(),))
    process.returncode = 0  # nothing waits for it
    theirs.close()
    return ours


def fork_until_closed(control: socket.socket) -> list[Any]:
    """Fork a process for each request. Return the request in the new process.

    Reports the exit codes of all processes. Ends this process when the connection is closed.
    """
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    before = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    statuses: dict[int, int] = {}
    while True:
        readable, _, _ = select.select((woken, control), (), ())
        if woken in readable:
            woken.recv(4096)
            _report_ends(statuses)
        if control not in readable:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, 4)
        if not data:
            os._exit(0)
        pid = os.fork()
        if not pid:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, before)
            for number, descriptor in enumerate(descriptors[:3]):
                os.dup2(descriptor, number)
            for each in (*descriptors, *statuses.values()):
                os.close(each)
            for each in (control, woken, wake):
                each.close()
            return json.loads(data)
        *others, statuses[pid] = descriptors
        for each in others:
            os.close(each)
        control.send(CODE.pack(pid))


def _report_ends(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        os.write(statuses[pid], CODE.pack(os.waitstatus_to_exitcode(status)))
        os.close(statuses.pop(pid))


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    assert "twisted.internet.reactor" not in sys.modules
    gc.collect()
    gc.freeze()
    arguments, environment = fork_until_closed(socket.socket(fileno=int(sys.argv[1])))

    from scraper_service import __main__, settings

    os.environ.clear()
    os.environ.update(environment)
    importlib.reload(settings)  # it reads the environment
    sys.argv = [__main__.__file__, *arguments]
    __main__.main()


if __name__ == "__main__":
    main()
