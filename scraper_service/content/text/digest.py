"""What pages say about a question, in their own words, with the pages they come from.

Without a model: sentences are chosen by the rare words that they share with the question.
Runs in the converter pool.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from attrs import field, frozen

from scraper_service.content.stored_pages import StoredPage, read_pages
from scraper_service.content.text.search_terms import (
    COMMON,
    language_code,
    stems,
    tokens_of,
)
from scraper_service.content.text.sentences import sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHORTEST, LONGEST = 40, 400  # characters of a sentence
SHORTEST_WIDE = 15  # of scripts that need fewer
KEPT = 60  # sentences of one page
ANSWERS = 6  # sentences to one question
PER_PAGE = 2  # of them of one page
ALIKE = 0.6  # of the words of two sentences that say the same
MOST_QUESTIONS = 5
MOST_TERMS = 3
MOST_WORDS = 2  # or names, of a query in a further search

_PARTS = re.compile(r"[?;\n]+")
_ASKING = (
    "what who whom whose when where why how which"
    " was wer wen wem wann wo warum wie welche welcher welches"
    " que qui quand où pourquoi comment quel quelle quels quelles"
    " qué quién cuándo dónde cómo cuál cuáles"
)
_CLAUSES = re.compile(
    rf"(?:,\s*|\s+)(?:(?:and|und|et|y)\s+)?(?=(?:{'|'.join(_ASKING.split())})\b)",
    re.IGNORECASE,
)
_CAPITALS = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w-]+(?: [A-Z][\w-]+){0,3}")
_REQUESTS = "tell me explain describe please find out know want give show us need"
_IDLE = COMMON | set(_ASKING.split()) | set(_REQUESTS.split())


@frozen
class Said:
    """A sentence of a page and its stems."""

    text: str
    words: frozenset[str]


@frozen(kw_only=True)
class Note:
    """What is kept of a page that was read for a question.

    ``language`` is that of its stems (ISO 639-1).
    """

    url: str
    title: str
    description: str
    icon: str | None = None
    language: str = "en"
    said: tuple[Said, ...] = field(default=(), repr=False)


def questions_of(query: str) -> list[str]:
    """Return the questions that a query consists of; the query if it is one."""
    found = []
    for part in _PARTS.split(query):
        clauses = _CLAUSES.split(part.strip())
        found += [clause.strip(" ,.") for clause in clauses]
    # "Tell me who": what stands before the first clause may be no question.
    kept = [text for text in found if words_of(text)]
    return kept[:MOST_QUESTIONS] or [query]


def words_of(text: str, language: str = "en") -> frozenset[str]:
    """Return the stems of the words of a text that say something."""
    told = [word for word in tokens_of(text) if word not in _IDLE and len(word) > 1]
    return frozenset(stems(told, language))


def searches_of(query: str, questions: Sequence[str]) -> list[str]:
    """Return what is searched for: each question, with what it takes from the query."""
    if len(questions) < 2:
        return [query]
    subject = questions[0]
    found = [subject]
    for question in questions[1:]:
        told = words_of(question) & words_of(subject)
        found.append(question if told else f"{subject} {question}")
    return found


def subject_of(query: str) -> str:
    """Return the words of a query that a further search is made with, as few as may be.

    The names in it, else its longest words: engines look for pages that have them all.
    """
    if names := _CAPITALS.findall(query):
        return " ".join(names[:MOST_WORDS])
    words = [word for word in tokens_of(query) if word not in _IDLE]
    longest = sorted(words, key=len, reverse=True)[:MOST_WORDS]
    return " ".join(word for word in words if word in longest) or query


def notes(bodies: Sequence[bytes], query: str) -> list[Note | None]:
    """Return notes on the pages whose JSON objects these are; None on what is none."""
    return [
        None if page.error or not page.markdown else _note(page, query)
        for page in read_pages(bodies)
    ]


def _note(page: StoredPage, query: str) -> Note:
    language = language_code(page.language) or "en"
    wanted = words_of(query, language)
    said = [
        Said(sentence.text, words_of(sentence.text, language))
        for sentence in sentences(page.markdown or "")
        if _may_stand(sentence.text)
    ]
    order = sorted(range(len(said)), key=lambda n: (-len(said[n].words & wanted), n))
    return Note(
        url=page.url,
        title=page.title or page.url,
        description=page.description or "",
        icon=page.icon,
        language=language,
        said=tuple(said[n] for n in sorted(order[:KEPT])),
    )


def _may_stand(text: str) -> bool:
    shortest = SHORTEST if text.isascii() else SHORTEST_WIDE
    if not shortest <= len(text) <= LONGEST or text.endswith((":", "?", "...", "…")):
        return False
    letters = sum(c.isalpha() or c.isspace() for c in text)
    return letters >= 0.7 * len(text)


def digest(query: str, questions: Sequence[str], pages: Sequence[Note]) -> str:
    """Return a text of sentences of the pages, each with the number of its source.

    A part for each question that anything is said about, then the list of sources.
    Empty where no page says anything about any.
    """
    weights = _weights(pages)
    parts: list[str] = []
    used: set[str] = set()
    for question in questions:
        lines = []
        for number, said in _answers(question, query, pages, weights):
            if said.text not in used:
                used.add(said.text)
                lines.append(f"- {said.text} [{number + 1}]")
        if lines:
            heading = [f"## {question}", ""] if len(questions) > 1 else []
            parts.append("\n".join([*heading, *lines]))
    if not parts:
        return ""
    return "\n\n".join([f"# {query}", *parts, source_list(pages)])


def source_list(pages: Sequence[Note]) -> str:
    """Return the numbered list of the pages."""
    rows = [f"{n}. [{page.title}]({page.url})" for n, page in enumerate(pages, 1)]
    return "\n".join(["## Sources", "", *rows])


def _weights(pages: Iterable[Note]) -> dict[str, float]:
    """Return how much a word tells: more the fewer sentences have it."""
    counts: Counter[str] = Counter()
    total = 0
    for page in pages:
        for said in page.said:
            counts.update(said.words)
            total += 1
    return {word: math.log(1 + total / count) for word, count in counts.items()}


def _answers(
    question: str, query: str, pages: Sequence[Note], weights: dict[str, float]
) -> list[tuple[int, Said]]:
    """Return sentences about a question with the number of their page, the best first."""
    rated = []
    for number, page in enumerate(pages):
        wanted = words_of(question, page.language)
        around = words_of(query, page.language)
        of_title = words_of(page.title, page.language)
        enough = min(2, len(wanted))
        for place, said in enumerate(page.said):
            shared = said.words & wanted
            # What its title is about, a page need not say in each sentence.
            if len(shared | (of_title & wanted)) < enough or not said.words & around:
                continue
            score = sum(weights.get(word, 0.0) for word in shared)
            score += 0.3 * sum(weights.get(word, 0.0) for word in said.words & around)
            score += 0.3 * sum(weights.get(word, 0.0) for word in of_title & wanted)
            score /= 1 + math.log(1 + len(said.words)) + 0.02 * place
            rated.append((-score, number, place, said))
    chosen: list[tuple[int, Said]] = []
    for _, number, _, said in sorted(rated, key=lambda each: each[:3]):
        of_page = sum(other == number for other, _ in chosen)
        if of_page < PER_PAGE and not any(_alike(said, o) for _, o in chosen):
            chosen.append((number, said))
        if len(chosen) == ANSWERS:
            break
    return chosen


def _alike(first: Said, second: Said) -> bool:
    shared = len(first.words & second.words)
    return shared > ALIKE * min(len(first.words), len(second.words))


def further_terms(query: str, asked: Sequence[str], pages: Sequence[Note]) -> list[str]:
    """Return names that pages speak of together with what was asked, the most frequent.

    Not those that were searched for before.
    """
    known = words_of(" ".join(asked))
    counts: Counter[str] = Counter()
    for page in pages:
        wanted = words_of(query, page.language)
        names = set()
        for said in page.said:
            if said.words & wanted:
                names.update(_CAPITALS.findall(said.text))
        counts.update(names)
    terms = []
    for term, count in counts.most_common():
        words = words_of(term)
        if count > 1 and words and not words & known:
            terms.append(term)
            known |= words
        if len(terms) == MOST_TERMS:
            break
    return terms


def excerpts(pages: Sequence[Note], limit: int) -> str:
    """Return what the pages say as numbered parts, at most ``limit`` characters."""
    if not pages:
        return ""
    room = limit // len(pages)
    parts = []
    for number, page in enumerate(pages, 1):
        text = f"[{number}] {page.title} ({page.url})\n"
        for said in page.said:
            if len(text) + len(said.text) + 1 > room:
                break
            text += said.text + "\n"
        parts.append(text)
    return "\n".join(parts)
