"""What a field of a schema wants, told by its name, description, type and format."""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

from scraper_service.content.structured_data.fields.concepts import (
    BY_NAME,
    Concept,
    concept_of,
    phrase_of,
    singular,
    words_of,
)
from scraper_service.options.schemas import Field

# What a field may be said to belong to: no part of its meaning.
SUBJECTS = frozenset(
    "product article item page post job event recipe company book movie film thread listing "
    "blog story news document entry record paper hotel restaurant program programme business "
    "app game topic house property vacancy main full primary list site shop store current "
    "displayed exact visible question course organization organisation institution "
    "repository package song album person profile conference discussion message".split()
)
_FILLERS = frozenset(
    "str string value text info information data field usd eur gbp chf in on at the a an raw "
    "dollars euros euro pounds cents array all of iso formatted per each any found shown as minutes "
    "hours seconds mins "
    "available".split()
)
_MEASURES = frozenset(
    "score count number total num of amount rating value quantity supported reached".split()
)
_CODES = frozenset("id identifier number no code".split())
_FORMATS = {
    "uri": "url",
    "url": "url",
    "uri-reference": "url",
    "iri": "url",
    "date": "published",
    "date-time": "published",
    "email": "email",
    "idn-email": "email",
    "duration": "duration",
    "phone": "phone",
}
_LINKS = frozenset({"uri", "url", "uri-reference", "iri"})
_COUNTED = re.compile(r"^(?:number|count|total number|total|amount) of (?:the )?(.+)$")
_TITLE = re.compile(r"^(?:title|name|headline|heading)(?: of (?:the |a |an )?.+)?$")
_WHEN = re.compile(r"^(?:date|day|time|when)\b")
_STOP = frozenset(
    "the a an of for to in on and or is are was were be been this that it its with from by as at "
    "which what who whose when where how they we you your our their has have had will can all "
    "per each one some any only not if shown given listed mentioned e g i eg ie etc page".split()
)


@frozen(eq=False)
class Wish:
    """A field and what it means.

    ``phrases`` are the words its label may have, its own ones first (``own`` of them);
    ``concept`` is None for a name that is in no table. ``shape`` tells how a value is
    written, ``counted`` what is counted, for a count of something. ``is_subject`` tells of
    a name such as ``recipe``, which may stand for its title.
    """

    field: Field
    phrases: tuple[str, ...]
    own: int
    concept: Concept | None
    shape: str
    counted: tuple[str, ...] = ()
    content: frozenset[str] = frozenset()
    is_subject: bool = False

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def what(self) -> str:
        """The name of the concept, empty without one."""
        return self.concept.name if self.concept else ""


@lru_cache(maxsize=1024)
def wish_of(wanted: Field, around: str = "") -> Wish:
    """Return what a field wants; ``around`` is the name of what it belongs to."""
    name = phrase_of(wanted.name)
    kind = wanted.kind or "string"
    said = phrase_of(wanted.description)
    subjects = SUBJECTS | {singular(word) for word in words_of(around)}
    stripped = _stripped(name, subjects)
    concept = _by_name(name, stripped, kind)
    counted = _counted(name, said, kind, is_known=concept is not None)
    is_unlike = kind == "string" and concept is not None and concept.shape == "count"
    if is_unlike or concept is None or concept.shape in {"texts", "words", "records"}:
        concept = _by_description(said, kind) or concept
    if concept is None and kind == "string" and stripped in subjects:
        concept = BY_NAME["title"]
    if concept is None and wanted.format in _FORMATS and wanted.format not in _LINKS:
        concept = BY_NAME[_FORMATS[wanted.format]]
    concept = _of_format(concept, wanted)
    own = [name]
    if said and len(said.split()) <= 6:
        own.append(said)
    own += [stripped]
    words = name.split()
    if len(words) > 1 and words[-1] in _CODES and words[0] not in SUBJECTS:
        own.append(" ".join(words[:-1]))
    if kind == "array" and stripped:
        *before, last = stripped.split()
        own.append(" ".join((*before, singular(last))))
    if kind in {"integer", "number"}:
        own.append(" ".join(w for w in name.split() if w not in _MEASURES))
    own = [p for p in dict.fromkeys(own) if p and p not in SUBJECTS]
    is_other = counted and concept is not None and concept.shape != "count"
    others = concept.words if concept and not is_other else ()
    return Wish(
        wanted,
        tuple(dict.fromkeys((*own, *others))),
        len(own),
        concept,
        _shape(concept, wanted, counted),
        counted,
        content_of(f"{name} {said}"),
        kind == "string"
        and not wanted.format
        and stripped in SUBJECTS
        and (concept is None or concept.shape in {"title", "word"}),
    )


