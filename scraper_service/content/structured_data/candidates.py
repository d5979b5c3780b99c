"""Candidates for a single value, each with its trust.

The first candidates are the values of the field in the structured data of the page.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from attrs import evolve

from scraper_service.content.metadata.evidence import fold_name
from scraper_service.content.structured_data import unlabelled
from scraper_service.content.structured_data.nodes import (
    ARTICLE,
    PRODUCT,
    SUBJECT,
    UNKNOWN,
    Graph,
    Node,
    NodeT,
    plain,
)
from scraper_service.content.structured_data.page import (
    Candidate,
    ExtractionPage,
    Scope,
    around_heading,
    heading_text,
    is_apart,
    is_foreign,
    longest_part,
    main_heading,
    named_candidates,
    one_line,
)
from scraper_service.content.structured_data.requested_fields import (
    CURRENCIES,
    RequestedField,
    content_words_of,
    phrase_of,
)
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# Concepts that publishers state about themselves, on pages of any kind.
OF_MAKERS = frozenset(
    "email phone fax address street city state postcode country hours social logo founder "
    "founded employees company site service_area emails phones".split()
)
# Concepts of the page itself, not of its subject.
_OF_PAGES = frozenset("author description image language section tags site".split())
_DATES = frozenset({"published", "modified"})  # dates of the page, not of a product
_GENERIC_KEYS = frozenset(
    "id type key ref data text value item list name title url".split()
)
# Common unit codes of UN/ECE recommendation 20.
_UNITS = dict(
    pair.split("=")
    for pair in "CMT=cm FOT=ft GRM=g INH=in KGM=kg LBR=lb LTR=l MLT=ml MMT=mm MTR=m ONZ=oz".split()
)
_LOCATION = ("addressLocality", "addressRegion", "addressCountry")
_ADDRESS = ("streetAddress", *_LOCATION[:2], "postalCode", _LOCATION[2])
# Generators of candidates that need no label on the page, by the name of the concept.
UNLABELLED: dict[str, Callable[[Scope], Iterator[Candidate]]] = {
    "price": unlabelled.current_price,
    "low_price": unlabelled.current_price,
    "currency": unlabelled.current_price,
    "old_price": unlabelled.old_price,
    "availability": unlabelled.stock,
    "rating": unlabelled.ratings,
    "reviews_count": unlabelled.review_counts,
    "job_type": unlabelled.job_types,
    "salary": unlabelled.salaries,
    "duration": unlabelled.reading_times,
    "image": unlabelled.images,
    "images": unlabelled.images,
    "email": unlabelled.emails,
    "emails": unlabelled.emails,
    "phone": unlabelled.phones,
    "phones": unlabelled.phones,
    "address": unlabelled.postal_addresses,
    "social": unlabelled.social,
    "hours": unlabelled.hours,
}
# Further generators by concept and by shape, for records only.
OF_RECORDS: dict[str, Callable[[Scope], Iterator[Candidate]]] = {
    "author": unlabelled.persons,
    "description": unlabelled.briefs,
}
BY_SHAPE: dict[str, Callable[[Scope], Iterator[Candidate]]] = {
    "date": unlabelled.dates,
    "person": unlabelled.persons,
    "prose": unlabelled.bodies,
}
# Names of elements that contain the value of a concept in records.
NAMED = {
    "votes_count": "vote votes voters upvoter score upvotes likes points",
    "rating": "rating score stars",
    **dict.fromkeys(
        ("city", "country", "location", "venue"),
        "location venue city place region address where",
    ),
}
SHORT = 120  # characters of a value after a label
MAX_NAMED = 6  # elements with the same name that are read
MAX_OF_A_KIND = 10  # candidates of the same kind
MAX_SECTION = 5_000  # characters
MANY = 3  # different values from which on they belong to several things
NEAR_LINES = 25  # lines around the main heading
SECTION_LINES = 40
LEAST_ALIKE = 0.6  # share of words that a column and the field must have in common
# Shapes with long values, then shapes with values of several lines.
_LONG = frozenset("prose text texts address".split())
_MANY_LINES = frozenset("prose text address".split())
_GENERIC = _GENERIC_KEYS | {"section"}
_CALL_TO_ACTION = re.compile(
    r"(?:shop|join|view|see|visit|buy|learn|read|more|show|hide|select|choose|log|sign|add|get)\b",
    re.IGNORECASE,
)  # texts of links and buttons
_TITLES = frozenset({"title", "question"})
# Values that posts and articles show near their heading.
_NEAR_HEADING = frozenset(
    "author votes_count published modified replies_count views_count comments_count domain "
    "answers_count start".split()
)
_PATH = re.compile(r"\s[>\u203a\u00bb]\s")


def of_the_page(
    graph: Graph, main: Node | None, requested: RequestedField
) -> Iterator[Candidate]:
    """Yield values from the page's main node, then from other nodes that may have them."""
    name = requested.concept_name
    is_maker = name in OF_MAKERS
    of_pages = _OF_PAGES
    if main is None or main.rank != PRODUCT:
        of_pages |= _DATES
    for node in sorted(graph.nodes, key=lambda node: node is not main):
        trust = 0.8 if is_maker and node.is_maker else 0.75
        if node is main:
            trust = 0.93
            if name == "title" and node.rank > SUBJECT and not _is_name(requested):
                continue
        elif not (is_maker and node.is_maker) and not (
            node.rank in {ARTICLE, UNKNOWN} and name in of_pages
        ):
            continue
        if name in {"company", "site"} and node.is_maker:
            names = of_a_node(graph, node.data, node.name, requested, trust, "name")
            for found in names:
                text = re.split(r"\s[-|\u2013\u2014]\s", found.text)[0]
                yield evolve(found, text=text)
        yield from of_a_node(graph, node.data, node.name, requested, trust)


