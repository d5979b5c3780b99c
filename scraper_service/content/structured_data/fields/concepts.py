"""What names of fields mean: words for one thing, in names and in labels."""

from __future__ import annotations

import re
from functools import lru_cache

from attrs import frozen

from scraper_service.content.structured_data.fields.vocabulary import VOCABULARY

_WORDS = re.compile(r"[^\W_]+")


@frozen
class Concept:
    """One thing that fields ask for.

    ``words`` are phrases of lower-case words, ``paths`` properties of schema.org below
    the thing a page is about, best first; ``metas`` names of ``<meta>`` in lower case.
    """

    name: str
    shape: str
    words: tuple[str, ...]
    paths: tuple[str, ...] = ()
    metas: tuple[str, ...] = ()


def _read() -> tuple[Concept, ...]:
    concepts = []
    for line in (
        VOCABULARY.strip().replace("\n  @", " @").replace("\n  #", " #").split("\n")
    ):
        head, _, rest = line.partition(" | ")
        name, shape = head.split()
        rest, _, metas = rest.partition(" # ")
        words, _, paths = rest.partition(" @ ")
        phrases = tuple(phrase.strip() for phrase in words.split(","))
        concepts.append(
            Concept(name, shape, phrases, tuple(paths.split()), tuple(metas.split()))
        )
    return tuple(concepts)


CONCEPTS = _read()
BY_NAME = {concept.name: concept for concept in CONCEPTS}

_BY_PHRASE: dict[str, list[Concept]] = {}
for _concept in CONCEPTS:
    for _phrase in dict.fromkeys(_concept.words):
        _BY_PHRASE.setdefault(_phrase, []).append(_concept)

# Which shapes a value of a kind can have; the first ones are preferred.
_SHAPES = {
    "array": "texts words records urls images persons pairs proses",
    "object": "pairs place address name person salary rating quantity",
    "boolean": "stock flag",
    "integer": "count number year rating price duration quantity salary",
    "number": "price rating number count quantity salary year duration",
    "string": "title prose person date name text word code url image price currency stock "
    "place address phone email quantity duration rating year salary number count flag "
    "texts words persons",
}
_ORDER = {kind: tuple(shapes.split()) for kind, shapes in _SHAPES.items()}


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a name or a label: ``reviewCount`` has two."""
    spaced = re.sub(r"['\u2019](?=s\b|re\b|t\b)", "", text)
    spaced = re.sub(r"(?<=[a-zà-ÿ])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", spaced)
    return tuple(word.lower() for word in _WORDS.findall(spaced))


def phrase_of(text: str) -> str:
    """Return the words of a name or label as one text."""
    return " ".join(words_of(text))


def singular(word: str) -> str:
    """Return a word without the ending of a plural, roughly."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=2048)
def concept_of(phrase: str, kind: str) -> Concept | None:
    """Return the concept of a phrase that best fits a kind of value."""
    found = _BY_PHRASE.get(phrase)
    if not found:
        words = phrase.split()
        if not words:
            return None
        other = " ".join((*words[:-1], singular(words[-1])))
        found = _BY_PHRASE.get(other) or _BY_PHRASE.get(other + "s")
        if not found:
            return None
    order = _ORDER.get(kind, ())
    ranks = {shape: rank for rank, shape in enumerate(order)}
    if kind in {"integer", "number", "boolean", "array"}:
        fitting = [c for c in found if c.shape in ranks]
        return min(fitting, key=lambda c: ranks[c.shape], default=None)
    # For texts the place of the phrase among a concept's words tells more.
    return min(
        found,
        key=lambda c: (
            c.shape not in ranks,
            c.words.index(phrase) if phrase in c.words else 99,
        ),
    )
