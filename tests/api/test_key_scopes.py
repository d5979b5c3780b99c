"""API keys that may only read, or only scrape."""

from __future__ import annotations

import http.cookiejar
import json
import sqlite3
import urllib.error
import urllib.request
from contextlib import closing

import pytest
from click.testing import CliRunner
from firecrawl import Firecrawl
from firecrawl.v2.utils.error_handler import UnauthorizedError

from scraper_service.cli.main import main
from tests.conftest import Service, _stop
from tests.support.scripted_site import ScriptedSite, page
from tests.support.waiting import wait_until
from tests.support.watching import open_socket, watched

UNKNOWN = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
ORDER = ("read", "scrape", "admin")
ADMIN = {
    "DELETE /v2/jobs/{id}",
    "DELETE /v2/monitor/{id}",  # with the jobs of its checks
    "GET /v2/team/audit",
    "PUT /v2/team/threat-protection",
}
# The public JavaScript client of /v1 reads errors by DELETE.
READ = {"POST /v2/mcp"} | {  # each tool is checked by the scope of its route
    f"DELETE {version}/{kind}/{{id}}/errors"
    for version in ("/v1", "/v2")
    for kind in ("crawl", "batch/scrape")
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("scopes")


@pytest.fixture(scope="module")
def scoped(data_dir):
    """A service, whose attribute ``keys`` has a key of one team by scope."""
    running = Service(data_dir)
    running.keys = {}
    for scope in ORDER:
        made = ("keys", "create", "--team", "ours", "--scope", scope)
        done = CliRunner().invoke(main, [*made, "--data-dir", str(data_dir)])
        running.keys[scope] = done.stdout.strip()
    yield running
    _stop(running)


@pytest.fixture(scope="module")
def pages():
    with ScriptedSite({"/": page("/1"), "/1": page()}) as site:
        yield site


@pytest.fixture(scope="module")
def operations(scoped):
    """The operations of the API with their scopes, by method and path."""
    paths = scoped.get("/openapi.json", key=None).json["paths"]
    return {
        f"{method.upper()} {path}": operation.get("x-scope")
        for path, item in paths.items()
        for method, operation in item.items()
        if path.startswith(("/v1/", "/v2/"))
    }


def test_every_route_has_a_scope(operations):
    assert len(operations) > 80
    for name, scope in operations.items():
        if name in ADMIN:
            assert scope == "admin", name
        elif name.startswith("GET ") or name in READ:
            assert scope == "read", name
        else:
            assert scope == "scrape", name


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("own", ["read", "scrape"])
def test_a_key_calls_no_route_beyond_its_scope(scoped, operations, own):
    for name, scope in operations.items():
        method, path = name.split()
        called = path.replace("{id}", UNKNOWN).replace("{number}", "1")
        body = None if method in {"GET", "DELETE"} else {}
        reply = scoped.request(method, called, body, key=scoped.keys[own])
        is_refused = reply.json.get("code") == "MISSING_SCOPE"
        assert is_refused == (ORDER.index(scope) > ORDER.index(own)), (name, reply)
        if is_refused:
            assert reply.status == 401
            assert reply.json == {
                "success": False,
                "code": "MISSING_SCOPE",
                "error": f"Unauthorized: {method} {called} needs an API key with the scope"
                f" '{scope}', this key has the scope '{own}'.",
            }
            needed = f'Bearer error="insufficient_scope", scope="{scope}"'
            assert reply.headers["WWW-Authenticate"] == needed


def test_keys_of_a_team_share_a_job_each_by_its_scope(scoped, pages):
    keys = scoped.keys
    body = {"url": pages.url("/"), "limit": 2}
    assert scoped.post("/v2/crawl", body, key=keys["read"]).status == 401
    job_id = scoped.post("/v2/crawl", body, key=keys["scrape"]).json["id"]
    path = f"/v2/crawl/{job_id}"
    with open_socket(scoped, path, keys["read"]) as connection:
        assert watched(connection).types[-1] == "done"
    assert scoped.get(path, key=keys["read"]).json["completed"] == 2
    deleted = f"/v2/jobs/{job_id}"
    assert scoped.request("DELETE", deleted, key=keys["scrape"]).status == 401
    assert scoped.request("DELETE", deleted, key=keys["admin"]).status == 200
    assert scoped.get(path, key=keys["read"]).status == 404


def test_earlier_keys_and_keys_of_the_settings_may_do_all(scoped):
    body = {"mode": "off"}
    reply = scoped.request("PUT", "/v2/team/threat-protection", body)
    assert reply.status == 200


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_public_client_raises_an_error_that_names_the_missing_scope(scoped, pages):
    client = Firecrawl(api_key=scoped.keys["read"], api_url=scoped.url)
    with pytest.raises(UnauthorizedError, match="needs an API key with the scope"):
        client.scrape(pages.url("/"))


def test_the_web_page_has_the_scope_of_the_key(scoped, data_dir):
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
    )

    def call(method, path, body=None, token=""):
        headers = {"Content-Type": "application/json", "X-CSRF-Token": token}
        data = None if body is None else json.dumps(body).encode()
        sent = urllib.request.Request(
            f"{scoped.url}/web/api{path}", data, headers, method=method
        )
        try:
            with opener.open(sent) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            return json.load(error)

    token = call("POST", "/session", {"key": scoped.keys["read"]})["token"]
    account = call("GET", "/account")
    assert account["scope"] == "read"
    assert [key["scope"] for key in account["keys"]] == list(ORDER)
    refused = call("PUT", "/team/threat-protection", {"mode": "off"}, token)
    assert refused["code"] == "MISSING_SCOPE"
    assert call("GET", "/session")["signedIn"] is True


def test_lists_of_keys_show_their_scopes(scoped, data_dir):
    listed = CliRunner().invoke(main, ["keys", "list", "--data-dir", str(data_dir)])
    lines = listed.stdout.splitlines()[-3:]
    assert [line.split("  valid    ")[1].split()[0] for line in lines] == list(ORDER)
    code = CliRunner().invoke(main, ["keys", "create", "--scope", "all"])
    assert code.exit_code == 2
    assert "'all' is not one of 'read', 'scrape', 'admin'" in code.output


def test_a_key_that_may_not_delete_jobs_cannot_let_them_expire(scoped, pages, data_dir):
    body = {"urls": [pages.url("/")]}
    key = scoped.keys["scrape"]
    job_id = scoped.post("/v2/batch/scrape", body, key=key).json["id"]
    path = f"/v2/batch/scrape/{job_id}"
    wait_until(lambda: scoped.get(path, key=key).json["status"] == "completed")
    jobs = sqlite3.connect(data_dir / "jobs.sqlite")
    with closing(jobs), jobs:
        jobs.execute("UPDATE job SET expires_at = expires_at - 3000")
    refused = scoped.request("PATCH", path, {"retentionDays": 0.01}, key=key)
    assert refused.status == 400
    assert "retentionDays must be longer, got 0.01" in str(refused.json)
    assert scoped.get(path, key=key).json["status"] == "completed"