def content_of(phrase: str) -> frozenset[str]:
    """Return the words of a phrase that say something, in the singular."""
    return frozenset(singular(w) for w in phrase.split() if w not in _STOP)


def _stripped(name: str, subjects: frozenset[str]) -> str:
    """Return a name without what it belongs to; never nothing."""
    words = name.split()
    kept = [w for w in words if w not in subjects and w not in _FILLERS]
    if kept:
        return " ".join(kept)
    kept = [w for w in words if w not in _FILLERS]
    return " ".join(kept or words)


def _by_name(name: str, stripped: str, kind: str) -> Concept | None:
    for phrase in (name, stripped):
        if found := concept_of(phrase, kind):
            return found
    words = stripped.split()
    if len(words) == 2 and words[1] in {"name", "names", "title"}:
        return concept_of(words[0], kind)
    if len(words) >= 2 and words[-1] in {"date", "url", "email", "phone", "address"}:
        return concept_of(words[-1], kind)
    if words and words[0] == "is":
        return concept_of(" ".join(words[1:]), kind)
    return None


def _by_description(said: str, kind: str) -> Concept | None:
    """Return the concept that a description speaks of first."""
    if not said:
        return None
    if kind == "string" and _TITLE.match(said) and len(said.split()) <= 8:
        _head, _, rest = said.partition(" of ")
        of = concept_of(_stripped(rest, SUBJECTS), kind) if rest else None
        return of if of and of.shape in {"name", "person"} else BY_NAME["title"]
    words = [w for w in said.split() if w not in _STOP and w not in _FILLERS][:12]
    for size in (3, 2, 1):
        for start in range(min(len(words), 5) - size + 1):
            phrase = " ".join(words[start : start + size])
            if size == 1 and phrase in SUBJECTS:
                continue
            if found := concept_of(phrase, kind):
                return found
    return None


def _counted(name: str, said: str, kind: str, *, is_known: bool) -> tuple[str, ...]:
    """Return what an integer counts, as a few words for it."""
    if kind not in {"integer", "number", "string"}:
        return ()
    words = name.split()
    found = ""
    if len(words) > 1 and words[-1] in {"count", "counts", "total", "number"}:
        found = " ".join(words[:-1])
    elif len(words) > 1 and words[0] in {
        "num",
        "number",
        "total",
        "count",
        "no",
        "nb",
        "nombre",
        "anzahl",
    }:
        found = " ".join(w for w in words[1:] if w not in {"of", "de"})
    elif match := _COUNTED.match(said):
        found = match[1]
    elif (
        kind == "integer"
        and any(word.endswith("s") for word in words)
        and (len(words) == 1 or not is_known)
    ):
        found = name
    if not found or (kind == "string" and words[-1] != "count"):
        return ()
    head = found.split()
    return tuple(w for w in head if w not in _STOP)[:3]


def _of_format(concept: Concept | None, wanted: Field) -> Concept | None:
    """Let the format win over a name that says something else."""
    named = _FORMATS.get(wanted.format)
    if named == "url" and (
        concept is None or concept.shape not in {"url", "image", "urls"}
    ):
        return concept if wanted.kind == "array" else None
    if named == "published" and (concept is None or concept.shape != "date"):
        return BY_NAME["published"]
    if named in {"email", "phone"}:
        return BY_NAME[named]
    return concept


def _shape(concept: Concept | None, wanted: Field, counted: tuple[str, ...]) -> str:
    if concept is not None:
        if counted and concept.shape not in {"count", "number"}:
            return "count"
        return concept.shape
    if counted:
        return "count"
    if wanted.format in _LINKS:
        return "url"
    return {
        "integer": "number",
        "number": "number",
        "boolean": "flag",
        "array": "texts",
        "object": "pairs",
    }.get(wanted.kind, "text")
