"""Starts services and commands by forking a process that has imported the service.

A new interpreter would import for a second, and tests start a thousand of them. The fork runs
the command line from its beginning, so settings, reactor, database and sockets are its own.
``python -m tests.support.forked_start`` is the process that forks: one for all processes of
a test run, which find its socket in :data:`SOCKET`. It ends when no process is connected, and
ends what it has started.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import traceback
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import twisted.internet

import scraper_service.settings
from scraper_service.crawling.converter_pool import (
    converter_process as fork_server_process,
)
from scraper_service.crawling.converter_pool.converter import ForkServer
from scraper_service.discovery.canonical_urls import site_of
from scraper_service.storage import database
from scraper_service.storage.secrets import public_environment
from tests.support.waiting import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


PRELOADED = """
lxml.html numpy scraper_service.content.convert scraper_service.cli.main
scraper_service.cli.settings scraper_service.server.background
scraper_service.server.listener scraper_service.server.process
scraper_service.server.service scraper_service.server.worker
scraper_service.services.job_runner scraper_service.services.upkeep scrapy.crawler
scrapy.core.engine scrapy.core.scraper scrapy.utils.project
scraper_service.api.request_checks scraper_service.api.errors scraper_service.api.parameters
scraper_service.options.job_requests scraper_service.api.requests.feedback
scraper_service.api.streams.streaming scraper_service.api.requests.v1
scraper_service.options.v2_requests scraper_service.api.events
scraper_service.cli.outputs.output scraper_service.content.structured_data.merging
scraper_service.content.documents.files scraper_service.crawling.robots
scraper_service.llm.model scraper_service.services.model_jobs.agent
scraper_service.services.model_jobs.extraction
scraper_service.storage.accounts.teams scraper_service.services.jobs
scraper_service.services.model_jobs.llms_txt scraper_service.services.scraping
scraper_service.storage.files.uploads scraper_service.web.routes werkzeug.routing
wsproto multipart scraper_service.crawling.converter_pool.page_conversion
scraper_service.crawling.middlewares scraper_service.crawling.download.handler
scraper_service.crawling.middlewares scraper_service.crawling.pipelines.pages
scraper_service.crawling.scheduler scraper_service.search_engines.web_search
scraper_service.services.capabilities scraper_service.services.observability.health
scraper_service.services.job_following scraper_service.services.map_search
scraper_service.services.model_jobs.running_job scraper_service.services.resident_crawler
scraper_service.services.webhooks scraper_service.spiders.crawl
scraper_service.spiders.scrape scraper_service.storage.database
scraper_service.api.versions scraper_service.web.routes scraper_service.addon
scraper_service.crawling.scrapy_shortcuts scraper_service.crawling.download.event_loop
scraper_service.crawling.pipelines.pages scraper_service.crawling.pipelines.questions
scraper_service.exports.job_exports scraper_service.feeds scraper_service.library
scraper_service.llm.requests scraper_service.search_engines.engines
scraper_service.services.observability.metrics
scraper_service.services.monitoring.check_run scraper_service.services.accounts
scraper_service.spiders.map scraper_service.spiders.search
scrapy.core.downloader.handlers.datauri scrapy.downloadermiddlewares.defaultheaders
scrapy.downloadermiddlewares.downloadtimeout scrapy.downloadermiddlewares.httpcache
scrapy.downloadermiddlewares.robotstxt scrapy.downloadermiddlewares.stats
scrapy.downloadermiddlewares.useragent scrapy.dupefilters scrapy.extensions.closespider
scrapy.extensions.corestats scrapy.extensions.feedexport scrapy.extensions.logcount
scrapy.extensions.memdebug scrapy.extensions.memusage scrapy.extensions.spiderstate
scrapy.extensions.throttle scrapy.logformatter scrapy.pqueues scrapy.squeues
scrapy.statscollectors scrapy.utils.engine twisted.web.template uvloop
scraper_service.api.http_server scraper_service.api.mcp.server
scraper_service.api.mcp.tool_table scraper_service.api.openapi.document
scraper_service.api.openapi.kinds scraper_service.api.routes.files
scraper_service.api.routes.health playwright.async_api scrapy_playwright.handler
scrapy_playwright.provider scraper_service.crawling.browser.render
scraper_service.content.formats.change_tracking
scraper_service.crawling.download.stored_responses
scraper_service.services.monitoring.target_runs
scraper_service.services.monitoring.searches scraper_service.web.files
""".split()
# Variables that an interpreter reads when it starts.
OF_INTERPRETERS = ("PYTHON", "LD_", "MALLOC_")
ROOT = Path(__file__).parents[2]
#: The variable with the path of its socket.
SOCKET = "TEST_FORK_SOCKET"
MESSAGE_BYTES = 2**18
START = ForkServer._start
CODE = struct.Struct("<i")  # an exit code, or the id of a process


def may_fork(environment: Mapping[str, str]) -> bool:
    """Return True if a new interpreter with this environment would be like this one."""
    return _of_interpreters(environment) == _of_interpreters(os.environ)


def _of_interpreters(environment: Mapping[str, str]) -> dict[str, str]:
    found = {k: v for k, v in environment.items() if k.startswith(OF_INTERPRETERS)}
    if found.get("PYTHONPATH") == str(ROOT):
        del found["PYTHONPATH"]  # the forks have it
    return found


class Program(NamedTuple):
    """A command line that can be forked."""

    #: The function that runs it, as in ``package.module:function``.
    function: str
    #: What stands in front of its arguments for the function.
    name: str
    #: The same for a new interpreter.
    words: tuple[str, ...]


SERVICE = Program(
    "scraper_service.__main__:main",
    str(ROOT / "scraper_service/__main__.py"),
    (sys.executable, "-m", "scraper_service"),
)
# As the installed script does it, wherever the sources are.
COMMAND = Program(
    "scraper_service.cli.main:main",
    "-c",
    (sys.executable, "-c", "from scraper_service.cli.main import main; main()"),
)
_SCRIPT = f"{Path(sys.executable).parent}/scrapy"
SCRAPY = Program("scrapy.cmdline:execute", _SCRIPT, (_SCRIPT,))


class ForkedProcess:
    """``python -m scraper_service`` with ``arguments``, like :class:`subprocess.Popen`.

    It leads a session. Its output arrives at ``stdout``, its errors in the file ``errors``.
    ``program`` may be another one, and ``folder`` the working directory. ``errors`` may be a
    terminal: then it controls the process, and is its input and output too.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        errors: int,
        program: Program = SERVICE,
        folder: str = "",
    ):
        their_in, our_in = os.pipe()
        our_out, their_out = os.pipe()
        self._status, their_status = os.pipe()
        words = [program.function, program.name, *arguments]
        request = json.dumps([words, dict(environment), folder]).encode()
        connection = _connection()
        streams = [errors] * 3 if os.isatty(errors) else [their_in, their_out, errors]
        socket.send_fds(connection, [request], [*streams, their_status])
        (self.pid,) = CODE.unpack(connection.recv(CODE.size))
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
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run(
    program: Program,
    arguments: Iterable[object],
    environment: Mapping[str, str],
    folder: Path,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command in ``folder`` to its end, with pipes. It is forked if that is possible."""
    words = tuple(map(str, arguments))
    if not may_fork(environment):
        return subprocess.run(
            (*program.words, *words),
            cwd=folder,
            env=dict(environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
    errors, their_errors = os.pipe()
    with os.fdopen(errors) as errors_file:
        process = ForkedProcess(words, environment, their_errors, program, str(folder))
        os.close(their_errors)
        with ThreadPoolExecutor(2) as threads:
            output = threads.submit(process.stdout.read)
            said = threads.submit(errors_file.read)
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(stdin)
            try:
                process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        with process.stdout:
            return subprocess.CompletedProcess(
                words, process.wait(), output.result(), said.result()
            )


def choose_socket() -> str:
    """Return the path of the socket, for this process and those that it starts."""
    if SOCKET not in os.environ:
        folder = tempfile.mkdtemp(prefix="forks-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ[SOCKET] = f"{folder}/socket"
    return os.environ[SOCKET]


@functools.cache
def _connection() -> socket.socket:
    """Return the connection of this process to the one that forks, which it may start."""
    path = choose_socket()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(path)
        except OSError:  # none was started, or it has ended
            _start(path)
            connection.connect(path)
    atexit.register(connection.close)
    return connection


def _start(path: str) -> None:
    """Start the process that forks. The first request waits for its imports."""
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        command = (sys.executable, "-m", __name__, str(listener.fileno()))
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=(listener.fileno(),))
    process.returncode = 0  # nothing waits for it


def fork_until_closed(listener: socket.socket) -> list[Any]:
    """Fork a process for each request. Return the request in the new process.

    Reports the exit codes of all processes. Ends with the last connection, and kills the
    processes that those who started them have left: a test run that was killed.
    """
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    before = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    statuses: dict[int, int] = {}
    connections = [listener.accept()[0]]
    while connections:
        readable, _, _ = select.select((woken, listener, *connections), (), ())
        if woken in readable:
            woken.recv(4096)
            _report_ends(statuses)
        if listener in readable:
            connections.append(listener.accept()[0])
        for connection in set(readable) & set(connections):
            data, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
            if not data:
                connections.remove(connection)
                connection.close()
                continue
            pid = os.fork()
            if not pid:
                os.setsid()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, before)
                for number, descriptor in enumerate(descriptors[:3]):
                    os.dup2(descriptor, number)
                if os.isatty(0):
                    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
                for each in (*descriptors, *statuses.values()):
                    os.close(each)
                for each in (listener, woken, wake, *connections):
                    each.close()
                return json.loads(data)
            *others, statuses[pid] = descriptors
            for each in others:
                os.close(each)
            connection.send(CODE.pack(pid))
    for pid in statuses:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    os._exit(0)


def _report_ends(statuses: dict[int, int]) -> None:
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        os.write(statuses[pid], CODE.pack(os.waitstatus_to_exitcode(status)))
        os.close(statuses.pop(pid))


def _preload() -> None:
    """Import the service without the reactor, which each process has to choose itself.

    klein imports one, for a method that the service does not use: it gets an empty module.
    """
    name = "twisted.internet.reactor"
    sys.modules[name] = twisted.internet.reactor = types.ModuleType(name)
    for module in PRELOADED:
        importlib.import_module(module)
    del sys.modules[name], twisted.internet.reactor
    fork_server_process.prepare()
    database.create_statements("sqlite")
    site_of("a.example")  # reads the list of public suffixes


class _ForkedServer:
    """A fork server that was forked, in place of its :class:`subprocess.Popen`."""

    def __init__(self, pid: int):
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self._take(os.WNOHANG)
        return self.returncode

    def wait(self, timeout: float) -> int | None:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a fork server", timeout)
            time.sleep(0.002)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _take(self, flags: int) -> None:
        pid, status = os.waitpid(self.pid, flags)
        if pid:
            self.returncode = os.waitstatus_to_exitcode(status)


def _start_server(fd: int) -> Any:
    """Start a fork server by a fork, as long as this process has no other threads."""
    if threading.active_count() > 1:
        return START(fd)
    pid = os.fork()
    if pid:
        return _ForkedServer(pid)
    try:
        os.closerange(3, fd)
        os.closerange(fd + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)
        public = public_environment()
        os.environ.clear()
        os.environ.update(public)
        fork_server_process.main(fd)
    finally:
        os._exit(1)


def main() -> None:
    _preload()
    ForkServer._start = staticmethod(_start_server)  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()
    listener = socket.socket(fileno=int(sys.argv[1]))
    (name, *words), environment, folder = fork_until_closed(listener)
    if folder:
        os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, mode in enumerate("rww"):
        stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        stream.reconfigure(line_buffering=number == 2 or stream.isatty())
        setattr(sys, ("stdin", "stdout", "stderr")[number], stream)
    sys.stderr.reconfigure(errors="backslashreplace")
    importlib.reload(scraper_service.settings)  # it reads the environment
    sys.argv = words
    _exit(_result_of(pkgutil.resolve_name(name)))


def _result_of(program: Callable[[], Any]) -> Any:
    try:
        return program()
    except SystemExit as end:
        return end.code
    except Exception:
        traceback.print_exc()
        return 1


def _exit(result: Any) -> NoReturn:
    """End as an interpreter does, but leave the objects where they are.

    To free them one by one would copy all memory that the fork shares with its parent.
    """
    if result is not None and not isinstance(result, int):
        print(result, file=sys.stderr)
        result = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit((result or 0) & 0xFF)


if __name__ == "__main__":
    main()
