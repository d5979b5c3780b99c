"""The house keeps its size: each number of ``tests/house.toml`` may fall, and never rises.

A number that a change raises is changed by hand, with the reason in the commit. A number that
has fallen clearly below is lowered in the file, so that the gain stays.
"""

from __future__ import annotations

import ast
import collections
import re
import tomllib
from typing import TYPE_CHECKING

from scraper_service.options import catalogue
from tests.test_layers import ROOT, SOURCES, module_of, nodes_of, used_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HOUSE = tomllib.loads((ROOT / "tests" / "house.toml").read_text())
PACKAGE = ROOT / "scraper_service"
FACES = {"__init__.py", "__main__.py"}
LEAST_LINES = 60
SLACK = 0.02  # of a number, by which it may be below the one in the file
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
# Third forms that do not end in -ed. Those that are also a first form, such as "read" and
# "set", are verbs.
THIRD_FORMS = frozenset(
    "begun bought bound broken brought built caught chosen dealt drawn driven fallen felt"
    " forgotten found given grown heard held hidden kept known laid led left lost made meant"
    " met paid said seen sent shown sought spent taken taught thought told understood"
    " written".split()
)
NOT_THIRD = frozenset(
    "bleed embed exceed feed need proceed seed shed speed succeed".split()
)
WRITES = {"write", "write_later", "write_blocking", "write_each"}


def area_of(path: Path) -> str:
    """Return the folder of a module below the package; ``root`` for modules in it."""
    parts = path.relative_to(ROOT).parts
    if parts[0] != PACKAGE.name:
        return parts[0]
    return parts[1] if len(parts) > 2 else "root"


def sources() -> Iterator[Path]:
    """Yield all modules, also the compiled ones."""
    for folder in (PACKAGE, ROOT / "spiders"):
        for suffix in ("*.py", "*.pyx"):
            yield from (p for p in folder.rglob(suffix) if not has_link(p))


def has_link(path: Path) -> bool:
    """Return True below the link that `make lint` makes."""
    return any(above.is_symlink() for above in path.parents)


def test_no_part_of_the_package_grows():
    lines: collections.Counter[str] = collections.Counter()
    modules: collections.Counter[str] = collections.Counter()
    for path in sources():
        lines[area_of(path)] += path.read_text().count("\n")
        modules[area_of(path)] += 1
    assert set(HOUSE["lines"]) == set(HOUSE["modules"]) == set(lines)
    assert_no_rise("lines", lines)
    assert_no_rise("modules", modules)


def test_no_module_is_added_that_is_too_small_to_be_looked_up():
    """A module is what a reader looks up by one word; many tiny ones are heads and glue."""
    small = [
        path
        for path in SOURCES
        if path.name not in FACES
        and "passes" not in path.parts  # pairs with a compiled form
        and path.read_text().count("\n") < LEAST_LINES
    ]
    assert_no_rise("names", {f"modules below {LEAST_LINES} lines": len(small)})


def assert_no_rise(table: str, counts: Mapping[str, int]) -> None:
    """Compare counts with the numbers of the same names in a table of the file."""
    for name, count in counts.items():
        most = HOUSE[table].get(name, 0)
        assert count <= most, f"{count} {table} of {name}, at most {most}"
        assert most - count <= max(2, SLACK * most), (
            f"only {count} {table} of {name}: lower the {most} in tests/house.toml"
        )


def folder_edges() -> dict[tuple[str, str], set[tuple[str, str]]]:
    """Return the imports from one folder into another, by both folders."""
    paths = {module_of(path).removesuffix(".__init__"): path for path in SOURCES}
    folders = {
        name: str(path.parent.relative_to(ROOT)).removeprefix("scraper_service/")
        for name, path in paths.items()
    }
    edges = collections.defaultdict(set)
    for name, path in paths.items():
        for used in used_modules(path, set(paths)) - {name}:
            edges[folders[name], folders[used]].add((name, used))
    return edges


def test_no_two_folders_import_each_other():
    """A folder and its own sub-folder may: the sub-folder is a part of it.

    Modules beside the folders are of two kinds, the lowest and the uppermost, and count with
    neither.
    """
    edges = folder_edges()
    found = {
        f"{one} {other}"
        for one, other in edges
        if one < other
        and (other, one) in edges
        and not other.startswith(f"{one}/")
        and "scraper_service" not in (one, other)
    }
    known = set(HOUSE["circles"]["folders"])
    assert found <= known, {pair: edges[tuple(pair.split())] for pair in found - known}
    assert known <= found, f"remove from tests/house.toml: {known - found}"


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(name) for name in node.decorator_list)


def is_past_participle(name: str) -> bool:
    """Return True for ``_told`` and ``told_of``; in ``hidden_texts`` it is an adjective."""
    first, _, rest = name.strip("_").partition("_")
    third = first in THIRD_FORMS or (first.endswith("ed") and first not in NOT_THIRD)
    return third and rest in {
        "",
        "again",
        "at",
        "before",
        "below",
        "by",
        "for",
        "of",
        "out",
    }


def test_functions_are_named_by_verbs_and_nouns():
    names = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path, node in functions()
        if is_past_participle(node.name) and not is_property(node)
    ]
    assert_no_rise("names", {"past participles": len(names)})


def changes(node: ast.AST) -> Iterator[str]:
    """Yield what a function assigns outside of itself, and its writes to the database."""
    for part in ast.walk(node):
        match part:
            case ast.Assign(targets=targets):
                yield from (ast.unparse(t) for t in targets if is_outside(t))
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                if is_outside(target):
                    yield ast.unparse(target)
            case ast.Call(func=ast.Attribute(attr=name)) if name in WRITES:
                yield ast.unparse(part.func)


def is_outside(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute)


def test_predicates_change_nothing():
    acting = {
        f"{path.relative_to(PACKAGE) if PACKAGE in path.parents else path.relative_to(ROOT)}"
        f" {node.name}"
        for path, node in functions()
        if re.match(r"_*(is|has|may)_", node.name) and list(changes(node))
    }
    assert acting == set(HOUSE["predicates"]["that act"])


def test_keys_of_options_are_written_in_the_table_of_options():
    """Elsewhere are those of responses, and of errors that name an option."""
    tables = [
        value
        for value in vars(catalogue).values()
        if isinstance(value, tuple)
        and value
        and all(isinstance(row, catalogue.Option) for row in value)
    ]
    keys = {
        key
        for table in tables
        for version in ("v1", "v2")
        for key in catalogue.keys(table, version)
        if key != key.lower()
    }
    assert len(keys) > 40
    uses = [
        (path, node.value)
        for path in SOURCES
        if area_of(path) != "options"
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and node.value in keys
    ]
    assert_no_rise("names", {"keys of options outside options": len(uses)})


def test_only_the_edge_imports_the_web_server():
    users = {
        area_of(path)
        for path in SOURCES
        if "twisted.web" in path.read_text()
        and "services/scrapyd" not in str(path)  # resources of a node's own server
    }
    assert users == {"api", "web"}


def test_a_single_migration_exists_before_the_first_release():
    versions = PACKAGE / "storage" / "migrations" / "versions"
    assert [path.name for path in versions.glob("[0-9]*.py")] == ["0001_initial.py"]


def test_words_that_mean_many_things_become_fewer():
    """``place`` was a permit, a position, a URL and a folder; a word of the field is one."""
    text = "\n".join(path.read_text() for path in (*sources(), *PAGES)).lower()
    words = collections.Counter(re.findall(r"\b[a-z]+\b", text))
    assert_no_rise("words", {w: words[w] + words[f"{w}s"] for w in HOUSE["words"]})
