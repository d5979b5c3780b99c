"""Signing in to the web page by key or link, and what a session may call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.conftest import KEY, Reply, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COOKIE = re.compile(r"scraper_session=([^;]+); (.*)")


class Signed(NamedTuple):
    """A session as a browser has it."""

    cookie: str
    token: str
    attributes: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": f"scraper_session={self.cookie}"}

    @property
    def writing(self) -> dict[str, str]:
        return {**self.headers, "X-CSRF-Token": self.token}


def sign_in(service: Service, **body: str) -> Signed:
    reply = service.post("/web/api/session", body, key=None)
    assert reply.status == 200, reply.json
    found = COOKIE.fullmatch(reply.headers["Set-Cookie"])
    assert found is not None
    return Signed(found[1], reply.json["token"], found[2])


@pytest.fixture(scope="module")
def signed(service: Service) -> Signed:
    return sign_in(service, key=KEY)


def test_a_key_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(signed):
    parts = signed.attributes.split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/web", "Max-Age=43200"} == set(parts)
    assert KEY not in signed.cookie


def test_a_session_reads(service, signed):
    reply = service.get("/web/api/session", key=None, headers=signed.headers)
    assert (reply.json["signedIn"], reply.json["token"]) == (True, signed.token)
    reply = service.get("/web/api/team/credit-usage", key=None, headers=signed.headers)
    assert reply.status == 200, reply.json
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_a_session_writes_with_its_token_only(service, signed, site):
    body = {"url": site.url("/page/1"), "formats": ["markdown"]}

    def scrape(headers: dict[str, str]) -> Reply:
        return service.post("/web/api/scrape", body, key=None, headers=headers)

    assert scrape(signed.headers).status == 401
    wrong = {**signed.headers, "X-CSRF-Token": "0" * 64}
    assert scrape(wrong).status == 401
    done = scrape(signed.writing)
    assert done.status == 200, done.json
    assert done.json["data"]["markdown"]


@pytest.mark.parametrize("path", ["/v1/team/credit-usage", "/v2/team/credit-usage"])
def test_the_routes_of_clients_take_no_cookie(service, signed, path):
    reply = service.get(path, key=None, headers=signed.writing)
    assert reply.status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_pages_of_other_sites_may_not_call(service, signed, headers):
    path, sent = "/web/api/team/credit-usage", {**signed.writing, **headers}
    assert service.get(path, key=None, headers=sent).status == 401
    body = {"key": KEY}
    reply = service.post("/web/api/session", body, key=None, headers=headers)
    assert reply.status == 401
    assert "Set-Cookie" not in reply.headers


@pytest.mark.parametrize("cookie", ["", "x", "gAAAAA", "ä", "0" * 4000], ids=len)
def test_a_forged_cookie_is_no_session(service, cookie):
    headers = {"Cookie": f"scraper_session={cookie}"}
    reply = service.get("/web/api/session", key=None, headers=headers)
    assert (reply.status, reply.json["signedIn"]) == (200, False)
    path = "/web/api/team/credit-usage"
    assert service.get(path, key=None, headers=headers).status == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"key": "fc-wrong"}, 401),
        ({"key": ""}, 401),
        ({"link": "wrong"}, 401),
        ({}, 400),
        ({"key": KEY, "link": "x"}, 400),
        ({"key": 1}, 400),
        ({"password": "x"}, 400),
        ([KEY], 400),
    ],
    ids=str,
)
def test_failed_sign_ins_name_the_reason(service, body, status):
    reply = service.post("/web/api/session", body, key=None)
    assert (reply.status, reply.json["success"]) == (status, False)
    assert reply.json["error"]
    assert "Set-Cookie" not in reply.headers


def test_signing_out_deletes_the_cookie(service, signed):
    reply = service.request(
        "DELETE", "/web/api/session", key=None, headers=signed.headers
    )
    assert reply.status == 200
    assert reply.headers["Set-Cookie"].startswith("scraper_session=; ")
    assert "Max-Age=0" in reply.headers["Set-Cookie"]


@pytest.fixture
def fresh(start_service: Callable[..., Service]) -> Iterator[Service]:
    """A service at its first start."""
    return start_service(SCRAPER_API_KEYS=None)


def test_the_first_start_prints_a_link_that_signs_in_once(fresh):
    said = fresh.line("Or open the web page")
    found = re.search(r"(http://\S+)/#sign-in=(\S+)", said)
    assert found is not None, said
    assert found[1] == fresh.url
    signed = sign_in(fresh, link=found[2])
    path = "/web/api/team/credit-usage"
    assert fresh.get(path, key=None, headers=signed.headers).status == 200
    again = fresh.post("/web/api/session", {"link": found[2]}, key=None)
    assert again.status == 401
    assert "used before" in again.json["error"]


def test_no_sign_in_is_needed_if_keys_are_off(start_service):
    service = start_service(SCRAPER_AUTH_ENABLED="false")
    reply = service.get("/web/api/session", key=None)
    assert (reply.json["needsKey"], reply.json["signedIn"]) == (False, True)
    path = "/web/api/team/credit-usage"
    assert service.get(path, key=None).status == 200
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert service.get(path, key=None, headers=foreign).status == 401


def test_a_session_survives_a_restart_and_ends_with_its_key(start_service, tmp_path):
    service = start_service()
    signed = sign_in(service, key=KEY)
    path = "/web/api/team/credit-usage"
    assert service.stop() == 0
    service = start_service(tmp_path)
    assert service.get(path, key=None, headers=signed.headers).status == 200
    assert service.stop() == 0
    service = start_service(tmp_path, SCRAPER_API_KEYS="fc-another")
    assert service.get(path, key=None, headers=signed.headers).status == 401
