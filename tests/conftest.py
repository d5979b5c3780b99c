"""Fixtures: the mock site, a forbidden listener and the service, each in its own process."""

from __future__ import annotations

import collections
import gc
import http.client
import json
import os
import signal
import urllib.parse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest

from scraper_service.storage.database import Database
from tests.support import forked_start
from tests.support.chat_server import ChatServer
from tests.support.forked_start import ForkedProcess, may_fork
from tests.support.mockserver import SITE_HOST, Canary, MockServer
from tools.bench.postgres import Postgres, PostgresMissing
from tools.bench.processes import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

KEY = "fc-test-key"
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": f"{SITE_HOST}/32",
    "SCRAPER_CONVERTER_PROCESSES": "1",  # for a fast start: tests start many services
    "SCRAPER_SEARCH_PROVIDERS": "own",  # regardless of installed libraries
    "SCRAPER_RENDER": "never",  # tests of the browser override this
}
REQUEST_TIMEOUT_S = 300
# Tests of several minutes start first, so that the others run beside them.
LONG = ("test_crash.py", "test_docs.py", "test_pace.py", "test_readme.py")

# `make test` runs a test of several databases on SQLite only.
OTHER_DATABASES = {"memory", "postgresql"}

# Tests must not fail because the machine is busy.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

# Shells let background commands ignore SIGINT, and child processes inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Reply(NamedTuple):
    """A response. Header names ignore case; ``json`` is None for an empty body."""

    status: int
    headers: http.client.HTTPMessage
    json: Any


class Service(ServiceProcess):
    """The running service, with a client that uses no proxy.

    ``environment`` maps full names of variables to values and overrides
    :data:`ENVIRONMENT`; None removes a variable.
    """

    def __init__(self, data_dir: Path, **environment: str | None):
        self.key = KEY
        super().__init__(data_dir, {**ENVIRONMENT, **environment})

    def _launch(self, environment: Mapping[str, str] | None, cwd: Path) -> Any:
        if environment is None or not may_fork(environment):
            return super()._launch(environment, cwd)
        _, _, _, *arguments = self.command
        return ForkedProcess(tuple(arguments), environment, self._errors.fileno())

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        """Send ``body`` as JSON, with the options of :meth:`request`."""
        return self.request("POST", path, body, **options)

    def get(self, path: str, **options: Any) -> Reply:
        return self.request("GET", path, **options)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = KEY,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Reply:
        """Send one request on a new connection.

        ``raw`` replaces the JSON of ``body``. A ``key`` of None sends no Authorization.
        ``headers`` override the default headers.
        """
        sent = {"Content-Type": "application/json"}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        data = raw if raw is not None or body is None else json.dumps(body).encode()
        address = urllib.parse.urlsplit(self.url).netloc
        connection = http.client.HTTPConnection(address, timeout=REQUEST_TIMEOUT_S)
        try:
            connection.request(method, path, data, {**sent, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        return Reply(response.status, response.headers, json.loads(text or "null"))


def pytest_configure(config):
    # The browsers' driver reads its compiled code from there, a fifth of its start.
    os.environ["NODE_COMPILE_CACHE"] = str(config.cache.mkdir("node"))
    # Those that run tests share one process that forks services.
    forked_start.choose_socket()
    gc.disable()  # until all tests are collected: few of these objects are garbage


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)
    functions = collections.defaultdict(list)
    for item in items:
        found = item.get_closest_marker("slow_on")
        if found and any(name in item.callspec.id for name in found.args):
            item.add_marker(pytest.mark.slow)
        functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        for item in _rest(cases):
            item.add_marker("rest")


def _rest(cases):
    """Return the cases of a test that `make test` leaves out.

    These are second databases, and those that the marker ``full`` leaves out.
    """
    usual = [case for case in cases if not case.get_closest_marker("slow")]
    first = usual
    if any("sqlite" in _names(case) for case in usual):
        first = [case for case in usual if not _names(case) & OTHER_DATABASES]
    found = cases[0].get_closest_marker("full")
    if found:
        keep = found.kwargs.get("keep", 0)
        step = -(-len(first) // keep) if keep else len(first)
        first = first[::step] if keep else []
    kept = set(map(id, first))
    return [case for case in cases if id(case) not in kept]


def _names(case):
    spec = getattr(case, "callspec", None)
    return set(spec.id.split("-")) if spec else set()


def pytest_collection_finish():
    gc.freeze()  # a collection would visit all modules and thousands of tests
    gc.enable()


@pytest.fixture(scope="session")
def site() -> Iterator[MockServer]:
    """The mock site on 127.0.0.2, one for all tests."""
    with MockServer() as server:
        yield server


@pytest.fixture(scope="session")
def canary() -> Iterator[Canary]:
    """A listener on 127.0.0.1; compare ``count()`` before and after."""
    with Canary() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL server; a call returns the URL of a new, empty database."""
    try:
        server = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def postgres_tables(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str]:
    """Return a function that returns the URL of a new database with all tables.

    It copies a database: that takes a quarter of the time of creating the tables.
    """
    original = postgres()
    Database(tmp_path_factory.mktemp("original"), original).close()
    return lambda: postgres(original)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with test settings, one for all tests that do not change settings."""
    data = tmp_path_factory.mktemp("data")
    running = Service(data, SCRAPER_CONVERTER_PROCESSES="2")
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    """A fake language model with the answers of a test."""
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def clever(
    chat: ChatServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service with the fake language model."""
    running = Service(tmp_path_factory.mktemp("clever"), **chat.environment)
    yield running
    _stop(running)


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Return a function that starts a service with further environment variables.

    Example: ``start_service(SCRAPER_HOST_CONCURRENCY="1")``. An earlier ``data_dir`` starts
    a service with old data. All services stop after the test.
    """
    with ExitStack() as stack:

        def start(data_dir: Path = tmp_path, **environment: str | None) -> Service:
            running = Service(data_dir, **environment)
            stack.callback(_stop, running)
            return running

        yield start


def _stop(service: Service) -> None:
    """Stop a service that still runs; the exit code must be 0."""
    was_running = service.is_running
    code = service.stop()
    assert code == 0 or not was_running, (
        f"exit code {code} after SIGTERM; standard error:\n{service.stderr}"
    )
