"""Structured data of a page, whatever it is written in, as nodes of one form.

JSON-LD, microdata and RDFa Lite become dictionaries with ``@type`` and properties.
"""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING, Any

from attrs import frozen

from scraper_service.content.metadata.linked_data import script_texts, unwrapped
from scraper_service.content.structured_data.sources.marked import microdata, rdfa

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.metadata.evidence import Evidence

MAX_SCRIPTS = 30
MAX_SCRIPT = 1_000_000  # characters
MAX_NODES = 1000
MAX_VALUE = 20_000  # characters
MAX_DEPTH = 8  # of values inside each other

NodeT = dict[str, Any]

_TAG = re.compile(r"<[a-zA-Z/!][^<>]*>")
_BREAK = re.compile(r"<(?:br|/p|/li|/div|/h\d)\b[^<>]*>", re.IGNORECASE)
# What a page is about, best first, by the ending of the type; see ``rank``.
_SUBJECTS = (
    "Product ProductGroup ProductModel Vehicle Car IndividualProduct",
    "Recipe",
    "JobPosting",
    "Event BusinessEvent MusicEvent EducationEvent Festival CourseInstance",
    "QAPage Question DiscussionForumPosting",
    (
        "Movie TVSeries Book MusicAlbum VideoGame SoftwareApplication MobileApplication "
        "WebApplication Course PodcastEpisode PodcastSeries Dataset ApartmentComplex House "
        "RealEstateListing Accommodation EducationalOccupationalProgram Service"
    ),
    (
        "Article NewsArticle BlogPosting TechArticle ScholarlyArticle Report HowTo Review "
        "LiveBlogPosting SocialMediaPosting OpinionNewsArticle APIReference"
    ),
    "VideoObject",
    (
        "LocalBusiness Restaurant Hotel Dentist Physician Store MedicalClinic "
        "HomeAndConstructionBusiness ProfessionalService"
    ),
    "Person",
    "FAQPage",
    "WebPage CollectionPage ItemPage AboutPage ContactPage CreativeWork",
    (
        "Organization Corporation NGO EducationalOrganization NewsMediaOrganization "
        "CollegeOrUniversity OnlineStore"
    ),
    "ItemList",
    "WebSite",
    "BreadcrumbList Breadcrumb ImageObject SearchAction SiteNavigationElement",
)
_RANKS = {name: n for n, names in enumerate(_SUBJECTS) for name in names.split()}
FRAME = frozenset(
    "WebSite BreadcrumbList Breadcrumb ImageObject SearchAction WPHeader WPFooter SiteNavigationElement ListItem".split()
)
MAKERS = frozenset(_SUBJECTS[8].split()) | frozenset(_SUBJECTS[12].split())
_LISTS = frozenset({"ItemList", "BreadcrumbList", "OfferCatalog"})
# Properties whose text is that of a node, best first.
_NAMES = "name @value headline text value title url contentUrl".split()
# Properties that lead to the thing a page is about.
_LEADING = ("@graph", "mainEntity", "mainEntityOfPage", "about", "itemReviewed")


@frozen(eq=False)
class Node:
    """A thing that the page describes: its properties, and how they are written."""

    data: NodeT
    syntax: str  # json-ld, microdata or rdfa
    rank: int
    number: int

    @property
    def type(self) -> str:
        return types_of(self.data)[0] if types_of(self.data) else "Thing"


