"""Who may import whom: imports only point to the left of this order."""

from __future__ import annotations

import ast
import collections
import functools
import graphlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = (
    {"errors", "shared_objects"},
    {"options"},
    {"items"},
    {"content"},
    {"discovery"},
    {"storage", "search_engines", "llm"},
    {"exports"},
    {"crawling"},
    {"spiders"},
    {"services"},
    {"api"},
    {"web"},
    {"cli"},
)
PURE = {"errors", "options", "items", "content", "discovery"}
FRAMEWORKS = {"scrapy", "twisted", "klein"}
# Beyond the order: who may not know whom although it stands to the left. Spiders know what
# their requests carry, and no component.
CARRIED = "scraper_service.crawling.page_state"
STRANGERS = {
    ("spiders", "crawling"),
    ("spiders", "storage"),
    ("spiders", "exports"),
    ("services", "spiders"),
    ("api", "spiders"),
    ("cli", "api"),
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
    if names[0] != "scraper_service" or len(names) == 1:
        return None
    known = set().union(*LAYERS)
    return names[1] if names[1] in known else None


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return f"scraper_service.{name}" if name.startswith("spiders.") else name


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, for the many tests that look at each."""
    return tuple(ast.walk(tree_of(path)))


@functools.cache
def imports_of(path: Path, *, top_level_only: bool = False) -> set[str]:
    nodes = tree_of(path).body if top_level_only else nodes_of(path)
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


def test_imports_only_point_down_the_layers():
    for path in SOURCES:
        module = module_of(path)
        here = part_of(module)
        if here is None:
            continue
        others = {part_of(name) for name in imports_of(path)} - {None, here}
        above = {other for other in others if height(other) > height(here)}
        known = {name for name in imports_of(path) if not name.startswith(CARRIED)}
        strange = {part_of(x) for x in known if (here, part_of(x)) in STRANGERS}
        assert not above, f"{module} imports {above}, which stand above {here}"
        assert not strange, f"{module} is part of {here}, which must not know {strange}"


def test_frameworks_stay_out_of_pure_code():
    for path in SOURCES:
        module = module_of(path)
        roots = {name.split(".")[0] for name in imports_of(path)}
        if part_of(module) in PURE:
            assert not roots & FRAMEWORKS, module
        if part_of(module) != "api":
            assert "klein" not in roots, module


def test_processes_that_validate_bodies_load_no_database():
    """Converters import what reads a body, by the module that its reader names."""
    readers = [module_of(path) for path in SOURCES if "BodyReader[" in path.read_text()]
    assert len(readers) > 5
    code = f"import sys, {', '.join(readers)}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"sqlalchemy", *FRAMEWORKS} & set(run.stdout.split())


def test_versions_of_the_api_do_not_know_each_other():
    paths = {
        "v1": ("api/requests/v1.py", "api/responses_v1.py"),
        "v2": ("options/v2_requests.py", "api/responses_v2.py"),
    }
    for version, other in (("v1", "v2"), ("v2", "v1")):
        for path in paths[version]:
            names = imports_of(ROOT / "scraper_service" / path)
            assert not any(other in re.split(r"[._]", name) for name in names), path


def test_only_the_egress_module_and_its_user_open_connections():
    opening = ("aiohttp", "urllib.request", "httpx", "requests", "http.client")
    users = {
        module_of(path) for path in SOURCES if imports_of(path) & {"socket", *opening}
    }
    assert (
        users
        == {
            "scraper_service.api.http_connections",  # options of what clients have opened
            "scraper_service.cli.mcp",  # the user's own service
            "scraper_service.services.monitoring.notifications",  # the mail server
            # a server, for the browser of a session
            "scraper_service.services.browser_sessions.cdp",
            "scraper_service.cli.outputs.page_files",  # files that the user's own service keeps
            "scraper_service.cli.remote",  # the user's own service, not a page's address
            "scraper_service.crawling.browser.devtools",  # the own browser's port
            "scraper_service.crawling.browser.proxy",
            "scraper_service.crawling.converter_pool.converter",  # pairs of sockets
            "scraper_service.crawling.converter_pool.converter_process",
            "scraper_service.crawling.egress",
            "scraper_service.crawling.download.event_loop",  # names of hosts
            "scraper_service.crawling.download.handler",
            "scraper_service.crawling.download.http_session",
            "scraper_service.crawling.proxies",
            # an error of the base of the handler
            "scraper_service.crawling.scrapy_shortcuts",
            "scraper_service.cli.operator.doctor",
            "scraper_service.exports.running_export",  # pairs of sockets
            "scraper_service.exports.export_process",
            "scraper_service.llm.model",  # the operator's own address
            "scraper_service.search_engines.engines",  # engines of the operator's choice
            "scraper_service.services.observability.health",  # systemd's own socket
            "scraper_service.services.scrapyd.runner",  # the operator's own addresses
            "scraper_service.services.webhooks",
        }
    )


SHORTCUTS = ROOT / "scraper_service" / "crawling" / "scrapy_shortcuts.py"
OF_SCRAPY = {"engine", "scraper", "downloader"}  # names of objects of Scrapy


def private_names_of_scrapy(path: Path) -> set[str]:
    """Return the private names that a module imports from Scrapy, or reads of its engine."""
    found = {name for name in imports_of(path) if re.match(r"scrapy\..*\b_(?!_)", name)}
    for node in nodes_of(path):
        match node:
            case ast.Attribute(
                value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name
            ) if owner in OF_SCRAPY and name.startswith("_"):
                found.add(f"{owner}.{name}")
    return found


def test_only_the_shortcuts_touch_private_names_of_scrapy():
    users = {path for path in SOURCES if private_names_of_scrapy(path)}
    assert users == {SHORTCUTS}


def test_tools_do_not_import_tests():
    """The tests import what they share with the benchmarks, and no benchmark a test."""
    for path in (ROOT / "tools").rglob("*.py"):
        roots = {name.split(".")[0] for name in imports_of(path)}
        assert "tests" not in roots, path


def used_modules(path: Path, modules: set[str]) -> set[str]:
    """Return the modules that a module imports: `from package import module` is one."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules
            if names - modules:
                found.add(node.module)
    return found & modules


def test_no_imports_go_in_a_circle():
    paths = {module_of(path).removesuffix(".__init__"): path for path in SOURCES}
    modules = set(paths)
    graph = {name: used_modules(path, modules) - {name} for name, path in paths.items()}
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_the_frontier_does_not_know_the_stores_of_jobs():
    """They use it, and share what stands above both."""
    for path in (ROOT / "scraper_service" / "storage" / "frontier").glob("*.py"):
        known = {
            x for x in imports_of(path) if x.startswith("scraper_service.storage.jobs")
        }
        assert known == set(), path


def test_paths_of_the_architecture_exist():
    pages = (ROOT / "docs" / "explanation").rglob("*.md")
    text = (ROOT / "CONTRIBUTING.md").read_text() + "\n".join(
        page.read_text() for page in pages if page.name != "history.md"
    )
    named = set(re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", text))
    assert len(named) > 30
    for path in named:
        places = (ROOT / path, ROOT / "scraper_service" / path)
        assert any(place.exists() for place in places), path


# -- a stranger finds things by their names ---------------------------------------------

MOST_ENTRIES = 20


def folders():
    """Yield each folder with what the repository keeps in it."""
    for folder in {path.parent for path in SOURCES}:
        entries = [
            path
            for path in folder.iterdir()
            if path.name not in {"__pycache__", "__init__.py", "__main__.py"}
            and path.suffix not in {".so", ".c", ".typed"}
            and not path.is_symlink()  # made by `make lint`
            and (path.is_file() or any(path.glob("*.py")))
        ]
        yield folder.relative_to(ROOT), entries


def test_no_folder_has_more_entries_than_a_reader_takes_in():
    sizes = {str(at): len(entries) for at, entries in folders()}
    assert {at: n for at, n in sizes.items() if n > MOST_ENTRIES} == {}


def test_names_of_public_classes_are_unique():
    places = collections.defaultdict(list)
    for path in SOURCES:
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module_of(path))
    assert {name: at for name, at in places.items() if len(at) > 1} == {}


def test_no_module_only_forwards_names():
    """Packages may say what they offer; a module of imports alone is a detour."""
    for path in SOURCES:
        if path.name in {"__init__.py", "__main__.py"}:
            continue
        body = tree_of(path).body
        kinds = (ast.Import, ast.ImportFrom, ast.Expr)
        assert not all(isinstance(node, kinds) for node in body), path


REFERENCE = re.compile(
    r":(?:attr|class|data|exc|func|meth|mod):`~?(scraper_service[\w.]+)`"
)


def names_in(path: Path) -> set[str]:
    """Return the names that a module defines, imports or sets anywhere."""
    found = set()
    for node in nodes_of(path):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.Name(id=name):
                found.add(name)
            case ast.Attribute(attr=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
    return found


def test_references_in_docstrings_name_something():
    names = {
        module_of(path).removesuffix(".__init__"): names_in(path) for path in SOURCES
    }

    def exists(reference: str) -> bool:
        parts = reference.split(".")
        for length in range(len(parts), 0, -1):
            if (module := ".".join(parts[:length])) in names:
                return names[module].issuperset(parts[length:])
        return False

    wrong = [
        (str(path.relative_to(ROOT)), reference)
        for path in SOURCES
        for reference in REFERENCE.findall(path.read_text())
        if not exists(reference)
    ]
    assert wrong == []
