"""The meaning of a requested field, from its name, description, type and format."""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

from scraper_service.content.structured_data.vocabulary import (
    BY_NAME,
    CURRENCIES,
    UNITS,
    Concept,
    concept_of,
    phrase_of,
    singular,
    words_of,
)
from scraper_service.options.json_schema import Field

# Things that a field may belong to; they are no part of its meaning.
SUBJECTS = frozenset(
    "product article item page post job event recipe company book movie film thread listing "
    "blog story news document entry record paper hotel restaurant program programme business "
    "app game topic house property vacancy main full primary list site shop store current "
    "displayed exact visible question course organization organisation institution "
    "repository package song album person profile conference discussion message".split()
)
_FILLERS = frozenset(
    "str string value text information info data field usd eur gbp chf in on at the a an raw "
    "dollars euros euro pounds cents array all of iso formatted per each any found shown as minutes "
    "hours seconds mins available".split()
)
_MEASURES = frozenset(
    "score count number total num of amount rating value quantity supported reached".split()
)
_NUMBERS = frozenset({"integer", "number"})
_TIMES = frozenset("seconds minutes mins hours".split())
_LENGTHS = frozenset("height width depth length diameter thickness".split())
_CODES = frozenset("id identifier number no code".split())
LINK_FORMATS = frozenset({"uri", "url", "uri-reference", "iri"})
_FORMATS = {
    "date": "published",
    "date-time": "published",
    "email": "email",
    "idn-email": "email",
    "duration": "duration",
    "phone": "phone",
}
_COUNT_OF = re.compile(
    r"^(?:num|number|count|total number|total|amount|no|nb)(?: of)?(?: the)? (?P<things>.+)$"
)
_COUNT = re.compile(r"^(?P<things>.+) (?:counts?|total|number)$")
_TITLE = re.compile(r"^(?:title|name|headline|heading)(?: of (?:the |a |an )?.+)?$")
_STOP = frozenset(
    "the a an of for to in on and or is are was were be been this that it its with from by as at "
    "which what who whose when where how they we you your our their has have had will can all "
    "per each one some any only not if shown given listed mentioned e g i eg ie etc page".split()
)
_SHAPES = {
    "integer": "number",
    "number": "number",
    "boolean": "flag",
    "array": "texts",
    "object": "pairs",
}


@frozen(eq=False)
class RequestedField:
    """A field of a schema with its meaning."""

    #: The field of the schema.
    field: Field
    #: Phrases that a label of the field may have, the field's own phrases first.
    phrases: tuple[str, ...]
    #: Number of the field's own phrases at the start of ``phrases``.
    own_count: int
    #: The concept of the vocabulary, None for an unknown name.
    concept: Concept | None
    #: How a value is written, such as ``price`` or ``date``.
    shape: str
    #: Words for the counted things, if the field is a count.
    counted: tuple[str, ...] = ()
    #: True for a name such as ``recipe`` that may stand for the thing's title.
    is_subject: bool = False
    #: The unit or currency at the end of the name, as in ``height_cm``, or empty.
    unit: str = ""

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def own_phrases(self) -> tuple[str, ...]:
        return self.phrases[: self.own_count]

    @property
    def concept_name(self) -> str:
        """The name of the concept, empty without a concept."""
        return self.concept.name if self.concept else ""

    @property
    def content_words(self) -> frozenset[str]:
        """Words of name and description without stop words, in the singular."""
        return content_words_of(phrase_of(f"{self.name} {self.field.description}"))


@lru_cache(maxsize=1024)
def interpret_field(field: Field, around: str = "") -> RequestedField:
    """Return a field with its meaning.

    ``around`` is the name of the object that holds the field.
    """
    name, description = phrase_of(field.name), phrase_of(field.description)
    kind = field.kind or "string"
    subjects = SUBJECTS | {singular(word) for word in words_of(around)}
    unit = _unit_of(name, kind)
    bare_name = _without_subject(name.rpartition(" ")[0] if unit else name, subjects)
    concept = _concept_by_name(name, bare_name, kind)
    counted = _counted_words(name, description, kind, is_known=concept is not None)
    if concept and concept.shape in {"price", "salary"} and unit in UNITS:
        unit = ""  # a currency such as pounds
    is_unlike = kind == "string" and concept is not None and concept.shape == "count"
    if is_unlike or concept is None or concept.shape in {"texts", "words", "records"}:
        concept = _concept_by_description(description, kind) or concept
    if concept is None and kind == "string" and bare_name in subjects:
        concept = BY_NAME["title"]
    concept = _concept_by_format(concept, field)
    is_other = counted and concept is not None and concept.shape != "count"
    own = _own_phrases(name, bare_name, description, kind)
    others = concept.words if concept and not is_other else ()
    shape = concept.shape if concept else _SHAPES.get(kind, "text")
    if concept is None and unit in _TIMES:
        shape = "duration"
    elif counted and (concept is None or shape != "number"):
        shape = "count"
    elif concept is None and field.format in LINK_FORMATS:
        shape = "url"
    return RequestedField(
        field,
        tuple(dict.fromkeys((*own, *others))),
        len(own),
        concept,
        shape,
        counted,
        kind == "string"
        and not field.format
        and bare_name in SUBJECTS
        and (concept is None or concept.shape in {"title", "word"}),
        "" if unit in _TIMES else unit,
    )


