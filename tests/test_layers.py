"""Who may import whom: imports only point to the left of this order."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = (
    {"errors", "private"},
    {"options"},
    {"items"},
    {"content"},
    {"discovery"},
    {"storage", "search_engines", "llm", "json_http"},
    {"crawling"},
    {"spiders"},
    {"services"},
    {"api"},
    {"cli"},
)
PURE = {"errors", "options", "items", "content", "discovery"}
FRAMEWORKS = {"scrapy", "twisted", "klein"}
# Beyond the order: who may not know whom although it stands to the left.
STRANGERS = {
    ("spiders", "crawling"),
    ("spiders", "storage"),
    ("services", "spiders"),
    ("api", "spiders"),
}
SOURCES = sorted(
    path
    for folder in ("scraper_service", "spiders")
    for path in (ROOT / folder).rglob("*.py")
    if "migrations" not in path.parts
)


def part_of(module: str) -> str | None:
    """Return the layer's member that ``module`` belongs to; None for entrances."""
    names = module.split(".")
    if names[0] == "spiders":
        return "spiders"
    if names[0] != "scraper_service" or len(names) == 1:
        return None
    known = set().union(*LAYERS)
    return names[1] if names[1] in known else None


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports_of(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def height(part: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if part in layer)


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_imports_only_point_down_the_layers(path):
    here = part_of(module_of(path))
    if here is None:
        return
    others = {part_of(name) for name in imports_of(path)} - {None, here}
    above = {other for other in others if height(other) > height(here)}
    strange = {other for other in others if (here, other) in STRANGERS}
    assert not above, f"{here} imports {above}, which stand above it"
    assert not strange, f"{here} must not know {strange}"


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_frameworks_stay_out_of_pure_code(path):
    roots = {name.split(".")[0] for name in imports_of(path)}
    if part_of(module_of(path)) in PURE:
        assert not roots & FRAMEWORKS
    if part_of(module_of(path)) != "api":
        assert "klein" not in roots


def test_versions_of_the_api_do_not_know_each_other():
    for version, other in (("v1", "v2"), ("v2", "v1")):
        for path in (ROOT / "scraper_service" / "api" / version).glob("*.py"):
            names = imports_of(path)
            assert not any(f"api.{other}" in name for name in names), path


def test_only_the_egress_module_and_its_user_open_connections():
    opening = ("aiohttp", "urllib.request", "httpx", "requests", "http.client")
    users = {
        module_of(path) for path in SOURCES if imports_of(path) & {"socket", *opening}
    }
    assert users == {
        "scraper_service.api.http_server",  # options of what clients have opened
        "scraper_service.cli.blocklist",  # the operator's own address
        "scraper_service.cli.parts",  # files that the user's own service keeps
        "scraper_service.cli.remote",  # the user's own service, not a page's address
        "scraper_service.crawling.browser.proxy",
        "scraper_service.crawling.download.egress",
        "scraper_service.crawling.download.handler",
        "scraper_service.crawling.download.http_session",
        "scraper_service.crawling.download.proxies",
        "scraper_service.cli.doctor",
        "scraper_service.llm.client",  # the operator's own address
        "scraper_service.json_http",  # engines of the operator's choice
        "scraper_service.services.scrapyd.nodes",  # the operator's own addresses
        "scraper_service.services.webhooks",
    }


def test_no_imports_go_in_a_circle():
    paths = {module_of(path).removesuffix(".__init__"): path for path in SOURCES}
    graph = {}
    for module, path in paths.items():
        names = imports_of(path) & paths.keys()
        # `from package import module` is no use of the package.
        used = {
            each for each in names if not any(n.startswith(f"{each}.") for n in names)
        }
        graph[module] = used - {module}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_paths_of_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", text))
    assert len(named) > 30
    for path in named:
        places = (ROOT / path, ROOT / "scraper_service" / path)
        assert any(place.exists() for place in places), path
