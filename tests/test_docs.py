"""The documentation: its commands run, its outputs, links and tables are true."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scraper_service import settings
from scraper_service.api.requests import v1
from scraper_service.api.versions import V1, V2
from scraper_service.errors import OTHER_CODES
from scraper_service.options import v2_requests
from scraper_service.options.parsing import Object
from tests.conftest import Service
from tests.content.pdfmaker import pdf
from tests.support import shop
from tests.support.documents import (
    PAGES,
    ROOT,
    SERVICE,
    anchors,
    blocks,
    headings,
    links,
    run,
    shows,
)
from tests.support.scripted_site import ScriptedSite

DOCS = ROOT / "docs"
EXAMPLE = "https://example.org"
SHOP = "https://shop.example"
MAX_LINES = 150  # of the README
CODE = re.compile(
    "(SCRAPE|MAP|CRAWL|SITEMAP|ROBOTS|BAD|PARSE|CONCURRENCY|EXTERNAL|INSUFFICIENT"
    "|UNKNOWN|UNSUPPORTED)_[A-Z_]+"
)
# Constants of that form that no client sees.
NO_CODES = {"ROBOTS_POLICY"}
ENVIRONMENT = {
    "SCRAPER_EGRESS_ALLOW": "127.0.0.2/32",
    "SCRAPER_RENDER": "never",
    "SCRAPER_SEARCH_PROVIDERS": "own",
    "SCRAPER_CONVERTER_PROCESSES": "1",
}
# The steps of deploy/README.md are taken by tests/support/image.py, as root. Examples run in
# tests/repository/test_examples.py, each in its own folder.
ELSEWHERE = {"deploy", "examples"}
RUNNING = [
    page
    for page in PAGES
    if page.relative_to(ROOT).parts[0] not in ELSEWHERE
    and any(block.runs for block in blocks(page))
]


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service of its own: what other tests scrape would be found by searches."""
    running = Service(tmp_path_factory.mktemp("docs"))
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def a_shop():
    with ScriptedSite(shop.pages()) as running:
        yield running


@pytest.mark.parametrize(
    ("package", "tested_by"), [("firecrawl", "js"), ("firecrawl-mcp", "compat")]
)
def test_the_documented_node_client_version_is_the_tested_version(package, tested_by):
    tested = json.loads((ROOT / "tests" / tested_by / "package.json").read_text())
    version = tested["dependencies"][package]
    text = (DOCS / "how-to" / "integrations.md").read_text()
    assert set(re.findall(rf"\b{package}@([\w.]+)", text)) == {version}


@pytest.mark.full(keep=3)
@pytest.mark.timeout(600)  # some commands start an interpreter each
@pytest.mark.parametrize("page", RUNNING, ids=name_of)
def test_every_command_of_a_page_runs_and_prints_what_is_shown(
    page, service, site, a_shop, tmp_path
):
    if "jq " in page.read_text() and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    (tmp_path / "report.pdf").write_bytes(
        pdf([[(72, 700, 12, "the tides of the year")]])
    )
    (tmp_path / "urls.txt").write_text(f"{site.url('/example')}\n")
    # An address of its own for each page: no other test put it into the cache.
    example = site.url(f"/example?{page.stem}")
    places = {EXAMPLE: example, SHOP: a_shop.url("").rstrip("/"), SERVICE: service.url}
    printed = run(page, places, tmp_path, KEY=service.key, **ENVIRONMENT)
    running = [block for block in blocks(page) if block.runs]
    for block, output in zip(running, printed, strict=True):
        if block.output is not None:
            assert shows(block, output), f"{block.text}printed\n{output}"


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page):
    wrong = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def test_every_heading_that_the_code_cites_is_there():
    wrong = []
    for path in (ROOT / "scraper_service").rglob("*.py"):
        text = re.sub(r"\s+(?:# )?", " ", path.read_text())
        for page, cited in re.findall(
            r"\b(docs/[\w/-]+\.md), ([A-Z].{,60}|llms.{,60})", text
        ):
            found = headings(ROOT / page)
            if not any(cited.startswith(heading) for heading in found):
                wrong.append(f"{path.name}: {page}, {cited}")
    assert wrong == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_LINES


