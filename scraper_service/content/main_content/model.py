"""The learned models: the kind of a page, and a forest of trees over the features of blocks.

A page is classified by its declarations, its URL and its structure. The declarations
include a product description that stands only in the page's JSON-LD.

``tools/training/`` writes ``weights.json`` from pages whose main content is known. All
trees are symmetric: each depth has one condition. A block's leaf is therefore a number
with one bit per condition. The scores make the draft of a verdict, which the rules correct.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter
from collections.abc import Mapping  # read at run time by attrs
from functools import cache
from importlib.resources import files  # works in an egg, too
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field, frozen
from lxml import etree

from scraper_service.content.main_content.blocks import AROUND, Tables, Walk
from scraper_service.content.metadata.evidence import parse_json
from scraper_service.content.passes import (
    WordTable,
    block_counts,
    feature_rows,
    name_parts,
    shape_counts,
    tree_sums,
)
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scraper_service.content.html.document import Document

MAX_PRODUCT_SCRIPT = 500_000  # characters; longer scripts are skipped
MAX_VALUES = 2_000  # values examined per script
LEAST_WORDS = 8
MAX_TEXT = 20_000  # characters
KNOWN_SHARE = 0.8  # share of known words above which the page already has the text
_WORD = re.compile(r"\w+")
_TAG = re.compile(r"<[^<>]*>")
_BREAK = re.compile(r"<(?:br|/p|/li|/div)\b[^<>]*>|\n\s*\n", re.IGNORECASE)
KINDS = (
    "article",
    "collection",
    "documentation",
    "forum",
    "listing",
    "product",
    "service",
)
MAX_SCRIPTS = 20
MAX_SCRIPT = 50_000  # characters examined per script
MAX_METAS = 9
MAX_TITLES = 3
MAX_TITLE = 2_000  # characters; titles of content have up to 60 words
PROSE_WORDS = 15  # least words of a block of prose
SHORT_TEXT = 200  # characters; shorter texts may be prices or questions
MAX_EVIDENCE = 6  # signs
MAX_COUNTED = 3_000  # elements whose class names are examined
_LD_TYPE = re.compile(r"\"@type\"\s*:\s*\[?\s*\"(\w{1,40})\"")
PRICE = re.compile(r"[$€£¥₹]\s?\d|\d\s?(?:[€£]|(?:kr|zł|USD|EUR)\b)")
LEAST_PICTURE_NAME = 6  # characters
_PICTURE_SIZE = re.compile(r"(?:[-_]\d+x\d+|-scaled|@2x)*(?:\.\w{1,5})?\Z")
_MONEY = ("$", "€", "£", "¥", "₹", "kr", "zł", "USD", "EUR")  # each price has one
_COUNTED = {
    "p": "paragraphs",
    "pre": "code",
    "code": "code",
    "form": "forms",
    "table": "tables",
    "article": "articles",
    "h2": "second headings",
    "h3": "third headings",
    "li": "items",
    "img": "images",
    "button": "buttons",
    "blockquote": "quotations",
    "time": "times",
}


def product_description(scripts: Sequence[str]) -> str | None:
    """Return the product description in the JSON-LD ``scripts``, or None."""
    for script in scripts[:MAX_SCRIPTS]:
        if "Product" not in script or len(script) > MAX_PRODUCT_SCRIPT:
            continue
        for found in _products(parse_json(script)):
            text = found.get("description")
            if isinstance(text, str) and len(text.split()) >= LEAST_WORDS:
                return text[:MAX_TEXT]
    return None


def _products(data: Any) -> Iterator[dict[str, Any]]:
    """Yield the products, except those of an ``ItemList``: they have their own pages."""
    waiting, seen = [data], 0
    while waiting and seen < MAX_VALUES:
        value = waiting.pop(0)
        seen += 1
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            kinds = value.get("@type")
            kinds = kinds if isinstance(kinds, list) else [kinds]
            if "ItemList" in kinds:
                continue
            if "Product" in kinds or "ProductGroup" in kinds:
                yield value
            waiting += [value[k] for k in ("@graph", "mainEntity") if k in value]


def add_description(body: Any, text: str) -> None:
    """Insert ``text`` as paragraphs after the title, unless the page has the text."""
    present = set(_WORD.findall(" ".join(body.itertext()).lower()))
    plain = html.unescape(text)
    paragraphs = [" ".join(_TAG.sub(" ", part).split()) for part in _BREAK.split(plain)]
    words = _WORD.findall(" ".join(paragraphs).lower())
    if not words or sum(w in present for w in words) > KNOWN_SHARE * len(words):
        return
    section = etree.Element("section")
    for paragraph in filter(None, paragraphs):
        etree.SubElement(section, "p").text = paragraph
    title = next(body.iter("h1"), None)
    if title is None:
        body.append(section)
    else:
        section.tail, title.tail = title.tail, None
        title.addnext(section)


@frozen
class Kind:
    """The classification of a page."""

    #: The probability of each kind, in the order of :data:`KINDS`.
    chances: tuple[float, ...]
    #: The signs of the page, with the weight of each for each kind.
    signs: tuple[tuple[str, list[float]], ...] = ()

    @property
    def evidence(self) -> tuple[tuple[str, float], ...]:
        """The strongest signs of the likeliest kind, with their weights."""
        best = self.chances.index(max(self.chances))
        strong = sorted(self.signs, key=lambda pair: (-pair[1][best], pair[0]))
        strong = strong[:MAX_EVIDENCE]
        return tuple((sign, row[best]) for sign, row in strong if row[best] > 0)

    @property
    def name(self) -> str:
        """The likeliest kind."""
        return KINDS[max(range(len(KINDS)), key=self.chances.__getitem__)]

    def by_name(self) -> dict[str, float]:
        """Return the chance of each kind."""
        return dict(zip(KINDS, self.chances, strict=True))


@frozen
class PageDeclarations:
    """The declarations of a page, read before its tree is cleaned."""

    #: Signs of the page's kind: types, generator, body names, parts of the URL.
    signs: frozenset[str]
    #: The description of its product, from JSON-LD.
    description: str | None = None
    #: The texts of ``<title>`` and ``og:title``.
    titles: tuple[str, ...] = ()
    #: The file name in the URL of ``og:image``, without size and extension; may be empty.
    picture: str = ""


def read_declarations(document: Document) -> PageDeclarations:
    """Return the declarations of a page; call this before the tree is cleaned."""
    parts = document.parts
    titles = [
        given.get("content") if isinstance(given, dict) else given.text
        for given in parts.declared_titles[:MAX_TITLES]
    ]
    scripts = [
        text
        for script in parts.scripts
        if script.get("type") == "application/ld+json" and (text := script.text)
    ]
    names = [
        value
        for body in document.root.iterchildren("body")
        for name, value in body.items()
        if name in {"class", "id"}
    ]
    signs = _meta_signs(parts.metas)
    for data in scripts[:MAX_SCRIPTS]:
        signs.update(f"data:{name}" for name in _LD_TYPE.findall(data[:MAX_SCRIPT]))
    for marked in parts.types:
        signs.add(f"data:{marked.rsplit('/', 1)[-1][:40]}")
    signs.update(f"body:{name}" for name in name_parts(" ".join(names)))
    signs |= _url_signs(document.base)
    texts = tuple(text[:MAX_TITLE] for text in titles if text and not text.isspace())
    return PageDeclarations(
        frozenset(signs),
        product_description(scripts),
        texts,
        _picture_name(parts.metas),
    )


def _picture_name(metas: Iterable[dict[str, str]]) -> str:
    """Return the file name of the first ``og:image``, as other sizes of it have it too."""
    for meta in metas:
        if meta.get("property") == "og:image" and meta.get("content"):
            path = url_parts(meta["content"].strip()).path
            name = _PICTURE_SIZE.sub("", path.rpartition("/")[2])
            return name if len(name) >= LEAST_PICTURE_NAME else ""
    return ""


def _meta_signs(metas: Iterable[dict[str, str]]) -> set[str]:
    """Return the ``og:type`` and the generator as signs."""
    signs: set[str] = set()
    count = 0
    for meta in metas:
        if meta.get("property") != "og:type" and meta.get("name") != "generator":
            continue
        count += 1
        if count > MAX_METAS:
            break
        words = re.findall(r"[a-z]+", (meta.get("content") or "")[:60].lower())
        if meta.get("property"):
            signs.update(f"og:{word}" for word in words[:3])
        else:
            signs.update(f"made by {word}" for word in words[:1])
    return signs


def _url_signs(url: str) -> set[str]:
    parts = url_parts(url)
    names = [name for name in parts.path.lower().split("/") if name]
    signs = {
        f"path:{word}" for name in names for word in re.findall(r"[a-z]+", name)[:6]
    }
    host = (parts.hostname or "").split(".")
    signs.update(f"host:{name}" for name in host[:-2])
    signs.update(f"host:{word}" for word in re.findall(r"[a-z]+", " ".join(host))[:4])
    signs.add(f"path depth {min(len(names), 5)}")
    last = names[-1] if names else ""
    signs.add(f"last name has {min(last.count('-') + last.count('_'), 8)} dashes")
    if re.search(r"\d{4,}", last):
        signs.add("last name has a number")
    if re.search(r"/20\d\d/", parts.path):
        signs.add("path has a year")
    if parts.query:
        signs.add("has a query")
    return signs


@define
class ClassParts:
    """The parts of class names that are signs of a page's kind."""

    #: The parts in lower case.
    parts: list[str]
    #: The number of each part.
    table: WordTable = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self.table = WordTable({part: number for number, part in enumerate(self.parts)})

    @classmethod
    def of(cls, weights: Iterable[str]) -> ClassParts:
        """Return the parts that are signs with weights."""
        signs = [sign.partition(":") for sign in weights]
        names = {part for kind, _, part in signs if kind in {"class", "classes"}}
        return cls(sorted(names))


