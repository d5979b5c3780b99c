"""Screenshots in the object storage of the operator, through the whole service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import SETTINGS, Png, fetch, finished_at
from tests.conftest import Service
from tests.support.azurite import AzureStorage, AzuriteMissing
from tests.support.object_storage import SECRET, GoogleStorage, ObjectStorage


@pytest.fixture(scope="module")
def storage():
    with ObjectStorage() as server:
        yield server


@pytest.fixture
def start(storage, tmp_path):
    running = []

    def call(**more):
        url = f"s3://{storage.BUCKET}/{tmp_path.name}"
        environment = {**SETTINGS, **storage.environment, **more}
        running.append(Service(tmp_path, SCRAPER_ARTEFACT_STORE=url, **environment))
        return running[-1]

    yield call
    for service in running:
        assert service.stop() == 0, service.stderr
        assert SECRET not in service.stderr


def scrape(service, app, path="/colours"):
    body = {"url": app.url(path), "formats": ["screenshot"], "maxAge": 0}
    return service.post("/v2/scrape", body)


def children_of(pid):
    """Return the ids of all processes below a process."""
    found, known = [pid], Path("/proc")
    parents = {}
    for each in known.glob("[0-9]*/stat"):
        try:
            fields = each.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(each.parent.name)] = int(fields[1])
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]


@pytest.mark.full
def test_screenshots_are_stored_and_served_with_the_same_urls(
    start, app, storage, tmp_path
):
    service = start()
    reply = scrape(service, app)
    assert reply.status == 200, reply.json
    url = reply.json["data"]["screenshot"]
    assert url.startswith(f"{service.url}/artefacts/")
    status, headers, data = fetch(url)
    assert (status, headers["Content-Length"]) == (200, str(len(data)))
    assert Png(data).pixel(50, 50) == (255, 0, 0)
    assert fetch(url.replace("signature=", "signature=0"))[0] == 404
    name = url.partition("?")[0].rpartition("/")[2]
    assert storage.data(f"{tmp_path.name}/{name}") == data
    assert not (tmp_path / "artefacts").exists()
    assert service.get("/health/ready", key=None).json["checks"]["files"] == "ok"
    processes = children_of(service.pid)
    assert processes
    for pid in processes:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        assert SECRET.encode() not in environment, pid


@pytest.mark.full
@pytest.mark.parametrize("kind", [GoogleStorage, AzureStorage], ids=["gs", "az"])
def test_the_stores_of_google_and_azure_do_the_same(start_service, app, kind):
    try:
        server = kind()
    except AzuriteMissing as error:
        pytest.skip(str(error))
    with server:
        service = start_service(
            SCRAPER_ARTEFACT_STORE=f"{server.scheme}://{server.BUCKET}/mine",
            **SETTINGS,
            **server.environment,
        )
        url = scrape(service, app).json["data"]["screenshot"]
        status, _, data = fetch(url)
        assert status == 200
        assert Png(data).pixel(50, 50) == (255, 0, 0)
        name = url.partition("?")[0].rpartition("/")[2]
        assert server.data(f"mine/{name}") == data
        assert service.get("/health/ready", key=None).json["checks"]["files"] == "ok"
        for pid in children_of(service.pid):
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            assert server.SECRET.encode() not in environment, pid
        assert service.stop() == 0
        assert server.SECRET not in service.stderr


@pytest.mark.full
def test_files_of_a_deleted_job_cannot_be_read(start, app):
    service = start()
    body = {"urls": [app.url("/colours?stored")], "formats": ["screenshot"]}
    job = service.post("/v2/batch/scrape", body).json["id"]
    [page] = finished_at(service, f"/v2/batch/scrape/{job}")
    assert fetch(page["screenshot"])[0] == 200
    assert service.request("DELETE", f"/v2/jobs/{job}").status == 200
    assert fetch(page["screenshot"])[0] == 404


def test_pages_never_come_from_the_store(start, storage):
    service = start()
    reply = service.post("/v2/scrape", {"url": storage.url("/pages"), "maxAge": 0})
    assert "network that this service does not fetch from" in reply.json["error"]


@pytest.mark.full
def test_a_store_that_is_down_fails_the_page_and_the_readiness(start, app):
    service = start(AWS_ENDPOINT_URL="http://127.0.0.4:9")  # nobody listens
    reply = scrape(service, app)
    assert reply.status == 500
    assert reply.json["code"] == "SCRAPE_ALL_ENGINES_FAILED"
    assert "did not read a file" in reply.json["error"]
    ready = service.get("/health/ready", key=None)
    assert ready.status == 503
    assert "did not list its files" in ready.json["checks"]["files"]
    body = {"urls": [app.url("/colours?down")], "formats": ["screenshot"]}
    job = service.post("/v2/batch/scrape", body).json["id"]
    assert finished_at(service, f"/v2/batch/scrape/{job}") == []
    [error] = service.get(f"/v2/batch/scrape/{job}/errors").json["errors"]
    assert "did not read a file" in error["error"]