def _unit_of(name: str, kind: str) -> str:
    """Return the unit, currency or period that ends the name of a number, or nothing."""
    *before, last = name.split() or [""]
    unit = singular(last)
    if last in _TIMES:
        return last
    is_unit = before and before[-1] != "per" and kind in _NUMBERS
    is_unit = is_unit and (unit != "in" or before[-1] in _LENGTHS)
    return unit if is_unit and (unit in UNITS or unit in CURRENCIES) else ""


def _own_phrases(name: str, bare_name: str, description: str, kind: str) -> list[str]:
    """Return the phrases of a field itself that may be its label."""
    words, own = name.split(), [name]
    if len(description.split()) <= 6:
        own.append(description)
    own.append(bare_name)
    if len(words) > 1 and words[-1] in _CODES and words[0] not in SUBJECTS:
        own.append(" ".join(words[:-1]))
    if kind == "array" and bare_name:
        *before, last = bare_name.split()
        own.append(" ".join((*before, singular(last))))
    if kind in {"integer", "number"}:
        own.append(" ".join(w for w in words if w not in _MEASURES))
    return [
        phrase for phrase in dict.fromkeys(own) if phrase and phrase not in SUBJECTS
    ]


def content_words_of(phrase: str) -> frozenset[str]:
    """Return the words of a phrase without stop words, in the singular."""
    return frozenset(singular(w) for w in phrase.split() if w not in _STOP)


def _without_subject(name: str, subjects: frozenset[str]) -> str:
    """Return a name without its subject and fillers.

    A name of such words alone keeps the subject or, if it has none, the fillers.
    """
    bare = [w for w in name.split() if w not in _FILLERS]
    kept = [w for w in bare if w not in subjects]
    return " ".join(kept or bare) or name


def _concept_by_name(name: str, bare_name: str, kind: str) -> Concept | None:
    """Return the concept of a name, or of the part that carries the meaning."""
    phrases = [name, bare_name]
    if match := _COUNT_OF.match(name):
        phrases.append(f"{match['things']} count")
    words = bare_name.split()
    if len(words) == 2 and words[1] in {"name", "names", "title"}:
        phrases.append(words[0])
    if len(words) >= 2 and words[-1] in {"date", "url", "email", "phone", "address"}:
        phrases.append(words[-1])
    if words and words[0] == "is":
        phrases.append(" ".join(words[1:]))
    return next(filter(None, (concept_of(phrase, kind) for phrase in phrases)), None)


def _concept_by_description(description: str, kind: str) -> Concept | None:
    """Return the concept that a description names first."""
    if kind == "string" and _TITLE.match(description) and len(description.split()) <= 8:
        _head, _, rest = description.partition(" of ")
        of = concept_of(_without_subject(rest, SUBJECTS), kind)
        return of if of and of.shape in {"name", "person"} else BY_NAME["title"]
    words = [w for w in description.split() if w not in _STOP and w not in _FILLERS][:5]
    for size in (3, 2, 1):
        for start in range(len(words) - size + 1):
            phrase = " ".join(words[start : start + size])
            found = concept_of(phrase, kind) if phrase not in SUBJECTS else None
            if found:
                return found
    return None


def _counted_words(
    name: str, description: str, kind: str, *, is_known: bool
) -> tuple[str, ...]:
    """Return up to three words for the things that a field counts."""
    matches = [_COUNT.match(name)]
    if kind in {"integer", "number"}:
        matches += [_COUNT_OF.match(name), _COUNT_OF.match(description)]
    elif kind != "string" or not name.endswith(" count"):
        return ()
    things = next((match["things"] for match in matches if match), "")
    is_plural = any(word.endswith("s") for word in name.split())
    if (
        not things
        and kind == "integer"
        and is_plural
        and (" " not in name or not is_known)
    ):
        things = name
    return tuple(word for word in things.split() if word not in _STOP)[:3]


def _concept_by_format(concept: Concept | None, field: Field) -> Concept | None:
    """Return the concept that agrees with the field's format.

    The format takes precedence over a name with another meaning.
    """
    shape = concept.shape if concept else ""
    if field.format in LINK_FORMATS and shape not in {"url", "image", "urls"}:
        return concept if field.kind == "array" else None
    named = _FORMATS.get(field.format)
    if named and (concept is None or named in {"email", "phone"}):
        return BY_NAME[named]
    return BY_NAME["published"] if named == "published" and shape != "date" else concept