def structure_signs(walk: Walk, known: ClassParts) -> set[str]:
    """Return signs of the cleaned page's structure: class names, counts as powers of two."""
    shapes = walk.shapes
    if len(walk.nodes) > MAX_COUNTED:
        shapes = dict(Counter(walk.nodes.shape[:MAX_COUNTED]))
    counts, parts = shape_counts(shapes, _COUNTED, known.table)
    blocks = walk.blocks
    words, linked, prose, short, questions = block_counts(
        blocks, PROSE_WORDS, SHORT_TEXT
    )
    counts["words"], counts["blocks"] = words, len(blocks)
    counts["prices"] = _prices(short)
    counts["questions"] = questions
    signs = {f"{name}: {n.bit_length()}" for name, n in counts.items()}
    signs.add(f"links: {10 * linked // (words or 1)} tenths")
    signs.add(f"sentences: {10 * prose // (words or 1)} tenths")
    for number, count in parts.items():
        signs.add(f"class:{known.parts[number]}")
        if count >= 4:
            signs.add(f"classes:{known.parts[number]}")
    return signs


def _prices(texts: list[str]) -> int:
    """Return the number of texts with a price."""
    text = "\n".join(texts)
    marks = [mark for mark in _MONEY if mark in text]
    if not marks:
        return 0
    marked = {n for mark in marks for n, text in enumerate(texts) if mark in text}
    return sum(PRICE.search(texts[n]) is not None for n in marked)