def _is_name(requested: RequestedField) -> bool:
    """Return True if the field is a name, which publishers have as well."""
    return any(phrase.endswith("name") for phrase in requested.own_phrases)


def of_a_node(
    graph: Graph,
    node: NodeT,
    name: str,
    requested: RequestedField,
    trust: float,
    *paths: str,
) -> Iterator[Candidate]:
    """Yield a node's value, by the paths of the concept or by the field's name."""
    for path in paths or _paths(requested):
        found = graph.values(node, path)
        if requested.unit in CURRENCIES:
            holder = path.rpartition(".")[0]
            currency = graph.text(node, f"{holder}.priceCurrency".lstrip("."))
            if currency.lower() not in {"", requested.unit}:
                continue
        if texts := tuple(filter(None, (_text_of(v, requested) for v in found))):
            yield Candidate(texts[0], f"{name}.{path}", trust, None, texts)
            return
    for extra in graph.nodes_at(node, "additionalProperty"):
        if phrase_of(plain(extra.get("name"))) in requested.phrases:
            source, text = f"{name}.additionalProperty", plain(extra.get("value"))
            yield Candidate(text, source, trust - 0.02)
            return


def property_name(phrase: str) -> str:
    """Return a phrase as a property name of schema.org, such as ``datePublished``."""
    first, *others = phrase.split() or [""]
    return first + "".join(word.capitalize() for word in others)


def _paths(requested: RequestedField) -> list[str]:
    concept = requested.concept
    is_other = (  # a count of things that the concept does not describe
        concept is not None
        and requested.shape == "count"
        and concept.shape not in {"count", "number"}
    )
    found = list(concept.paths) if concept and not is_other else []
    return found + [
        n for n in map(property_name, requested.own_phrases) if n not in _GENERIC_KEYS
    ]


