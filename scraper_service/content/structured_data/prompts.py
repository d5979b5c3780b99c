"""The fields that an English prompt names, and the key facts of a page without one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.structured_data.nodes import FRAME, PRODUCT
from scraper_service.content.structured_data.requested_fields import (
    Concept,
    concept_of,
    phrase_of,
    singular,
    words_of,
)
from scraper_service.options.json_schema import Field

if TYPE_CHECKING:
    from scraper_service.content.structured_data.page import ExtractionPage

MAX_PROMPT = 2_000  # characters of a prompt that are read
MAX_FIELDS = 30
MAX_WORDS = 5  # words in the name of a field

_NUMBERS = frozenset("price rating count number year".split())


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_POLITE = r"(?:please|can you|could you|i (?:want|need|would like)(?: you)?(?: to)?|you should)"
_VERBS = (
    r"(?:extract|get|give|find|list|return|collect|show|pull|grab|fetch|scrape|tell|read|"
    r"provide|identify|output|capture|retrieve|what(?: is| are|'s)|who (?:is|are))"
    r"(?:\s+(?:me|us))?"
)
_PAGE = r"(?:page|site|website|article|document|url|link|post|product|recipe|event|job|listing|text|shop|store)"
_PREFIX = _pattern(
    rf"^\W*(?:from|on|in|for) (?:this|the|that) (?:\w+ )?{_PAGE}\W+(?=\w)"
)
_WEAK = _pattern(r"^\W*(?:tell|show|give|provide|read|please|can|could|i)\b")
_QUESTION_WORD = _pattern(r"^\W*(?:how|why|when|where|who|which)\b")
_NO_FIELDS = _pattern(
    r"\b(?:summari[sz]e|explain|describe|translate|write|rewrite|compare|analy[sz]e)\b"
)
_LEAD = _pattern(rf"^\W*(?:(?:{_POLITE}\s+)+(?:{_VERBS}\b)?|{_VERBS}\b)[\s:]*")
_TAIL = _pattern(
    rf"\b(?:from|on|in|of|for) (?:this|the|that) (?:web ?)?{_PAGE}\b.*$|"
    r"\b(?:from|on|in) this \w+$|\b(?:as|in) json\b.*$|"
    r"\bif (?:available|present|any|there)\b.*$|\bplease\b"
)
_SPLIT = _pattern(
    r"\s*(?:[,;\n\u2022/&+]|\b(?:and also|as well as|along with|together with|and|or)\b)\s*"
)
_CLAUSES = _pattern(r"\s*(?:[,;]|\band\b)\s+(?=(?:who|what|when|where|how|is it)\b)")
_ARTICLES = _pattern(
    r"^(?:(?:the|a|an|all|any|each|every|its|their|of|list of|full|complete|main|both|also|then|"
    r"with|name of the|which|per)\s+)+"
)
_EACH = r"(?:each|every|all)\b(?:\s+of)?(?:\s+the)?"
_THINGS = r"(?P<things>[\w-]+(?: [\w-]+){0,3}?)"
_OF_ITEMS = (
    _pattern(  # "for each product: name, price"
        rf"^(?:for|from|of)\s+{_EACH}\s+{_THINGS}"
        rf"(?:\s*[:,]\s*|\s+(?=(?:the|its|their|{_VERBS})\b))(?P<fields>.+)$"
    ),
    _pattern(  # "all products with their name and price"
        rf"^(?:the |a |an )?(?:(?:list |table )?of )?(?:all |every |each )?(?:the )?{_THINGS}"
        r"\s*(?:,|:)?\s*(?:with|including|and for each)\s+(?P<fields>.+)$"
    ),
)
_CALLED = _pattern(  # "products: name, price", "products (name, price)"
    r"^(?:(?:the|all|these|following|(?:an? list )?of)\s+)*(?P<things>(?:\w+ )?\w+)\s*[:(]\s*(?P<fields>[^()]+?)\)?$"
)
_ALL = _pattern(  # "all product names and prices"
    r"^(?P<things>[a-z]+) (?P<fields>[a-z]+s(?:(?:\s*[,&]\s*|\s+and\s+)(?:the )?[a-z]+)*)$"
)
_OF = _pattern(r"\s+(?:(?P<of>of)|for|from)\s+")
_OWNED = _pattern(r"^(?P<things>[^,;:]{3,40}?)['\u2019]s? (?P<fields>.+)$")
_DETERMINED = _pattern(
    rf"^(?:(?P<each>{_EACH})|(?P<the>the|a|an|this|that|these|those|its)\b)?\s*(?P<name>.*)$"
)
_COST = _pattern(
    r"\b(?:what|how much) (?:do|does|did|will|would)\s+(?P<things>.+?)\s+costs?\b"
)
_PRONOUNS = frozenset("it they this that one".split())
_NAMES = frozenset("name names title titles".split())
_NAMED = frozenset({"person", "persons", "name"})  # shapes of things with a name
_COUNTS = frozenset("number count total amount rate no position index".split())
_FIELD_WORDS = frozenset(
    "fields values data details facts properties attributes columns keys following info "
    "information".split()
)
_QUESTIONS = {
    "author": _pattern(r"\bwho (?:wrote|is the author|created|posted|authored)\b"),
    "published_date": _pattern(r"\bwhen\b.*\b(?:publish|post|releas|writ)"),
    "start_date": _pattern(
        r"\bwhen (?:does|is|will)\b.*\b(?:start|begin|take place|happen)"
    ),
    "price": _pattern(r"\bhow (?:much|expensive)\b"),
    "in_stock": _pattern(
        r"\b(?:in stock|available to (?:buy|order)|is it available)\b"
    ),
    "location": _pattern(r"\bwhere (?:is|does|are)\b"),
}
_HOW_MANY = _pattern(r"\bhow many ([a-z]+)\b")
# Key facts of a page by the rank of its subject.
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
    """Return the fields that a prompt names, in its order.

    The result is empty if the prompt names no fields.
    """
    found: dict[str, Field] = {}
    text = " ".join(prompt[:MAX_PROMPT].split())
    for sentence in re.split(r"(?<=[.?!])\s+", text):
        for clause in _CLAUSES.split(sentence.strip(" .?!")):
            for made in _fields_of_sentence(clause):
                found.setdefault(made.name, made)
    return tuple(found.values())[:MAX_FIELDS]


def _fields_of_sentence(sentence: str) -> list[Field]:
    if match := _COST.search(sentence):
        things = match["things"].lower()
        found = _fields_of_things("price", things, is_one=True, is_many=True)
        return found if things not in _PRONOUNS else _fields(["price"])
    names = [name for name, pattern in _QUESTIONS.items() if pattern.search(sentence)]
    if match := _HOW_MANY.search(sentence):
        count = Field(name=f"{match[1].lower()}_count", kind="integer")
        return [count, *_fields(names)]
    sentence = _PREFIX.sub("", sentence)
    if names or _NO_FIELDS.match(sentence):
        return _fields(names)
    request = _TAIL.sub("", _LEAD.sub("", sentence)).strip(" .:")
    if found := _fields_of_each(request) or _fields_of_owner(request):
        return found
    parts = _parts(request)
    known = _fields(parts)
    # A sentence lists fields if it starts with a verb such as "extract" or names a
    # known field. Otherwise all its parts must be short, and it must be no question.
    is_list = (
        (_LEAD.match(sentence) and not _WEAK.match(sentence))
        or any(map(_concept, parts))
        or (len(known) == len(parts) and not _QUESTION_WORD.match(sentence))
    )
    return known if is_list else []


def _fields_of_each(request: str) -> list[Field]:
    """Return the list that a request names together with the fields of its items."""
    for pattern in _OF_ITEMS:
        if match := pattern.match(request):
            return _list_field(match["things"], _LEAD.sub("", match["fields"]))
    match = _CALLED.match(request)
    last = match["things"].lower().rpartition(" ")[2] if match else ""
    if match and _are_records(match["things"], _parts(match["fields"])):
        return _list_field(match["things"], match["fields"])
    if match and (last in _FIELD_WORDS or not _concept(match["things"])):
        if last in _FIELD_WORDS or not _is_plural(last):
            return _fields(_parts(match["fields"]))
        return _list_field(match["things"], match["fields"])
    is_all = re.match(_EACH, request, re.IGNORECASE) is not None
    bare = _ARTICLES.sub("", request)
    if sum(map(_is_plural, fields := _parts(bare))) > 1 and all(map(_concept, fields)):
        return _list_field("items", bare)
    if (match := _ALL.match(bare)) and not _concept(match["things"]):
        plural = [bool(_concept(f)) and _is_plural(f) for f in _parts(match["fields"])]
        if plural[0] and (is_all or sum(plural) > 1):
            return _list_field(match["things"], match["fields"])
    return []


def _fields_of_owner(request: str) -> list[Field]:
    """Return the fields of named things, such as "the tent's price"."""
    if match := _OWNED.match(request):
        fields, things = match["fields"], match["things"]
        return _fields_of_things(fields, things, is_one=True, is_many=True)
    parts = _parts(request)
    if not parts or _concept(parts[-1]):
        return []
    for match in [*_OF.finditer(request)][: -MAX_WORDS - 1 : -1]:
        fields, things = request[: match.start()], request[match.end() :]
        if _SPLIT.search(things):
            break
        is_many = match["of"] is not None
        if found := _fields_of_things(fields, things, is_one=False, is_many=is_many):
            return found
    return []


def _fields_of_things(
    fields: str, things: str, *, is_one: bool, is_many: bool
) -> list[Field]:
    """Return a list field for several things, or the plain fields of a single thing.

    The result is empty if the text names no fields of things. A name without an article
    means several things if ``is_many`` and it is a plural. It means a single thing if
    ``is_one``.
    """
    match = _DETERMINED.match(things)
    assert match is not None
    parts, name = _parts(fields), match["name"]
    if not parts or not name or parts[-1].lower() in _COUNTS:
        return []
    concept = _concept(name)
    shape = concept.shape if concept else ""
    if _NAMES.issuperset(map(str.lower, parts)) and shape in _NAMED:
        return _fields([name])  # "names of the authors"
    if match["each"]:
        return _list_field(name, fields)
    if not _concept(parts[-1]):
        return []
    has_article = match["the"] is not None
    if (_is_plural(name) or _are_records(name, parts)) and (has_article or is_many):
        return _list_field(name, fields)
    if shape == "person":
        parts = [name if part.lower() in _NAMES else part for part in parts]
    return _fields(parts) if has_article or is_one else []


def _list_field(things: str, fields: str) -> list[Field]:
    words = words_of(things)
    below = {made.name: made for made in _fields(_parts(fields), single=True)}
    if not words or not below:
        return []
    *before, last = words
    if singular(last) == last:
        last = last[:-1] + "ies" if last.endswith("y") else last + "s"
    item = Field(kind="object", properties=tuple(below.values()))
    return [Field(name="_".join((*before, last)), kind="array", items=item)]


def _parts(text: str) -> list[str]:
    parts = (_ARTICLES.sub("", part.strip()) for part in _SPLIT.split(text))
    return [bare for part in parts if (bare := part.strip(" .:'\""))]


def _fields(parts: list[str], *, single: bool = False) -> list[Field]:
    """Return the fields that a few words each name; ``single`` makes no lists."""
    made = []
    for words in map(words_of, parts):
        if not 0 < len(words) <= MAX_WORDS:
            continue
        *before, last = words
        phrase = " ".join((*before, singular(last) if single else last))
        made.append(Field(name=phrase.replace(" ", "_"), **_type(phrase, single)))
    return made


def _type(phrase: str, single: bool) -> dict[str, Any]:
    """Return the type of a field by its name; ``single`` excludes lists."""
    kinds = ("number", "boolean", "array", "string")
    shapes = {k: found.shape for k in kinds if (found := concept_of(phrase, k))}
    if shapes.get("number") in _NUMBERS:
        return {"kind": "number"}
    if "boolean" in shapes:
        return {"kind": "boolean"}
    if shapes.get("array", "records") != "records" and not single:
        return {"kind": "array", "items": Field(kind="string")}
    is_link = shapes.get("string") in {"url", "image"}
    return {"kind": "string", "format": "uri"} if is_link else {"kind": "string"}


def _concept(text: str) -> Concept | None:
    return concept_of(phrase_of(text), "string")


def _is_plural(text: str) -> bool:
    """Return True if a text is a plural that is no phrase of its concept."""
    phrase = phrase_of(text)
    last = phrase.rpartition(" ")[2]
    concept = _concept(text)
    return singular(last) != last and (concept is None or phrase not in concept.words)


def _are_records(text: str, fields: list[str]) -> bool:
    """Return True for things that are counted as well, such as posts, with several fields."""
    concept = _concept(text)
    return (
        concept is not None
        and concept.shape in {"count", "records"}
        and singular(text.lower()) != text.lower()
        and len(fields) > 1
        and _COUNTS.isdisjoint(map(str.lower, fields))
    )


def key_facts(page: ExtractionPage) -> tuple[Field, ...]:
    """Return the fields for the key facts of a page, by the page's kind."""
    nodes = [n for n in page.graph.nodes if n.type not in FRAME]
    same = [n for n in nodes if n.type == nodes[0].type]
    names = _FACTS.get(nodes[0].rank, "") if 0 < len(same) < 3 else ""
    if not names and page.evidence.first("og:type").startswith("product"):
        names = _FACTS[PRODUCT]
    every = dict.fromkeys([*names.split(), *_ALWAYS.split()])
    unfit = {"title"} if "name" in every else set()
    if names == _FACTS[PRODUCT]:
        unfit |= {"author", "published_date", "modified_date"}
    return tuple(_fields([n.replace("_", " ") for n in every if n not in unfit]))