def kind_of(signs: Iterable[str], weights: Mapping[str, list[float]]) -> Kind:
    """Return the kind of a page: the summed weights of its signs, as probabilities.

    ``weights`` has a row for each sign, with a number for each of :data:`KINDS`. The sum
    starts with the row of the empty name.
    """
    known = [(sign, row) for sign in signs if (row := weights.get(sign))]
    sums = list(map(sum, zip(weights[""], *[row for _, row in known], strict=True)))
    top = max(sums)
    powers = [math.exp(value - top) for value in sums]
    whole = sum(powers)
    return Kind(tuple(power / whole for power in powers), tuple(known))


# -- features and trees ----------------------------------------------------------------

Array = Any  # of numpy, one dimension
# Groups of page kinds on which names mean about the same; and the group of each kind.
GROUPS = ("reading", "forum", "list", "product", "service")
GROUP_OF = (0, 2, 0, 1, 2, 3, 4)
LEVELS = 4  # elements around a block with features of their own
REACHES = (4, 12)  # blocks before and after whose means are features
# Elements around a block that add no information to the other features.
_USELESS = frozenset({"details", "p", "a", "dl", "consent"})
_SHIFTED = ("words", "link density", "tag")
_SPREAD = ("link density", "words", "sentence", "first words")
_BITS = [
    (f"in {name}", 1 << number)
    for number, name in enumerate(AROUND)
    if name not in _USELESS
]
WEIGHTS = "weights.json"
SURE = 0.6  # mean chance from which rules leave a section alone