def _text_of(value: Any, requested: RequestedField) -> str:
    """Return the text of a value as the shape of the field needs it."""
    if not isinstance(value, dict):
        return plain(value)
    if requested.shape in {"url", "image", "images", "urls"}:
        links = (plain(value.get(n)) for n in ("contentUrl", "url", "@id", "src"))
        return next(filter(None, links), "")
    if requested.concept_name in {"address", "location"}:
        inner = value.get("address")
        if isinstance(inner, str):
            return inner
        names = _LOCATION if requested.concept_name == "location" else _ADDRESS
        holder = inner if isinstance(inner, dict) else value
        parts = filter(None, (plain(holder.get(name)) for name in names))
        return ", ".join(parts) or plain(value)
    if requested.shape == "salary":
        return _salary(value)
    if requested.concept_name == "hours":
        return _opening(value)
    if "unitCode" in value or "unitText" in value:
        unit = plain(value.get("unitText")) or plain(value.get("unitCode"))
        return f"{plain(value.get('value'))} {_UNITS.get(unit, unit)}".strip()
    return plain(value)


def _salary(value: NodeT) -> str:
    amount = value.get("value")
    inner = amount if isinstance(amount, dict) else value
    ends = [plain(inner.get("minValue")), plain(inner.get("maxValue"))]
    amounts = " - ".join(filter(None, ends)) or plain(inner.get("value"))
    unit = plain(inner.get("unitText")).lower()
    parts = amounts, plain(value.get("currency")), f"per {unit}" if unit else ""
    return " ".join(filter(None, parts))


def _opening(value: NodeT) -> str:
    days = value.get("dayOfWeek")
    listed = days if isinstance(days, list) else [days]
    named = [plain(day).rsplit("/", 1)[-1] for day in listed if day]
    if len(named) > 2:
        named = [f"{named[0]}-{named[-1]}"]
    times = filter(None, (plain(value.get("opens")), plain(value.get("closes"))))
    return f"{', '.join(named)} {'-'.join(times)}".strip()


def candidates(
    page: ExtractionPage, scope: Scope, requested: RequestedField, main: Node | None
) -> Iterator[Candidate]:
    """Yield the candidates for a field; the most trusted kinds of origins come first."""
    name = requested.concept_name
    yield from from_cells(scope, requested)
    own = [phrase for phrase in requested.own_phrases if " " in phrase]
    yield from _from_labels(scope, requested, own)
    if scope.node is not None:
        yield from of_a_node(page.graph, scope.node, scope.name, requested, 0.93)
    elif scope.is_page:
        yield from of_the_page(page.graph, main, requested)
    yield from _from_labels(scope, requested, requested.phrases)
    # Pages about products show reviewers instead of their author.
    is_reviewer = name == "author" and main is not None and main.rank == PRODUCT
    if scope.is_page:
        yield from _visible_values(page, scope, requested, main)
        near = around_heading(scope) if name in _NEAR_HEADING else None
        for found in _from_record(near, requested) if near and not is_reviewer else ():
            source = f"{found.source}, {near.name if near else ''}"
            yield evolve(found, source=source, trust=found.trust - 0.12)
    elif scope.elements:
        yield from _from_record(scope, requested)
    yield from _from_counts(scope, requested)
    if not (scope.is_page and is_reviewer):
        yield from _from_names(scope, requested)