def test_the_index_links_to_every_page():
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in (ROOT / "README.md", DOCS / "README.md", DOCS / "api" / "README.md")
        for link in links(page)
    }
    assert set(DOCS.rglob("*.md")) - linked == set()


def test_the_site_of_the_documentation_has_every_page():
    text = (ROOT / "deploy" / "docs-site" / "mkdocs.yml").read_text()
    named = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    assert named == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


@pytest.mark.full
def test_every_error_code_has_its_row():
    page = (DOCS / "how-to" / "troubleshooting.md").read_text()
    written = Counter(
        node.value
        for path in (ROOT / "scraper_service").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if CODE.fullmatch(node.value) and not hasattr(settings, node.value)
    )
    # What stands in this list alone, a retry knows, and nothing here has.
    codes = {code for code in written if written[code] > (code in OTHER_CODES)}
    codes -= NO_CODES
    assert len(codes) > 20
    assert {code for code in codes if f"| `{code}` |" not in page} == set()


def api_pages():
    return "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))


@pytest.mark.parametrize("version", [v1, v2_requests], ids=["v1", "v2"])
def test_every_body_option_is_documented(version):
    page = api_pages()
    kinds = [value for value in vars(version).values() if isinstance(value, Object)]
    names = {name for kind in kinds for name in kind.fields}
    assert len(names) > 60
    unnamed = {name for name in names if not re.search(rf"`{name}[`:]", page)}
    assert unnamed == set()


@pytest.mark.parametrize("api", [V1, V2], ids=["v1", "v2"])
def test_every_route_is_documented(api):
    page = api_pages()
    routes = {
        re.sub(r"<(?:\w+:)?(?:\w*_)?(\w+)>", r"{\1}", rule.rule)
        for rule in api(None, None, None, None).klein.url_map.iter_rules()
    }
    assert len(routes) > 20
    assert {route for route in routes if f"{route}`" not in page} == set()


def test_every_setting_in_a_table_exists():
    named = [
        name
        for page in PAGES
        for row in page.read_text().splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`SCRAPER_([A-Z_]+)`", row.split("|")[1])
    ]
    assert [name for name in named if not hasattr(settings, name)] == []


def test_make_names_its_targets():
    done = subprocess.run(
        ("make", "-C", str(ROOT), "help"), capture_output=True, text=True, check=True
    )
    named = set(re.findall(r"make ([\w-]+)", done.stdout))
    code = [block.text for page in PAGES for block in blocks(page)]
    used = set(re.findall(r"^make ([a-z][\w-]+)", "".join(code), re.MULTILINE))
    assert used
    assert used <= named


@pytest.mark.full
@pytest.mark.timeout(300)  # each command starts an interpreter
@pytest.mark.parametrize("number", [0, 1], ids=["120 columns", "40 columns"])
def test_the_session_at_a_terminal_prints_what_is_shown(site, tmp_path, number):
    session = [block.text for block in blocks(DOCS / "reference" / "command-line.md")]
    session = [text for text in session if text.startswith("$ ")][number]
    shown = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    page = site.url("/example")
    for command, text in shown:
        line = command.replace(EXAMPLE, page).replace("*example*", "*-example")
        output = run_line(line, tmp_path)
        if "crawl" in command:
            assert json.loads(output)["metadata"]["title"] in text
        elif "jobs list" in command:
            assert json.loads(output)["state"] in text.replace("\n", "")
        else:
            assert output == (
                "" if "export" in command else text.replace(EXAMPLE, page)
            )


def run_line(line, folder):
    """Run one command of a shell; return what it prints."""
    scripts = Path(sys.executable).parent
    path = f"{scripts}:{os.environ['PATH']}"
    done = subprocess.run(
        ("sh", "-c", line),
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_takes_the_completion(shell):
    lines = (DOCS / "reference" / "command-line.md").read_text().splitlines()
    line = next(line for line in lines if f"{shell}_source" in line)
    variable, value = re.search(r"(\w+)=(\w+)", line).groups()
    done = subprocess.run(
        (f"{Path(sys.executable).parent}/scraper-service",),
        env={**os.environ, variable: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{variable}={shell}_complete" in done.stdout