@define
class Table:
    """The features of the blocks of a page, and the positions of the blocks."""

    #: The features by name, a value per block.
    columns: Mapping[str, Array]
    #: All features, a row for each.
    values: Array
    #: The number of words of each block.
    words: Array
    #: The node of each block.
    node: Array
    #: The parent of each node; 0 for the body.
    parent: Array
    #: The first block inside each node.
    start: Array
    #: The block after the last block inside each node.
    end: Array
    #: The path number of each block's node.
    group: Array

    def matrix(self, names: Sequence[str]) -> Array:
        """Return the named columns as a matrix; each column is contiguous in memory."""
        rows = {name: number for number, name in enumerate(self.columns)}
        numbers = [rows[name] for name in names]
        return self.values[numbers].astype(np.float32).T


def group_chances(kind: Sequence[float]) -> list[float]:
    """Return the chance of each of :data:`GROUPS`; ``kind`` has that of each page kind."""
    chances = [0.0] * len(GROUPS)
    for number, chance in enumerate(kind):
        chances[GROUP_OF[number]] += chance
    return chances


def _names() -> Iterator[str]:
    """Yield the names of the features."""
    yield from ("words", "link density", "links", "word length", "ends a sentence")
    yield from ("commas", "sentences", "first words", "phrase", "inline names")
    yield from ("same before", "same behind", "sentence", "tag", "depth")
    for group in ("names", "kind names"):
        yield from (f"{group} low", f"{group} high", f"{group} sum")
        for level in range(LEVELS):
            yield from (f"{group} low {level}", f"{group} high {level}")
        yield from (f"{group} low far", f"{group} high far")
    yield from (name for name, _ in _BITS)
    for level in range(LEVELS):
        parts = ("share", "density", "prose", "blocks")
        yield from (f"{part} {level}" for part in parts)
    yield from ("big share", "big density", "big distance")
    yield from ("alike", "item words", "item density", "item prose", "items share")
    yield from ("own siblings", "depth beside h1", "h1 shared")
    yield from ("position", "number", "number from end")
    yield from ("heading words", "heading phrase", "heading distance", "heading names")
    yield from ("in text", "from text", "text share", "from first sentence")
    yield "prose before"
    yield from ("group blocks", "group words", "group share", "group density")
    yield "group sentences"
    for name in _SHIFTED:
        yield from (f"{name} before", f"{name} behind")
    for reach in REACHES:
        yield from (f"{name} around {reach}" for name in _SPREAD)
    yield from ("page words", "page blocks", "page density", "page prose")
    yield from ("page items", "page articles", "page has h1")
    yield from (f"kind {name}" for name in KINDS)
    yield from ("share of main", "share of article")


NAMES = tuple(_names())
#: The row of each feature in a feature table.
ROWS = {name: number for number, name in enumerate(NAMES)}
_FIRST_KIND = ROWS[f"kind {KINDS[0]}"]


