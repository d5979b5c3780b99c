"""What a sentence asks for, as fields; and the key facts of a page where nobody asks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.formats.extraction.fields.concepts import (
    Concept,
    concept_of,
    words_of,
)
from scraper_service.formats.extraction.fields.concepts import singular as singular_of
from scraper_service.formats.extraction.sources.nodes import FRAME
from scraper_service.options.schemas import Field

if TYPE_CHECKING:
    from scraper_service.formats.extraction.page import ExtractionPage

MAX_PROMPT = 2_000  # characters that are read
MAX_FIELDS = 30
MAX_WORDS = 5  # of the name of a field

_LISTS = frozenset("texts words urls images persons proses records".split())
_NUMBERS = frozenset("price rating count number year".split())
_VERBS = (
    r"(?:(?:please|can you|could you|i (?:want|need|would like)(?: you)?(?: to)?|you should)\s+)*"
    r"(?:extract|get|give(?: me)?|find|list|return|collect|show(?: me)?|pull|grab|fetch|scrape|"
    r"tell me|read|provide|identify|output|capture|retrieve|what(?: is| are|'s)|who (?:is|are)|"
    r"extrahiere|finde|gib(?: mir)?|extrais|trouve|donne|extrae|dame)\b"
)
_PREFIX = re.compile(
    r"^\W*(?:from|on|in|for) (?:this|the|that) (?:\w+ )?(?:page|site|website|article|url)\W+"
    r"(?=\w)",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"^\W*(?:tell|show|give|provide|read|please|can|could)\b", re.IGNORECASE
)
_NO_FIELDS = re.compile(
    r"\b(?:summari[sz]e|explain|describe|translate|write|rewrite|compare|analy[sz]e)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(rf"^\W*{_VERBS}[\s:]*", re.IGNORECASE)
_TAIL = re.compile(
    r"\b(?:from|on|in|of|for) (?:this|the|that) (?:web ?)?(?:page|site|website|article|document|"
    r"url|link|post|product|recipe|event|job|listing|text)\b.*$|\bas json\b.*$|\bin json\b.*$|"
    r"\bif (?:available|present|any|there)\b.*$|\bplease\b",
    re.IGNORECASE,
)
_SPLIT = re.compile(
    r"\s*(?:[,;\n\u2022]|\band also\b|\bas well as\b|\balong with\b|\btogether with\b|\band\b|\bor\b|"
    r"\bund\b|\bet\b|\by\b|&|\+)\s*",
    re.IGNORECASE,
)
_ARTICLES = re.compile(
    r"^(?:(?:the|a|an|all|any|each|every|its|their|of|list of|full|complete|main|both|der|die|das|le|"
    r"la|les|el|los|las|also|then|page's|product's|article's|with|name of the|which|per)\s+)+",
    re.IGNORECASE,
)
# "the name and price of all products", "all products with their name and price"
_OF_EACH = re.compile(
    r"^(?P<fields>.+?)\s+(?:of|for|from)\s+(?:each|every|all(?: (?:of )?the)?|all)\s+(?P<things>[\w -]{3,40}?)$",
    re.IGNORECASE,
)
_WITH_EACH = re.compile(
    r"^(?:the |a |an )?(?:list of )?(?:all |every |each )?(?:the )?(?P<things>[\w-]+(?: [\w-]+){0,2}?)\s*(?:,|:)?\s*"
    r"(?:with|including|and for each|incl\.?)\s+(?:their |its |the |each )?(?P<fields>.+)$",
    re.IGNORECASE,
)
# "all product names and prices"
_ALL = re.compile(
    r"^(?:the |a )?(?:list of )?(?:all|every)(?: the)? (?P<things>[a-z]+) "
    r"(?P<fields>[a-z]+s(?:\s*(?:,|and|&)\s*(?:the )?[a-z]+s?)*)$",
    re.IGNORECASE,
)
_QUESTIONS = (
    (
        re.compile(
            r"\bwho (?:wrote|is the author|created|posted|authored)\b", re.IGNORECASE
        ),
        "author",
    ),
    (
        re.compile(
            r"\bwhen (?:was|is|did)\b.*\b(?:publish|post|releas|writ)", re.IGNORECASE
        ),
        "published_date",
    ),
    (
        re.compile(
            r"\bwhen (?:does|is|will)\b.*\b(?:start|begin|take place|happen)",
            re.IGNORECASE,
        ),
        "start_date",
    ),
    (re.compile(r"\bhow (?:much|expensive)\b", re.IGNORECASE), "price"),
    (
        re.compile(
            r"\b(?:in stock|available to (?:buy|order)|is it available)\b",
            re.IGNORECASE,
        ),
        "in_stock",
    ),
    (re.compile(r"\bwhere (?:is|does|are)\b", re.IGNORECASE), "location"),
)
_HOW_MANY = re.compile(r"\bhow many ([a-z]+)\b", re.IGNORECASE)
# The facts that a page of a kind is asked for most, by the rank of what it is about.
_FACTS = {
    0: "name price currency availability brand sku rating review_count description image",
    1: "name author ingredients instructions prep_time cook_time total_time yield calories rating",
    2: "title company location salary employment_type date_posted description",
    3: "name start_date end_date venue address organizer price description",
    4: "title author published_date description answer_count",
    8: "name description phone email address opening_hours rating review_count",
    12: "name description phone email address social_links",
}
_ALWAYS = (
    "title description author published_date modified_date language site_name image url"
)


def field_of_prompt(page: ExtractionPage, prompt: str | None) -> Field:
    """Return the fields that a prompt names; without any, the key facts of the page."""
    fields = fields_of(prompt or "")
    return Field(kind="object", properties=fields or _key_facts(page))


def fields_of(prompt: str) -> tuple[Field, ...]:
    """Return the fields that a sentence names, in its order; none if it names none."""
    found: dict[str, Field] = {}
    text = " ".join(prompt[:MAX_PROMPT].split())
    for sentence in re.split(r"(?<=[.?!])\s+|\n", text):
        for made in _of_sentence(sentence.strip(" .?!")):
            found.setdefault(made.name, made)
    return tuple(found.values())[:MAX_FIELDS]


def _of_sentence(sentence: str) -> list[Field]:
    fields = [_field(name) for pattern, name in _QUESTIONS if pattern.search(sentence)]
    if match := _HOW_MANY.search(sentence):
        fields.append(Field(name=f"{match[1].lower()}_count", kind="integer"))
    if fields:
        return [made for made in fields if made is not None]
    sentence = _PREFIX.sub("", sentence)
    if _NO_FIELDS.match(sentence):
        return []
    asked = _TAIL.sub("", _LEAD.sub("", sentence)).strip(" .:")
    is_led = _LEAD.match(sentence) is not None
    for pattern in (_OF_EACH, _WITH_EACH, _ALL):
        if (match := pattern.match(asked)) and (
            made := _each(match["things"], match["fields"])
        ):
            return [made]
    parts = [
        _ARTICLES.sub("", part.strip()).strip(" .:'\"") for part in _SPLIT.split(asked)
    ]
    known = [f for part in parts if part and (f := _field(part)) is not None]
    # A sentence that names nothing known, and does not ask for it, is no list of fields.
    is_led = is_led and (bool(parts) and not _WEAK.match(sentence))
    is_list = (
        is_led
        or any(concept_of(f.name.replace("_", " "), f.kind) for f in known)
        or (known and len(known) == len([p for p in parts if p]))
    )
    return known if is_list else []


def _each(things: str, fields: str) -> Field | None:
    """Return a list of things with fields of each."""
    words = words_of(things)
    if not words:
        return None
    if singular_of(words[-1]) == words[-1]:
        last = words[-1][:-1] + "ies" if words[-1].endswith("y") else words[-1] + "s"
        words = (*words[:-1], last)
    parts = [_ARTICLES.sub("", part.strip()) for part in _SPLIT.split(fields)]
    below = [made for part in parts if part and (made := _field(part, single=True))]
    if not below:
        return None
    item = Field(kind="object", properties=tuple({f.name: f for f in below}.values()))
    return Field(name="_".join(words), kind="array", items=item)


def _field(text: str, *, single: bool = False) -> Field | None:
    """Return the field that a few words name, None if they name none."""
    words = words_of(text)
    if not 0 < len(words) <= MAX_WORDS:
        return None
    name = "_".join(words)
    phrase = " ".join(words)
    if single and singular_of(words[-1]) != words[-1]:
        phrase = " ".join((*words[:-1], singular_of(words[-1])))
        name = phrase.replace(" ", "_")
    concept = next(
        (
            c
            for kind in ("number", "boolean", "array", "string")
            if (c := concept_of(phrase, kind)) and _is_of(c, kind)
        ),
        None,
    )
    if concept is None:
        concept = concept_of(phrase, "string")
    return Field(name=name, **_kind(concept, single=single))


def _is_of(concept: Concept, kind: str) -> bool:
    shapes = {"number": _NUMBERS, "boolean": {"stock", "flag"}, "array": _LISTS}
    return concept.shape in shapes.get(kind, ())


def _kind(concept: Concept | None, *, single: bool) -> dict[str, Any]:
    if concept is None:
        return {"kind": "string"}
    if concept.shape in _LISTS and concept.shape != "records" and not single:
        return {"kind": "array", "items": Field(kind="string")}
    if concept.shape in _NUMBERS:
        return {"kind": "number"}
    if concept.shape in {"stock", "flag"}:
        return {"kind": "boolean"}
    return (
        {"kind": "string", "format": "uri"}
        if concept.shape in {"url", "image"}
        else {"kind": "string"}
    )


def _key_facts(page: ExtractionPage) -> tuple[Field, ...]:
    """Return what a page of this kind is asked for most."""
    nodes = [n for n in page.graph.nodes if n.type not in FRAME]
    first = nodes[0] if nodes else None
    same = sum(1 for n in nodes if first is not None and n.type == first.type)
    names = _FACTS.get(first.rank, "") if first is not None and same < 3 else ""
    if not names and page.evidence.first("og:type").startswith("product"):
        names = _FACTS[0]
    every = dict.fromkeys([*names.split(), *_ALWAYS.split()])
    if "name" in every:
        every.pop("title")
    if first is not None and first.rank == 0:
        for name in ("author", "published_date", "modified_date"):
            every.pop(name, None)
    return tuple(made for name in every if (made := _field(name.replace("_", " "))))
