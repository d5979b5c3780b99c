"""The kind of a page, classified by its declarations, its URL and its structure.

The declarations include a product description that stands only in the page's JSON-LD.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from lxml import etree

from scraper_service.content.metadata.evidence import parse_json
from scraper_service.content.passes import (
    WordTable,
    block_counts,
    name_parts,
    shape_counts,
)
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from scraper_service.content.html.document import Document
    from scraper_service.content.main_content.blocks import Walk

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
    """Insert ``text`` as paragraphs behind the title, unless the page has the text."""
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
        strong = sorted(self.signs, key=lambda pair: -pair[1][best])[:MAX_EVIDENCE]
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