@frozen
class Columns(Mapping[str, Array]):
    """The rows of a feature table by name; few of them are used."""

    #: A row for each of :data:`NAMES`.
    values_by_row: Array

    def __getitem__(self, name: str) -> Array:
        return self.values_by_row[ROWS[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


def table(walk: Walk, kind: Sequence[float]) -> Table:
    """Return the features of all blocks; ``kind`` has the chance of each page kind."""
    nodes, blocks = walk.nodes, walk.blocks
    values, words, *wholes = feature_rows(
        ROWS,
        LEVELS,
        nodes,
        blocks,
        tags=walk.tables.tags_inside,
        kind_rows=walk.tables.kind_rows,
        kind_chances=group_chances(kind),
        bits=_BITS,
        headings=walk.titles,
        articles=nodes.tag.count("article"),
        shifted=_SHIFTED,
        spread=_SPREAD,
        reaches=REACHES,
    )
    values = np.asarray(values)
    values[_FIRST_KIND : _FIRST_KIND + len(KINDS)] = np.array(kind)[:, None]
    return Table(
        Columns(values),
        values,
        np.asarray(words),
        *(np.asarray(each, dtype=np.intp) for each in wholes),
    )


@define
class Forest:
    """A forest of symmetric trees.

    A tree has ``depth`` conditions (column, border) and 2**depth leaves. The first leaf is
    for rows that meet no condition.
    """

    #: The names of the feature columns.
    features: list[str]
    #: The feature of each condition as a number in ``features``, tree after tree.
    columns: Any
    #: The border of each condition; a value above the border meets the condition.
    borders: Any
    #: The values of the leaves, a row for each tree.
    leaves: Any
    #: The number added to the sum of the leaves.
    bias: float
    #: The number of conditions of each tree.
    depth: int
    #: The feature of each condition as a row of a feature table.
    rows: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        own = np.array([ROWS[name] for name in self.features], dtype=np.intp)
        self.rows = own[self.columns]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Forest:
        """Return the forest of a weights file."""
        names, depth = data["features"], data["depth"]
        numbers = {name: number for number, name in enumerate(names)}
        columns = [numbers[c[0]] for tree in data["trees"] for c in tree["if"]]
        borders = [c[1] for tree in data["trees"] for c in tree["if"]]
        return cls(
            names,
            np.array(columns, dtype=np.intp),
            np.array(borders, dtype=np.float32),
            np.array([tree["then"] for tree in data["trees"]]),
            data["bias"],
            depth,
        )

    def score(self, made: Table) -> Any:
        """Return the log odds of each block."""
        sums = tree_sums(made.values, self.rows, self.borders, self.leaves, self.depth)
        return np.asarray(sums) + self.bias


@define
class Model:
    """Everything in the weights file."""

    #: The scores of names, words and pairs of tags.
    tables: Tables
    #: The weights of each sign of a page's kind, in the order of :data:`KINDS`.
    kinds: dict[str, list[float]]
    #: The trees over the features of a block.
    forest: Forest
    #: The factor on the bar of the best expected F1.
    threshold: float
    #: The parts of class names in ``kinds``.
    class_parts: ClassParts = field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self.class_parts = ClassParts.of(self.kinds)

    def chances(self, walk: Walk, kind: Sequence[float]) -> tuple[Any, Table]:
        """Return for each block the probability of main content, and the features."""
        made = table(walk, kind)
        return chance(self.forest.score(made)), made


def chance(score: Any) -> Any:
    """Return the probability for log odds."""
    return 1.0 / (1.0 + np.exp(-np.clip(score, -30.0, 30.0)))


@cache
def model() -> Model:
    """Return the model in the weights file; each process reads it once."""
    data = json.loads(files(__package__).joinpath(WEIGHTS).read_bytes())
    return Model(
        Tables(**data["tables"]),
        data["kinds"],
        Forest.read(data["forest"]),
        data["threshold"],
    )


_IN_CHROME, _IN_HEADER, _IN_SECTION = (
    sum(1 << AROUND.index(name) for name in names.split())
    for names in (
        "nav footer aside dialog consent",
        "header",
        "main article section",
    )
)


@define
class Draft:
    """The draft of a verdict on a page's blocks."""

    #: The nodes and blocks of the page.
    walk: Walk
    #: The features of the blocks.
    made: Table
    #: Per block, the probability of main content.
    chances: Any
    #: The chance from which the model keeps a block.
    bar: float
    #: Per block, True if the block is kept.
    keep: Any
    #: The rule that changed ``keep``, by block number.
    rules: dict[int, str]
    #: The titles that the page declares.
    titles: tuple[str, ...]
    #: The block of the title; -1 if none was found.
    title: int = -1

    def set_keep(self, numbers: Iterable[int], kept: bool, rule: str) -> None:
        """Keep or drop blocks, and record ``rule`` for each changed block."""
        for number in numbers:
            if bool(self.keep[number]) is not kept:
                self.keep[number] = kept
                self.rules[number] = rule

    def kept_blocks(self) -> list[int]:
        """Return the numbers of the kept blocks."""
        found: list[int] = np.flatnonzero(self.keep).tolist()
        return found

    def is_sure(self, start: int, end: int) -> bool:
        """Return True if the mean chance of these blocks reaches :data:`SURE`."""
        weight = self.made.words[start:end] + 1.0
        return bool((self.chances[start:end] * weight).sum() >= SURE * weight.sum())

    def holder(self, block: int) -> tuple[int, int]:
        """Return the range of blocks in the parent of the node of ``block``."""
        around = self.made.parent[self.made.node[block]]
        return int(self.made.start[around]), int(self.made.end[around])


def is_chrome(bits: int) -> bool:
    """Return True if the bits mark navigation, footer, aside, dialog or header."""
    if bits & _IN_CHROME:
        return True
    return bool(bits & _IN_HEADER) and not bits & _IN_SECTION