class Graph:
    """All nodes of a page that stand by themselves, those that it is about first."""

    def __init__(self, evidence: Evidence):
        self.base = evidence.document.base
        self.by_id: dict[str, NodeT] = {}
        found: list[tuple[NodeT, str]] = []
        for data in json_ld(evidence.scripts):
            found += [(node, "json-ld") for node in _standing(data)]
        for item in microdata(evidence.root, self.base):
            found += [(node, "microdata") for node in _standing(item)]
        for item in rdfa(evidence.root, self.base):
            found += [(node, "rdfa") for node in _standing(item)]
        nodes = [
            Node(data, syntax, rank_of(data), number)
            for number, (data, syntax) in enumerate(found[:MAX_NODES])
            if len(data) > 1
        ]
        for node in nodes:
            self._index(node.data, 0)
        self.nodes = sorted(nodes, key=lambda node: (node.rank, node.number))

    def _index(self, value: Any, depth: int) -> None:
        if depth > MAX_DEPTH or len(self.by_id) > MAX_NODES:
            return
        if isinstance(value, list):
            for inner in value[:200]:
                self._index(inner, depth + 1)
        elif isinstance(value, dict):
            name = value.get("@id")
            if isinstance(name, str) and len(value) > len(self.by_id.get(name, ())):
                self.by_id[name] = value
            for inner in value.values():
                if isinstance(inner, (dict, list)):
                    self._index(inner, depth + 1)

    def whole(self, value: Any) -> Any:
        """Return the node that a bare reference names, else ``value``."""
        if isinstance(value, dict) and set(value) <= {"@id", "@type"}:
            return self.by_id.get(str(value.get("@id")), value)
        return value

    def values(self, node: NodeT, path: str) -> list[Any]:
        """Return the values at a path of properties, references followed."""
        found: list[Any] = [node]
        for name in path.split("."):
            below: list[Any] = []
            for holder in map(self.whole, found):
                if isinstance(holder, dict):
                    inner = holder.get(name, holder.get(name.lower()))
                    below += inner if isinstance(inner, list) else [inner]
            found = [self.whole(v) for v in below if v not in (None, "", [])]
        return found


def types_of(node: NodeT) -> list[str]:
    """Return the types of a node, without the address of the vocabulary."""
    kinds = node.get("@type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return [re.split(r"[/#:]", kind)[-1] for kind in kinds if isinstance(kind, str)]


def rank_of(node: NodeT) -> int:
    """Return how likely a page is about this node; the less, the more."""
    return min((_RANKS.get(kind, _guess(kind)) for kind in types_of(node)), default=11)


def _guess(kind: str) -> int:
    for number, names in enumerate(_SUBJECTS):
        if any(kind.endswith(name) for name in names.split()):
            return number
    return 11


def plain(value: Any, depth: int = 0) -> str:
    """Return the text of a value, without markup; empty where it has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return text_of_markup(value[:MAX_VALUE])
    if depth > MAX_DEPTH or not value:
        return ""
    if isinstance(value, list):
        return plain(value[0], depth + 1)
    if not isinstance(value, dict):
        return ""
    texts = (plain(value.get(name), depth + 1) for name in _NAMES)
    return next(filter(None, texts), "")


def text_of_markup(value: str) -> str:
    """Return text without tags and references, its lines kept apart."""
    if "&" in value:
        value = html.unescape(value)
    if "<" in value and _TAG.search(value):
        value = _TAG.sub(" ", _BREAK.sub("\n", value))
        value = html.unescape(value)
    lines = (" ".join(line.split()) for line in value.split("\n"))
    return "\n".join(line for line in lines if line)


# -- JSON-LD -------------------------------------------------------------------------


def json_ld(scripts: list[Any]) -> Iterator[Any]:
    """Yield the data of each JSON-LD script that is JSON, more or less."""
    for text in script_texts(scripts, MAX_SCRIPTS, MAX_SCRIPT):
        for tried in (text, unwrapped(text), html.unescape(text)):
            try:
                yield json.loads(tried, strict=False)
                break
            except (ValueError, RecursionError):
                continue


def _standing(data: Any) -> Iterator[NodeT]:
    """Yield the nodes of a script that are about something themselves."""
    waiting, count = [data], 0
    while waiting and count < MAX_NODES:
        value = waiting.pop(0)
        if isinstance(value, list):
            waiting = value[:MAX_NODES] + waiting
        elif isinstance(value, dict):
            count += 1
            if "@graph" not in value or len(value) > 3:
                yield value
            if not _LISTS & set(types_of(value)):
                waiting += [
                    value[name]
                    for name in _LEADING
                    if isinstance(value.get(name), (dict, list))
                ]
