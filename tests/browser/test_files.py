"""The addresses of screenshots, wherever pages are told: signed, and good."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SETTINGS, Png, fetch, finished_at
from tests.conftest import Service
from tests.support.disk import fill, small_disk
from tests.support.receiver import Receiver
from tests.support.waiting import wait_until
from tests.support.watching import EventClient, open_socket, watched

EVIL = {"Host": "evil.example", "X-Forwarded-Host": "evil.example"}


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as server:
        yield server


def pages_sent(receiver, path):
    """Return the pages that a receiver was sent, when there is one."""
    events = wait_until(
        lambda: [r for r in receiver.received(path) if r.event == "page"]
    )
    return [page for event in events for page in event.json["data"]]


def start(service, app, receiver, path, **options):
    body = {
        "urls": [app.url(f"/colours?{path}")],
        "formats": ["screenshot"],
        "actions": [{"type": "screenshot"}, {"type": "pdf"}],
        "maxAge": 0,
        "webhook": receiver.url(path),
    }
    reply = service.post("/v2/batch/scrape", body, **options)
    assert reply.status == 200, reply.json
    return reply


def addresses(page):
    return [
        page["screenshot"],
        *page["actions"]["screenshots"],
        *page["actions"]["pdfs"],
    ]


def check(page, base):
    """Check that the files of a page are at signed addresses below ``base``."""
    for address in addresses(page):
        assert address.startswith(f"{base}/artefacts/"), address
        assert "signature=" in address
    status, _, data = fetch(page["screenshot"])
    assert status == 200
    assert Png(data).pixel(50, 50) == (255, 0, 0)


def test_screenshot_urls_are_equal_in_events_and_responses(service, app, receiver):
    # Whoever starts a job, or asks for it, does not decide what others are told.
    reply = start(service, app, receiver, "/ok/own", headers=EVIL)
    job = f"/v2/batch/scrape/{reply.json['id']}"
    [page] = finished_at(service, job)
    check(page, service.url)
    [evil] = service.get(job, headers=EVIL).json["data"]
    assert evil["screenshot"].startswith("http://evil.example/artefacts/")
    [page] = service.get(job).json["data"]
    check(page, service.url)
    [page] = pages_sent(receiver, "/ok/own")
    check(page, service.url)
    with open_socket(service, job, service.key) as socket:
        [page] = watched(socket).documents
    check(page, service.url)
    with EventClient(service, f"{job}/events", last="0") as events:
        [page] = [e.data["data"][0] for e in events if e.event.endswith("page")]
    check(page, service.url)


@pytest.mark.slow
def test_SCRAPER_PUBLIC_URL_takes_precedence_over_the_host_header(
    app, receiver, tmp_path
):
    settings = {**SETTINGS, "SCRAPER_PUBLIC_URL": "https://pages.example/api/"}
    service = Service(tmp_path, **settings)
    try:
        reply = start(service, app, receiver, "/ok/public", headers=EVIL)
        assert reply.json["url"].startswith("https://pages.example/api/v2/")
        job = f"/v2/batch/scrape/{reply.json['id']}"
        [page] = finished_at(service, job)
        with open_socket(service, job, service.key) as socket:
            told = watched(socket).documents
        for found in (page, *pages_sent(receiver, "/ok/public"), *told):
            for address in addresses(found):
                assert address.startswith("https://pages.example/api/artefacts/")
        own = page["screenshot"].replace("https://pages.example/api", service.url)
        assert fetch(own)[0] == 200
    finally:
        assert service.stop() == 0, service.stderr


def test_files_of_a_deleted_job_cannot_be_read(service, app):
    # Of a size of its own: the pages of other tests may have an equal file.
    shot = {"type": "screenshot", "viewport": {"width": 317, "height": 211}}
    body = {"urls": [app.url("/colours?deleted")], "formats": [shot]}
    reply = service.post("/v2/batch/scrape", body)
    [page] = finished_at(service, f"/v2/batch/scrape/{reply.json['id']}")
    assert fetch(page["screenshot"])[0] == 200
    deleted = service.request("DELETE", f"/v2/jobs/{reply.json['id']}")
    assert deleted.status == 200
    assert fetch(page["screenshot"])[0] == 404


@pytest.mark.full
def test_a_screenshot_on_a_full_disk_names_the_disk(tmp_path, app):
    body = {"url": app.url("/colours"), "formats": ["screenshot"], "maxAge": 0}
    with (
        small_disk(tmp_path / "disk") as folder,
        Service(folder, **SETTINGS) as service,
    ):
        assert service.post("/v2/scrape", body).status == 200
        fill(folder / "filler")
        reply = service.post("/v2/scrape", {**body, "url": app.url("/form")})
        assert reply.status == 503, reply
        assert "The disk of the service is full." in reply.json["error"]
        (folder / "filler").unlink()
        assert service.post("/v2/scrape", body).status == 200