def from_cells(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    """Yield the cell of the column with the field's name, or with most of its words."""
    best, most = "", 0.0
    for phrase in scope.cells:
        words = content_words_of(phrase)
        common = len(words & requested.content_words)
        share = common / max(1, min(len(words), len(requested.content_words)))
        if common and share >= LEAST_ALIKE and 0.6 + 0.2 * share > most:
            best, most = phrase, 0.6 + 0.2 * share
    for phrase in reversed(requested.phrases):
        if phrase in scope.cells:
            best, most = phrase, 0.97 if phrase in requested.own_phrases else 0.9
    if best:
        yield scope.of(scope.cells[best], f'{scope.name}, column "{best}"', most)


# -- texts ---------------------------------------------------------------------------


def _from_labels(
    scope: Scope, requested: RequestedField, phrases: Sequence[str]
) -> Iterator[Candidate]:
    is_own_page = scope.is_page and requested.concept_name not in OF_MAKERS
    for phrase in phrases:
        if scope.is_page and requested.concept_name == "title" and " " not in phrase:
            continue  # the label belongs to another thing with a title
        bonus = 0.06 if " " in phrase else 0.0
        if phrase not in requested.own_phrases:
            bonus = -0.06
        values_found = list(scope.labelled_values(phrase))
        if scope.is_page and len({found.text for found in values_found}) >= MANY:
            # the label recurs for several things of the page
            bonus -= 0.6 if requested.shape == "price" else 0.3
        for found in values_found:
            text = found.text
            if not text or (is_own_page and is_apart(found.element)):
                continue
            if requested.shape == "prose" and "below" in found.source:
                text = _whole_section(scope, found)
            is_fit = len(text) <= SHORT or requested.shape in _LONG
            if requested.shape == "prose" and "heading" not in found.source:
                is_fit = len(text) >= SHORT
            if is_fit and not _is_label(requested, text):
                yield evolve(found, text=text, trust=found.trust + bonus)


def _is_label(requested: RequestedField, text: str) -> bool:
    """Return True if a text only repeats the field's name, as in an empty form."""
    return len(text) <= SHORT and phrase_of(text) in requested.phrases


def _whole_section(scope: Scope, found: Candidate) -> str:
    start = scope.reading.span(found.element)[0]
    texts: list[str] = []
    for line in scope.reading.lines[start : start + SECTION_LINES]:
        if texts and (line.heading or line.frame):
            break
        texts.append(line.text)
    return "\n".join(texts)[:MAX_SECTION]


def _from_counts(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    concept = requested.concept
    things = [requested.counted] if requested.counted else []
    if concept is not None and concept.shape == "count":
        things += [(word,) for word in concept.words if " " not in word]
    if requested.concept_name == "results_count":
        things += [("products",), ("items",), ("entries",), ("articles",)]
    near = around_heading(scope) if scope.is_page and things else None
    for number, words in enumerate(dict.fromkeys(things)):
        penalty = 0.02 * number
        for found in unlabelled.counts(near, words) if near else ():
            yield evolve(found, trust=0.93 - penalty)
        if len(words) == 1 and not scope.is_page:
            plural = frozenset({words[0], f"{words[0]}s"})
            for found in unlabelled.linked_counts(scope, plural):
                yield evolve(found, trust=found.trust - penalty)
        everywhere = list(unlabelled.counts(scope, words))
        if scope.is_page and len({found.text for found in everywhere}) >= MANY:
            penalty += 0.2
        for found in everywhere:
            yield evolve(found, trust=found.trust - penalty)


def _from_names(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    longest = 2000 if requested.shape == "prose" else SHORT
    first, last = 0, len(scope.reading.lines)
    if scope.is_page and (heading := main_heading(scope)) is not None:
        first, last = scope.reading.span(heading)
    for number, phrase in enumerate(requested.phrases[: requested.own_count + 4]):
        words = tuple(phrase.split())
        if scope.is_page and len(words) < 2 and phrase in _GENERIC:
            continue
        trust = (0.62 if number < requested.own_count else 0.52) - 0.12 * scope.is_page
        for element in islice(scope.elements_named(words), MAX_NAMED):
            text = one_line(scope, element)
            if not text and (image := next(element.iter("img"), None)) is not None:
                text = image.get("alt") or ""
            start, end = scope.reading.span(element)
            is_near = first - NEAR_LINES <= start <= last + NEAR_LINES
            if (
                (end - start > 1 and requested.shape not in _MANY_LINES)
                or (len(words) == 1 and not is_near)
                or not 0 < len(text) <= longest
                or _is_label(requested, text)
                or _CALL_TO_ACTION.match(text)
                or (requested.shape == "code" and not any(map(str.isdigit, text)))
                or (requested.shape == "rating" and unlabelled.is_end_of_scale(element))
                or (scope.is_page and is_foreign(element))
            ):
                continue
            yield Candidate(text, f"element named {phrase}", trust, element)


# -- records -------------------------------------------------------------------------


def _from_record(scope: Scope, requested: RequestedField) -> Iterator[Candidate]:
    """Yield a record's values of the field's kind, wherever they stand."""
    name = requested.concept_name
    if name in _TITLES or requested.is_subject:
        penalty = 0.0 if name in _TITLES else 0.25
        for found in unlabelled.titles(scope):
            yield evolve(found, trust=found.trust - penalty)
    if requested.shape == "url" or name in {"domain", "site"}:
        title = next(unlabelled.titles(scope), None)
        links = unlabelled.links(scope, title.element if title else None)
        yield from links if requested.shape == "url" else _domains(links)
    if generator := OF_RECORDS.get(name) or BY_SHAPE.get(requested.shape):
        yield from generator(scope)
    for found in named_candidates(scope, NAMED.get(name, ""), 0.69):
        if 0 < len(found.text) <= SHORT:
            yield found
    yield from _of_kind(scope, name)


def _of_kind(scope: Scope, name: str) -> Iterator[Candidate]:
    """Yield the values of a concept that need no label; earlier values come first."""
    found = UNLABELLED[name](scope) if name in UNLABELLED else ()
    for number, candidate in enumerate(islice(found, MAX_OF_A_KIND)):
        yield evolve(candidate, trust=candidate.trust - 0.01 * number)


def _domains(links: Iterator[Candidate]) -> Iterator[Candidate]:
    for found in links:
        if host := url_parts(found.text).hostname:
            name = host.removeprefix("www.")
            yield Candidate(name, "URL of the link", 0.6, found.element)
            return


# -- the whole page ------------------------------------------------------------------


def _visible_values(
    page: ExtractionPage, scope: Scope, requested: RequestedField, main: Node | None
) -> Iterator[Candidate]:
    """Yield the values of a field that the page shows or declares in its head."""
    name = requested.concept_name
    if name == "title" or requested.is_subject:
        penalty = 0.0 if name == "title" else 0.3
        for found in _titles(page, scope, main):
            yield evolve(found, trust=found.trust - penalty)
    yield from _from_metadata(page, name)
    rated = main is not None and "aggregateRating" in main.data
    if not rated or name not in {"rating", "reviews_count"}:
        yield from _of_kind(scope, name)
    metas = requested.concept.metas if requested.concept else ()
    for meta in metas:
        if found_text := page.evidence.first(meta):
            if requested.unit in CURRENCIES:
                currency = page.evidence.first(meta.replace("amount", "currency"))
                found_text += f" {currency}"
            trust = 0.8 if meta.startswith(("product:", "book:")) else 0.68
            yield Candidate(found_text, f"meta {meta}", trust)
            break


def _from_metadata(page: ExtractionPage, name: str) -> Iterator[Candidate]:
    """Yield values from the page's metadata.

    Product pages yield no authors and dates, because they show reviewers and delivery
    dates.
    """
    known = page.known
    if name in {"author", "published", "modified"} and not page.is_of_a_product:
        value = known.get(name if name == "author" else f"{name}_time")
        listed = value if isinstance(value, list) else [value] if value else []
        for text in listed[:1]:
            yield Candidate(str(text), "metadata", 0.8, None, tuple(map(str, listed)))
    elif name == "url":
        url = known.get("canonical_url") or page.base_url
        yield Candidate(str(url), "URL of the page", 0.5)
    elif name == "language" and (language := known.get("language")):
        yield Candidate(str(language), "metadata", 0.6)


def _titles(
    page: ExtractionPage, scope: Scope, main: Node | None
) -> Iterator[Candidate]:
    """Yield titles of the page's subject, the main heading first."""
    heading, declared = main_heading(scope), ""
    if main is not None and main.rank <= SUBJECT:
        declared = plain(main.data.get("headline") or main.data.get("name"))
    shown = heading_text(scope, heading) if heading is not None else ""
    if shown:
        sites = {*page.evidence.site_names, *page.host.split(".")[:-1]}
        shown = _PATH.split(shown)[-1] or shown
        trust = 0.6 if fold_name(shown) in sites else 0.95
        yield Candidate(shown, f"heading {heading.tag}", trust, heading)
    if declared and main is not None:
        yield Candidate(declared, f"{main.name}.name", 0.85)
    headline = page.known.get("headline")
    if headline and headline != shown:
        yield Candidate(str(headline), "heading", 0.8)
    if title := page.evidence.title or page.evidence.first("og:title"):
        yield Candidate(longest_part(title), "title", 0.7)
