"""The files of the web page: all are ours or listed, small, and run nothing from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import re
import urllib.parse
from pathlib import Path

import pytest

from scraper_service.api.errors import NO_SUCH_PATH

STATIC = Path(__file__).parents[2] / "scraper_service" / "web" / "static"
LIBRARIES = STATIC / "libraries"
OWN_BYTES = 60_000  # as sent, compressed
ALL_BYTES = 150_000
LINE_CHARACTERS = 120  # .prettierrc.json has the same


def fetched(service, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    address = urllib.parse.urlsplit(service.url).netloc
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, dict(response.headers), response.read()
    finally:
        connection.close()


def sent(paths) -> int:
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in paths)


def own_files() -> list[Path]:
    files = [*STATIC.iterdir(), *(STATIC / "screens").iterdir()]
    return sorted(p for p in files if p.suffix in {".js", ".css", ".html"})


def test_the_files_of_the_page_are_small():
    own = own_files()
    libraries = [p for p in LIBRARIES.iterdir() if p.suffix in {".js", ".css"}]
    assert own
    assert sent(own) < OWN_BYTES
    assert sent(own) + sent(libraries) < ALL_BYTES


@pytest.mark.parametrize(
    "path",
    own_files(),
    ids=lambda p: p.name,
)
def test_lines_of_our_own_files_can_be_read(path):
    long = [
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_CHARACTERS
    ]
    assert not long


def test_only_listed_libraries_are_shipped():
    listed = json.loads((LIBRARIES / "libraries.json").read_text())
    files = {name: facts for each in listed for name, facts in each["files"].items()}
    found = {p.name for p in LIBRARIES.iterdir() if p.suffix in {".js", ".css"}}
    assert found == set(files)
    for name, facts in files.items():
        digest = hashlib.sha256((LIBRARIES / name).read_bytes()).hexdigest()
        assert digest == facts["sha256"], name
    for each in listed:
        assert each["licence"] in {"MIT", "Apache-2.0"}
        short = each["package"].rpartition("@")[0].rpartition("/")[2]
        assert (LIBRARIES / f"LICENSE.{short}.txt").read_text()


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.js")), ids=lambda p: p.name)
def test_modules_import_only_files_of_the_page(path):
    text = path.read_text()
    for name in re.findall(r"""\bfrom ?["']([^"']+)["']""", text):
        assert name.startswith(("./", "../")), name
        assert (path.parent / name).resolve().is_relative_to(STATIC), name
        assert (path.parent / name).is_file(), name


def test_the_start_is_a_page_for_browsers_and_json_for_others(service):
    status, headers, body = fetched(service, "/", Accept="text/html,*/*;q=0.8")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert b"<script>" not in body
    assert b"style=" not in body
    assert headers["Vary"] == "Accept, Accept-Encoding"
    assert fetched(service, "/docs", Accept="text/html")[2] == body
    status, headers, body = fetched(service, "/", Accept="*/*")
    assert (status, json.loads(body)["success"]) == (200, True)


def test_files_are_sent_once(service):
    status, headers, body = fetched(service, "/web/app.js")
    assert (status, body) == (200, (STATIC / "app.js").read_bytes())
    assert headers["Content-Type"].startswith("text/javascript")
    again = fetched(service, "/web/app.js", **{"If-None-Match": headers["ETag"]})
    assert (again[0], again[2]) == (304, b"")
    packed = fetched(service, "/web/app.js", **{"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed[2]) == body


@pytest.mark.parametrize(
    "path",
    [
        "/web",
        "/web/",
        "/web/nothing.js",
        "/web/libraries",
        "/web/../server.py",
        "/web/%2e%2e/sessions.py",
        "/web/libraries/..%2f..%2f..%2fserver.py",
        "/web/libraries/%00",
        "/web/..%5cfiles.py",
        "/web//etc/passwd",
        "/web/%2Fetc%2Fhost.conf",
        "/web/%2e%2e%2fstatic%2fapp.js",
        "/web/app.js%00.js",
        f"/web/{'a' * 4000}.js",
        "/web/index.html/more",
    ],
)
def test_only_known_files_are_served(service, path):
    status, _, body = fetched(service, path)
    assert status == 404
    assert json.loads(body) == {"success": False, "error": NO_SUCH_PATH}


def test_no_name_reaches_the_file_system(service, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text('{"secret": 1}')
    for name in (str(secret), f"libraries/{secret}", f"../../../../..{secret}"):
        path = f"/web/{urllib.parse.quote(name, safe='')}"
        status, _, body = fetched(service, path)
        assert (status, json.loads(body)["error"]) == (404, NO_SUCH_PATH)


def test_calls_of_the_page_are_not_cached(service):
    status, headers, _ = fetched(service, "/web/api/session")
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


def test_other_methods_are_refused(service):
    reply = service.post("/web/app.js", {}, key=None)
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
