"""What a sentence asks for, as fields; and the key facts of a page where nobody asks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.fields.concepts import (
    Concept,
    concept_of,
    words_of,
)
from scraper_service.content.structured_data.fields.concepts import (
    singular as singular_of,
)
from scraper_service.content.structured_data.sources.nodes import FRAME
from scraper_service.options.schemas import Field

if TYPE_CHECKING:
    from scraper_service.content.structured_data.page import ExtractionPage

MAX_PROMPT = 2_000  # characters that are read
MAX_FIELDS = 30
MAX_WORDS = 5  # of the name of a field

_LISTS = frozenset("texts words urls images persons proses records".split())
_NUMBERS = frozenset("price rating count number year".split())
_POLITE = r"(?:please|can you|could you|i (?:want|need|would like)(?: you)?(?: to)?|you should)"
_VERBS = (
    r"(?:extract|get|give|find|list|return|collect|show|pull|grab|fetch|scrape|tell|read|"
    r"provide|identify|output|capture|retrieve|what(?: is| are|'s)|who (?:is|are)|"
    r"extrahiere|finde|gib|extrais|trouve|donne|extrae|dame)(?:\s+(?:me|us|mir))?"
)
_PREFIX = re.compile(
    r"^\W*(?:from|on|in|for) (?:this|the|that) (?:\w+ )?(?:page|site|website|article|url)\W+"
    r"(?=\w)",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"^\W*(?:tell|show|give|provide|read|please|can|could|i)\b", re.IGNORECASE
)
_ASKING = re.compile(r"^\W*(?:how|why|when|where|who|which)\b", re.IGNORECASE)
_NO_FIELDS = re.compile(
    r"\b(?:summari[sz]e|explain|describe|translate|write|rewrite|compare|analy[sz]e)\b",
    re.IGNORECASE,
)
_LEAD = re.compile(
    rf"^\W*(?:(?:{_POLITE}\s+)+(?:{_VERBS}\b)?|{_VERBS}\b)[\s:]*", re.IGNORECASE
)
_TAIL = re.compile(
    r"\b(?:from|on|in|of|for) (?:this|the|that) (?:web ?)?(?:page|site|website|article|document|"
    r"url|link|post|product|recipe|event|job|listing|text|shop|store)\b.*$|"
    r"\b(?:from|on|in) this \w+$|\bas json\b.*$|\bin json\b.*$|"
    r"\bif (?:available|present|any|there)\b.*$|\bplease\b",
    re.IGNORECASE,
)
_SPLIT = re.compile(
    r"\s*(?:[,;\n\u2022/]|\band also\b|\bas well as\b|\balong with\b|\btogether with\b|\band\b|\bor\b|"
    r"\bund\b|\bet\b|\by\b|&|\+)\s*",
    re.IGNORECASE,
)
_CLAUSES = re.compile(
    r"\s*(?:[,;]|\band\b)\s+(?=(?:who|what|when|where|how|is it)\b)", re.IGNORECASE
)
_ARTICLES = re.compile(
    r"^(?:(?:the|a|an|all|any|each|every|its|their|of|list of|full|complete|main|both|der|die|das|le|"
    r"la|les|el|los|las|also|then|with|name of the|which|per)\s+)+",
    re.IGNORECASE,
)
_EACH = r"(?:each|every|all|aller|jede[rs])\b(?:\s+of)?(?:\s+the)?"
_THINGS = r"[\w-]+(?: [\w-]+){0,3}?"
_FOR_EACH = re.compile(  # "for each product: name, price"
    rf"^(?:for|from|of)\s+{_EACH}\s+(?P<things>{_THINGS})"
    rf"(?:\s*[:,]\s*|\s+(?=(?:the|its|their|{_VERBS})\b))(?P<fields>.+)$",
    re.IGNORECASE,
)
_WITH_EACH = re.compile(  # "all products with their name and price"
    rf"^(?:the |a |an )?(?:list of |table of )?(?:all |every |each )?(?:the )?(?P<things>{_THINGS})"
    r"\s*(?:,|:)?\s*(?:with|including|and for each|incl\.?)\s+"
    r"(?:their |its |the |each )?(?P<fields>.+)$",
    re.IGNORECASE,
)
_CALLED = re.compile(  # "products: name, price", "products (name, price)"
    r"^(?:(?:the|all|these|following)\s+)*(?P<things>(?:\w+ )?\w+)\s*[:(]\s*(?P<fields>[^()]+?)\)?$",
    re.IGNORECASE,
)
_ALL = re.compile(  # "all product names and prices"
    r"^(?P<things>[a-z]+) (?P<fields>[a-z]+s(?:\s*(?:,|and|&)\s*(?:the )?[a-z]+s?)*)$",
    re.IGNORECASE,
)
_OF = re.compile(
    r"\s+(?:(?:(?P<of>of)|for|from|von|de|(?P<the>des|der|del|du))\s+|"
    r"(?=(?:aller|jede[rs])\s))",
    re.IGNORECASE,
)
_OWNED = re.compile(r"^(?P<things>[^,;:]{3,40}?)['\u2019]s? (?P<fields>.+)$")
_DETERMINED = re.compile(
    rf"^(?:(?P<each>{_EACH})|(?P<the>the|a|an|this|that|these|those|its)\b)?\s*(?P<name>.*)$",
    re.IGNORECASE,
)
_COST = re.compile(
    r"\b(?:(?:what|how much) (?:do|does|did|will|would)\s+(?P<things>.+?)\s+costs?\b|"
    r"(?:was|wie ?viel) kostet\s+(?P<kostet>.+))",
    re.IGNORECASE,
)
_PRONOUNS = frozenset("it they this that one es das".split())
_NAMES = frozenset("name names title titles".split())
_COUNTS = frozenset("number count total amount rate no position index".split())
_FIELD_WORDS = frozenset(
    "fields values data details facts properties attributes columns keys following info "
    "information".split()
)
_QUESTIONS = (
    (
        re.compile(
            r"\bwho (?:wrote|is the author|created|posted|authored)\b", re.IGNORECASE
        ),
        "author",
    ),
    (
        re.compile(r"\bwhen\b.*\b(?:publish|post|releas|writ)", re.IGNORECASE),
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


def fields_of(prompt: str) -> tuple[Field, ...]:
    """Return the fields that a sentence names, in its order; none if it names none."""
    found: dict[str, Field] = {}
    text = " ".join(prompt[:MAX_PROMPT].split())
    for sentence in re.split(r"(?<=[.?!])\s+|\n", text):
        for clause in _CLAUSES.split(sentence.strip(" .?!")):
            for made in _of_sentence(clause):
                found.setdefault(made.name, made)
    return tuple(found.values())[:MAX_FIELDS]


def _of_sentence(sentence: str) -> list[Field]:
    if match := _COST.search(sentence):
        things = (match["things"] or match["kostet"]).lower()
        is_many = match["things"] is not None
        found = _of_things("price", things, is_one=True, is_many=is_many)
        return found if things not in _PRONOUNS else _fields(["price"])
    fields = [_field(name) for pattern, name in _QUESTIONS if pattern.search(sentence)]
    if match := _HOW_MANY.search(sentence):
        fields.append(Field(name=f"{match[1].lower()}_count", kind="integer"))
    if fields:
        return [made for made in fields if made is not None]
    sentence = _PREFIX.sub("", sentence)
    if _NO_FIELDS.match(sentence):
        return []
    asked = _TAIL.sub("", _LEAD.sub("", sentence)).strip(" .:")
    if found := _each_of(asked) or _of(asked):
        return found
    parts = _parts(asked)
    known = _fields(parts)
    # A sentence that names nothing known, and does not ask for it, is no list of fields.
    is_list = (
        (_LEAD.match(sentence) and not _WEAK.match(sentence))
        or any(map(_is_known, parts))
        or (len(known) == len(parts) and not _ASKING.match(sentence))
    )
    return known if is_list else []


def _each_of(asked: str) -> list[Field]:
    """Return the list that a text asks for, in one of the forms that name its things."""
    for pattern in (_FOR_EACH, _WITH_EACH):
        if match := pattern.match(asked):
            return _each(match["things"], _LEAD.sub("", match["fields"]))
    match = _CALLED.match(asked)
    last = match["things"].lower().rpartition(" ")[2] if match else ""
    if match and (last in _FIELD_WORDS or not _is_known(match["things"])):
        if last in _FIELD_WORDS or not _is_plural(last):
            return _fields(_parts(match["fields"]))
        return _each(match["things"], match["fields"])
    is_all = re.match(_EACH, asked, re.IGNORECASE) is not None
    bare = _ARTICLES.sub("", asked)
    if sum(map(_is_plural, fields := _parts(bare))) > 1 and all(map(_is_known, fields)):
        return _each("items", bare)
    if match := _ALL.match(bare):
        plural = [_is_known(f) and _is_plural(f) for f in _parts(match["fields"])]
        if plural[0] and (is_all or sum(plural) > 1) and not _is_known(match["things"]):
            return _each(match["things"], match["fields"])
    return []


def _of(asked: str) -> list[Field]:
    """Return fields of things: "name and price of backpacks", "the tent's price"."""
    if match := _OWNED.match(asked):
        return _of_things(match["fields"], match["things"], is_one=True, is_many=True)
    parts = _parts(asked)
    if not parts or _is_known(parts[-1]):
        return []
    for match in [*_OF.finditer(asked)][: -MAX_WORDS - 1 : -1]:
        things = asked[match.end() :]
        if _SPLIT.search(things):
            break
        found = _of_things(
            asked[: match.start()],
            things,
            is_one=match["the"] is not None,
            is_many=match["of"] is not None,
        )
        if found:
            return found
    return []


def _of_things(fields: str, things: str, *, is_one: bool, is_many: bool) -> list[Field]:
    """Return a list for several things, the fields alone for one; else nothing.

    A name without an article is that of things if ``is_many`` and it is a plural, and
    that of one thing if ``is_one``.
    """
    match = _DETERMINED.match(things)
    assert match is not None
    parts, name = _parts(fields), match["name"]
    if not parts or not name or parts[-1].lower() in _COUNTS:
        return []
    if {part.lower() for part in parts} <= _NAMES and _is_named(name):
        return _fields([name])  # of the authors
    if match["each"]:
        return _each(name, fields)
    if not _is_known(parts[-1]):
        return []
    has_article = match["the"] is not None
    if _is_plural(name) and (has_article or is_many):
        return _each(name, fields)
    if _is_named(name, "person"):
        parts = [name if part.lower() in _NAMES else part for part in parts]
    return _fields(parts) if has_article or is_one else []


def _each(things: str, fields: str) -> list[Field]:
    """Return a list of things with fields of each."""
    words = words_of(things)
    below = _fields(_parts(fields), single=True)
    if not words or not below:
        return []
    if singular_of(words[-1]) == words[-1]:
        last = words[-1][:-1] + "ies" if words[-1].endswith("y") else words[-1] + "s"
        words = (*words[:-1], last)
    item = Field(kind="object", properties=tuple({f.name: f for f in below}.values()))
    return [Field(name="_".join(words), kind="array", items=item)]


def _parts(text: str) -> list[str]:
    """Return the parts of a list of names, without their articles."""
    parts = (
        _ARTICLES.sub("", part.strip()).strip(" .:'\"") for part in _SPLIT.split(text)
    )
    return [part for part in parts if part]


def _fields(parts: list[str], *, single: bool = False) -> list[Field]:
    made = (_field(part, single=single) for part in parts)
    return [field for field in made if field is not None]


def _is_known(text: str) -> bool:
    return concept_of(" ".join(words_of(text)), "string") is not None


def _is_named(text: str, *shapes: str) -> bool:
    """Tell whether a name of a thing is what a field of its name asks for: an author."""
    concept = concept_of(" ".join(words_of(text)), "string")
    named = shapes or ("person", "persons", "name")
    return concept is not None and concept.shape in named


def _is_plural(text: str) -> bool:
    """Tell whether a text is the plural of a name, and no name of one thing itself."""
    words = words_of(text)
    if not words or singular_of(words[-1]) == words[-1]:
        return False
    concept = concept_of(" ".join(words), "string")
    return concept is None or " ".join(words) not in concept.words


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


def key_facts(page: ExtractionPage) -> tuple[Field, ...]:
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
