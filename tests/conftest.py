"""Fixtures: the fake web, a forbidden listener, and the service, as processes."""

from __future__ import annotations

import http.client
import json
import signal
import urllib.parse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest

from tests.support.chat_server import ChatServer
from tests.support.mockserver import SITE_HOST, Canary, MockServer
from tests.support.postgres import Postgres, PostgresMissing
from tools.bench.processes import ServiceProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEY = "fc-test-key"
ENVIRONMENT = {
    "SCRAPER_API_KEYS": KEY,
    "SCRAPER_EGRESS_ALLOW": f"{SITE_HOST}/32",
    "SCRAPER_CONVERTER_PROCESSES": "1",  # services start often
    "SCRAPER_SEARCH_PROVIDERS": "own",  # whatever is installed
    "SCRAPER_RENDER": "never",  # tests of the browser say otherwise
}
REQUEST_TIMEOUT_S = 300
# Minutes long: begun first, they run beside all others, and not alone at the end.
LONG = ("test_crash.py", "test_readme.py")

# No test may fail because the machine is busy.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

# Of a shell's background command it is ignored, and so by all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Reply(NamedTuple):
    """An answer; header names compare without case, ``json`` is None of an empty body."""

    status: int
    headers: http.client.HTTPMessage
    json: Any


class Service(ServiceProcess):
    """The running service and a client of it that knows no proxy.

    ``environment`` names whole variables and wins over :data:`ENVIRONMENT`; None
    removes one.
    """

    def __init__(self, data_dir: Path, **environment: str | None):
        self.key = KEY
        super().__init__(data_dir, {**ENVIRONMENT, **environment})

    def post(self, path: str, body: Any = None, **options: Any) -> Reply:
        """Send ``body`` as JSON; the options are those of :meth:`request`."""
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
        """Send one request on a connection of its own.

        ``raw`` replaces the JSON of ``body``; ``key`` None sends no Authorization;
        ``headers`` win over our own.
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)
    for item in items:
        found = item.get_closest_marker("slow_on")
        if found and any(name in item.callspec.id for name in found.args):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def site() -> Iterator[MockServer]:
    """The fake web on 127.0.0.2, one for all tests."""
    with MockServer() as server:
        yield server


@pytest.fixture(scope="session")
def canary() -> Iterator[Canary]:
    """A listener on 127.0.0.1; compare ``count()`` before and after."""
    with Canary() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Call it for the address of a new, empty PostgreSQL database."""
    try:
        server = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with server:
        yield server


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with test settings, one for all tests that change none."""
    data = tmp_path_factory.mktemp("data")
    running = Service(data, SCRAPER_CONVERTER_PROCESSES="2")
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def chat() -> Iterator[ChatServer]:
    """A language model that says what a test wants."""
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def clever(
    chat: ChatServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service with that model."""
    running = Service(tmp_path_factory.mktemp("clever"), **chat.environment)
    yield running
    _stop(running)


@pytest.fixture
def start_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Return a function that starts a service with further environment variables.

    ``start_service(SCRAPER_HOST_CONCURRENCY="1")``; ``data_dir`` may be given to
    start anew on old data. All of them are stopped after the test.
    """
    with ExitStack() as stack:

        def start(data_dir: Path = tmp_path, **environment: str | None) -> Service:
            running = Service(data_dir, **environment)
            stack.callback(_stop, running)
            return running

        yield start


def _stop(service: Service) -> None:
    """Stop what the test did not stop itself; the exit code has to be 0."""
    was_running = service.is_running
    code = service.stop()
    assert code == 0 or not was_running, (
        f"exit code {code} after SIGTERM; standard error:\n{service.stderr}"
    )
