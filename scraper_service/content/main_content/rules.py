"""The rules that correct the model's verdict on a page.

The model scores each block alone. In a list of cards, which are siblings of the same
shape, one card could keep only its price and the next card only its name. Therefore a part
is kept or dropped in all cards of a list. In other lists, such as groups of facts, a part
without links that most siblings keep is kept in all. The posts of a forum keep their
authors and dates.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from lxml import etree

from scraper_service.content.main_content.blocks import AROUND, MAX_NAMES
from scraper_service.content.main_content.drops import (
    drop_consent,
    drop_empty_headings,
    drop_extras,
)
from scraper_service.content.main_content.model import PRICE, Draft, is_chrome
from scraper_service.content.markdown.writer import data_rows
from scraper_service.content.metadata.marks import DATED_TAGS
from scraper_service.content.passes import partly_kept, path_numbers, plain_shapes
from scraper_service.content.words import (
    AnyCase,
    distinct_words,
    likeness,
    word_overlap,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEAST_CARDS = 3
MAX_CARDS = 1_000  # per list; longer lists stay as they are
MAX_LISTS = 200
MAX_WORDS = 100  # mean words per card
MOST_CARDS = 0.7  # minimum share of cards with a link or a price
MAX_ALIKE = 4  # blocks of one shape that are distinguished within a card
MAJORITY = 0.6  # share of cards in which a part must be kept to stay everywhere
LINKED = 0.5  # mean share of linked words from which a part is one of links
LEAST_TITLED = 0.5  # minimum share of cards with a title
LEAST_LIKELY = 0.3  # minimum chance of titles that stay, as a factor on the bar
FORUM = 0.5  # chance of a forum from which rows of siblings are separate lists
LEAST_KEPT = 0.25  # share of a list's words; with fewer kept, the whole list is dropped

Column = list[int]  # the blocks of one part in all cards of a list
LEAST_IN_GAP = 0.3  # minimum chance in a gap, as a factor on the bar
MAX_GAP = 3  # blocks
MAX_PLAIN_GAP = 12  # blocks of few links
LEAST_TABLE = 0.05  # factor on the bar for a table with a header inside main or article
MAX_TITLE = 60  # words
MAX_HEADINGS = 10
LEAST_LIKE = 0.6  # likeness of an h1 to a declared title from which the h1 is the title
LEAST_SAME = 0.9  # likeness of a text that is no heading from which it is the title
LEAST_SHARED = 0.5  # minimum share of words that heading and title have in common
MAX_LABEL = 6  # words
MAX_PRICE = 6  # words
PRODUCT = 0.5  # minimum chance of a product page
PRICE_REACH = 12  # blocks after the title
LEAST_LOOSE = 5  # words at the start of the body; shorter text is a remnant of the head
WHOLE = frozenset({"pre", "table", "dl"})  # kept or dropped as a whole
MAX_WHOLES = 2_000  # elements decided as a whole; in further ones each block counts
_IN_BUTTON = 1 << AROUND.index("button")
_IN_CHROME = sum(
    1 << AROUND.index(name) for name in ("nav", "footer", "form", "dialog")
)
_IN_MAIN = sum(1 << AROUND.index(name) for name in ("main", "article"))


def unite_cards(draft: Draft) -> None:
    """Keep or drop each part of a card in all cards of a list; complete other lists.

    The titles stay if enough of the cards stays. Otherwise the cards are dropped: a price
    without a name is useless.
    """
    paths = _paths(draft)
    lists = _lists(draft, paths)
    headed = draft.made.columns["in heading"].tolist() if lists else []
    density = draft.made.columns["link density"]
    for cards in lists:
        is_plain = max(map(len, cards)) == 1  # items of one block
        are_cards = not is_plain and _are_cards(draft, cards)
        columns = _columns(draft, cards, paths)
        keep = draft.keep.tolist()  # quicker for a few values than numpy
        for column in columns:
            kept = sum([keep[number] for number in column]) / len(column)
            if len(column) >= LEAST_CARDS and 0 < kept < 1:
                if are_cards:
                    stays = kept >= MAJORITY or _chance(draft, column) >= draft.bar
                    draft.set_keep(column, bool(stays), "as in the other cards")
                elif kept >= MAJORITY and density[column].mean() < LINKED:
                    draft.set_keep(column, True, "as in the other items")
        if not are_cards:
            continue
        for column in columns:
            if _is_button(draft, column, headed):
                draft.set_keep(column, False, "said in all cards")
        blocks = [number for card in cards for number in card]
        now_kept = draft.keep[blocks]
        title = _titles(draft, columns, len(cards), headed)
        if title is None or not now_kept.any() or draft.keep[title].all():
            continue
        weight = draft.made.words[blocks] + 1.0
        if (weight * now_kept).sum() < LEAST_KEPT * weight.sum():
            draft.set_keep(blocks, False, "little of a card")
        elif _chance(draft, title) >= LEAST_LIKELY * draft.bar:
            draft.set_keep(title, True, "the title of a card")


def _paths(draft: Draft) -> list[int]:
    """Return the path number of each node, comparing class names without numbers."""
    nodes, shapes = draft.walk.nodes, draft.walk.shapes
    plain = plain_shapes(shapes)
    if not plain or len(set(plain.values())) == len(shapes):
        return nodes.path
    return path_numbers(nodes.parent, nodes.shape, plain)


def _lists(draft: Draft, paths: list[int]) -> list[list[range]]:
    """Return the lists of small siblings of one shape that are partly kept.

    Siblings with a single block count only if they are items of a list.
    """
    made = draft.made
    found = partly_kept(
        draft.walk.nodes,
        paths,
        made.words.tolist(),
        draft.keep.tolist(),
        by_parent=bool(made.columns["kind forum"][0] >= FORUM),
        least=LEAST_CARDS,
        most=MAX_CARDS,
        max_words=MAX_WORDS,
    )
    return found[:MAX_LISTS]


def _are_cards(draft: Draft, cards: list[range]) -> bool:
    """Return True if most of the siblings have a link or a price."""
    blocks = draft.walk.blocks
    least = MOST_CARDS * len(cards)
    count = 0
    for card in cards:
        texts = blocks.text[card.start : card.stop]
        count += any(blocks.linked[card.start : card.stop]) or any(
            map(PRICE.search, texts)
        )
    return count >= least


def _columns(draft: Draft, cards: list[range], paths: list[int]) -> list[Column]:
    """Return the blocks of all cards, grouped by their part of a card."""
    node = draft.walk.blocks.node
    found: dict[tuple[int, int], Column] = {}
    for card in cards:
        seen: dict[int, int] = {}
        for number in card:
            shape = paths[node[number]]
            seen[shape] = min(seen.get(shape, 0) + 1, MAX_ALIKE)
            found.setdefault((shape, seen[shape]), []).append(number)
    return list(found.values())


def _titles(
    draft: Draft, columns: list[Column], count: int, headed: list[float]
) -> Column | None:
    """Return the headings of the cards, or else their first links with distinct texts.

    ``headed`` has for each block 1 in a heading, else 0.
    """
    blocks = draft.walk.blocks
    density = draft.made.columns["link density"]
    full = [column for column in columns if len(column) >= LEAST_TITLED * count]
    for column in full:
        is_headed = sum([headed[n] for n in column]) > LEAST_TITLED * len(column)
        if is_headed and not _is_button(draft, column, headed):
            return column
    for column in full:
        if (
            np.count_nonzero(density[column] >= 0.9) / len(column) > MOST_CARDS
            and draft.made.words[column].mean() >= 2
            and len({blocks.text[number] for number in column}) > len(column) / 2
        ):
            return column
    return None


def _is_button(draft: Draft, column: Column, headed: list[float]) -> bool:
    """Return True if all cards have the same linked heading, such as "Read more".

    A heading with a picture does not count: dropping it would drop the picture.
    """
    texts = draft.walk.blocks.text
    return bool(
        len(column) >= LEAST_CARDS
        and headed[column[0]]
        and all(headed[number] for number in column)
        and draft.made.columns["link density"][column].min() >= 0.9
        and len({texts[number].strip() for number in column}) == 1
        and not _has_picture(draft, column[0])
    )


def _has_picture(draft: Draft, block: int) -> bool:
    """Return True if an element with this block alone contains a picture."""
    nodes, node = draft.walk.nodes, draft.walk.blocks.node[block]
    above = nodes.parent[node]
    while above > 0 and nodes.end[above] - nodes.start[above] == 1:
        node, above = above, nodes.parent[above]
    return next(draft.walk.elements[node].iter("img"), None) is not None


def _chance(draft: Draft, column: Column) -> float:
    weight = draft.made.words[column] + 1.0
    return float((draft.chances[column] * weight).sum() / weight.sum())


def correct(draft: Draft) -> None:
    """Apply all rules; keep at least one block."""
    before = draft.keep.copy()
    _wholes(draft)
    _ingredients(draft)
    _gaps(draft)
    _headings(draft)
    drop_extras(draft)
    unite_cards(draft)
    _labels(draft)
    drop_empty_headings(draft)
    blocks = draft.walk.blocks
    loose = (
        n
        for n, node in enumerate(blocks.node)
        if not (node or blocks.linked[n]) and (n or blocks.words[n] >= LEAST_LOOSE)
    )
    if 0 in blocks.node:
        draft.set_keep(loose, True, "text of the body itself")
    _title(draft)
    _price(draft)
    drop_consent(draft)
    if not draft.keep.any():
        draft.keep[:] = before
        draft.rules.clear()


def _wholes(draft: Draft) -> None:
    """Keep or drop data tables, code and definition lists as a whole."""
    done, count = 0, 0
    nodes = draft.walk.nodes
    if WHOLE.isdisjoint(nodes.tag):
        return
    for node, tag in [pair for pair in enumerate(nodes.tag) if pair[1] in WHOLE]:
        start, end = nodes.start[node], nodes.end[node]
        if start < done or end - start < 2:
            continue
        count += 1
        if count > MAX_WHOLES:
            return
        least = draft.bar
        if tag == "table":
            element, bits = draft.walk.elements[node], nodes.places[node]
            if data_rows(element) is None:
                continue  # a layout table
            titled = next(element.iter("th"), None) is not None
            if titled and bits & _IN_MAIN and not is_chrome(bits):
                least = LEAST_TABLE * draft.bar
        span = slice(start, end)
        weight = draft.made.words[span] + 1.0
        whole = bool((draft.chances[span] * weight).sum() >= least * weight.sum())
        draft.set_keep(range(start, end), whole, f"as the whole {tag}")
        done = end


def _ingredients(draft: Draft) -> None:
    """Keep the parts of a recipe whose class names say that they contain the ingredients."""
    if "ingredient" not in draft.walk.lower_names:
        return
    nodes, blocks = draft.walk.nodes, draft.walk.blocks
    named = {shape for shape in draft.walk.shapes if "ingredient" in shape.lower()}
    done = 0
    for node, shape in enumerate(nodes.shape):
        start, end = nodes.start[node], nodes.end[node]
        if shape not in named or start < done or start == end:
            continue
        done = end
        words, chances = draft.made.words[start:end] + 1.0, draft.chances[start:end]
        least = LEAST_IN_GAP * draft.bar
        if (
            nodes.places[node] & _IN_CHROME
            or (chances * words).sum() < least * words.sum()
        ):
            continue
        own = [n for n in range(start, end) if not blocks.places[n] & _IN_BUTTON]
        draft.set_keep(own, True, "ingredients")


def _gaps(draft: Draft) -> None:
    """Keep a few dropped blocks between two kept blocks of the same parent element.

    More blocks are kept if few of their words are links: they are groups of short facts.
    """
    columns = draft.made.columns
    kept = np.flatnonzero(draft.keep)
    for number in np.flatnonzero(np.diff(kept) > 1):
        before, after = int(kept[number]), int(kept[number + 1])
        gap = range(before + 1, after)
        start, end = draft.holder(before)
        if (
            len(gap) <= MAX_PLAIN_GAP
            and start <= before
            and after < end
            and draft.chances[gap].min() >= LEAST_IN_GAP * draft.bar
            and columns["link density"][gap].max() < 0.9
            and not columns["in nav"][gap].any()
            and (len(gap) <= MAX_GAP or _are_facts(draft, gap))
        ):
            draft.set_keep(gap, True, "between content")


def _are_facts(draft: Draft, gap: range) -> bool:
    """Return True if no text is a link, and most have letters: not those of a chart."""
    texts = draft.walk.blocks.text[gap.start : gap.stop]
    lettered = sum(any(map(str.isalpha, text)) for text in texts)
    density = draft.made.columns["link density"][gap].max()
    return bool(density < 0.5 and lettered > len(gap) / 2)


def _headings(draft: Draft) -> None:
    """Keep a heading if the block after it in the same section is kept."""
    columns = draft.made.columns
    dropped = (columns["in heading"] > 0) & (columns["in nav"] == 0) & ~draft.keep
    for number in np.flatnonzero(dropped[:-1])[::-1].tolist():
        start, end = draft.holder(number)
        if draft.keep[number + 1] and start <= number and number + 1 < end:
            draft.set_keep((number,), True, "the heading of content")


def _labels(draft: Draft) -> None:
    """Keep a few words with a colon if the block after them is kept, as of a heading."""
    blocks = draft.walk.blocks
    for number in np.flatnonzero(~draft.keep[:-1] & draft.keep[1:]).tolist():
        if (
            blocks.words[number] <= MAX_LABEL
            and blocks.text[number].rstrip().endswith((":", "\uff1a"))
            and not is_chrome(blocks.places[number])
        ):
            start, end = draft.holder(number)
            if start <= number and number + 1 < end:
                draft.set_keep((number,), True, "the label of content")


def _title(draft: Draft) -> None:
    """Keep the h1 that is the title of the page.

    The h1 most similar to a declared title wins, even in chrome. An h1 with the name of
    the site is less similar. If no h1 is similar, a text before the content may be.
    """
    nodes, blocks = draft.walk.nodes, draft.walk.blocks
    headings = [n for n in draft.walk.titles if nodes.end[n] > nodes.start[n]]
    titles = [distinct_words(title) for title in draft.titles]
    best, best_rank = range(0), (0.0, False)
    for n in headings[:MAX_HEADINGS]:
        own = range(nodes.start[n], nodes.end[n])
        named = distinct_words(" ".join(blocks.text[own.start : own.stop]))
        # An unclosed chrome element contains the content, too.
        around = nodes.parent[n]
        siblings = slice(nodes.start[around], nodes.end[around])
        is_outside = not is_chrome(nodes.places[n]) or draft.keep[siblings].any()
        alike = max((likeness(named, title) for title in titles), default=0.0)
        if alike < LEAST_LIKE:  # the first such h1 wins if no other is more similar
            shared = max((word_overlap(named, t) for t in titles), default=1.0)
            words = sum(blocks.words[own.start : own.stop])
            is_likely = len(headings) == 1 or shared >= LEAST_SHARED
            if not (is_outside and is_likely and words <= MAX_TITLE):
                continue
            alike = 0.0
        if not best or (alike, is_outside) > best_rank:
            best, best_rank = own, (alike, is_outside)
    parts = [number for number in best if not blocks.places[number] & _IN_BUTTON]
    draft.set_keep(parts or best, True, "the title")
    if best:
        draft.title = best[-1]
    if best_rank[0] < LEAST_LIKE:
        _title_text(draft, titles)


def _title_text(draft: Draft, titles: list[set[str]]) -> None:
    """Keep the text before the content that is most similar to a declared title.

    ``titles`` are the words of the declared titles. A heading needs less similarity than
    other texts.
    """
    blocks, headed = draft.walk.blocks, draft.made.columns["in heading"]
    sure = (draft.chances >= draft.bar) & draft.keep & (headed == 0)
    content = np.flatnonzero(sure & (draft.made.words >= LEAST_LOOSE))
    best, best_rank = -1, (0.0, 0.0)
    shortest = min(map(len, draft.titles), default=0) / 3  # characters
    for number in range(content[0] if draft.titles and content.size else 0):
        text, is_heading = blocks.text[number], float(headed[number])
        if (
            len(text) < shortest
            or not 2 <= blocks.words[number] <= MAX_TITLE
            or is_chrome(blocks.places[number])
        ):
            continue
        words = distinct_words(text)
        alike = max(likeness(words, title) for title in titles)
        least = LEAST_LIKE if is_heading else LEAST_SAME
        if alike >= least and (alike, is_heading) > best_rank:
            best, best_rank = number, (alike, is_heading)
    if best >= 0:
        draft.set_keep((best,), True, "the title")
        draft.title = best


def _price(draft: Draft) -> None:
    """Keep the first price after the title of a product page."""
    blocks = draft.walk.blocks
    if draft.made.columns["kind product"][0] < PRODUCT or draft.title < 0:
        return
    start = draft.title + 1
    for number in range(start, min(start + PRICE_REACH, len(blocks))):
        if (
            blocks.words[number] <= MAX_PRICE
            and PRICE.search(blocks.text[number])
            and not is_chrome(blocks.places[number])
        ):
            draft.set_keep((number,), True, "the price")
            return


# -- posts of a forum ------------------------------------------------------------------

LEAST_POST = 10  # minimum kept words of a post, counted in blocks of LEAST_BLOCK
LEAST_BLOCK = 5  # words
MOST_OF_PAGE = 0.6  # maximum share of the kept words in a post
MAX_BYLINE = 6  # words of a byline; longer ones are added only if there are no others
MAX_NAMED = 16  # words of a block that may name an author or a date
MAX_NEAR = 3  # elements around a block whose names are examined
MAX_INSIDE = 20  # elements inside a block that are examined
_ITEMS = frozenset({"li", "tr", "td", "dd", "dt"})  # already separate in the Markdown
_AUTHOR = AnyCase(
    r"(?:^|[\s_-])(?:user|poster|nick(?:name)?|handle|by)(?=$|[\s_-])|author|user-?name|byline",
)
_PROFILE = re.compile(
    r"/(?:u|users?|members?|memberlist|profile|people|authors?)[/.?]|[?&]u(?:ser)?=(?!http)",
    re.IGNORECASE,
)
_DATE = AnyCase(
    r"\b(?:19|20)\d\d\b|\b\d+\s*(?:[smhdwy]|mo|min\w*|hours?|days?|weeks?|months?|years?)\b"
    r"|\bago\b|\b\d{1,2}:\d\d",
)
_IN_QUOTATION = 1 << AROUND.index("blockquote")
_ATTRIBUTION = re.compile("[:\uff1a]\\W*\\Z")
_DATED = AnyCase(r"date|time|posted|publish|created")


def add_bylines(draft: Draft) -> list[Any]:
    """Keep the author and date of each post; return the elements of the posts.

    A post is an element with text and a byline whose siblings also have both.
    """
    nodes, blocks = draft.walk.nodes, draft.walk.blocks
    start, end = draft.made.start, draft.made.end
    _attribute(draft)
    kinds = _kinds(draft)
    if not kinds:
        return []
    words = np.where(draft.made.words >= LEAST_BLOCK, draft.made.words, 0) * draft.keep
    own = _sums(words, start, end)
    total = own[0]
    signed = np.zeros(len(blocks))
    signed[list(kinds)] = 1
    groups = list(zip(nodes.parent, nodes.tag, strict=True))
    full = np.flatnonzero((own > 0) & (_sums(signed, start, end) > 0)).tolist()
    counts = Counter(groups[node] for node in full)
    authors: dict[int, list[int]] = {}
    dates: dict[int, list[int]] = {}
    for number, (is_author, is_date) in kinds.items():
        node = blocks.node[number]
        while node > 0 and not (own[node] and counts[groups[node]] > 1):
            node = nodes.parent[node]
        if node > 0:
            if is_author:
                authors.setdefault(node, []).append(number)
            if is_date:
                dates.setdefault(node, []).append(number)
    posts = {
        node
        for node in (*authors, *dates)
        if LEAST_POST <= own[node] <= MOST_OF_PAGE * total
    }
    lists = {groups[node] for node in posts}
    # Longer and shorter siblings are posts too if they have an author and a date.
    posts |= {n for n in authors.keys() & dates.keys() if groups[n] in lists}
    for found in (authors, dates):
        for node in posts & found.keys():
            numbers = found[node]
            if draft.keep[numbers].any():
                continue
            if found is authors:  # a name such as "user-date" may mark a date alone
                numbers = [n for n in numbers if not kinds[n][1]] or numbers
            short = [n for n in numbers if blocks.words[n] <= MAX_BYLINE] or numbers
            draft.set_keep(short[:1], True, "a byline")
    return [draft.walk.elements[node] for node in full if groups[node] in lists]


def _attribute(draft: Draft) -> None:
    """Keep the few words before a quotation that name its author."""
    blocks, keep = draft.walk.blocks, draft.keep
    numbers = [
        number
        for number in np.flatnonzero(~keep[:-1] & keep[1:]).tolist()
        if blocks.words[number] <= MAX_BYLINE
        and blocks.places[number + 1] & _IN_QUOTATION
        and _ATTRIBUTION.search(blocks.text[number])
    ]
    draft.set_keep(numbers, True, "who is quoted")


def _sums(values: Any, start: Any, end: Any) -> Any:
    """Return per node the sum of the values of its blocks."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return sums[end] - sums[start]


def _kinds(draft: Draft) -> dict[int, tuple[bool, bool]]:
    """Return for short blocks with an author or a date: (is author, is date)."""
    blocks, known = draft.walk.blocks, set(draft.walk.elements)
    found = {}
    for number, count in enumerate(blocks.words):
        if count <= MAX_NAMED and not is_chrome(blocks.places[number]):
            kind = _kind(draft, number, known)
            if any(kind):
                found[number] = kind
    return found


def _kind(draft: Draft, number: int, known: set[Any]) -> tuple[bool, bool]:
    """Return whether a short block names an author, and whether it names a date."""
    text = draft.walk.blocks.text[number].strip()
    if len(text) < 2:  # a letter instead of an avatar
        return False, False
    is_author = is_date = False
    for element in _near(draft, number, known):
        attributes = element.attrib
        if element.tag in DATED_TAGS:
            is_date = True
        elif element.tag == "a" and _PROFILE.search(attributes.get("href", "")):
            is_author = True
        names = " ".join(
            attributes[name]
            for name in ("class", "itemprop", "rel")
            if name in attributes
        )[:MAX_NAMES]
        if names:
            is_named, may_be_dated = _signs(names)
            is_author = is_author or is_named
            is_date = is_date or (may_be_dated and _DATE.is_in(text))
    return is_author, is_date


@lru_cache(maxsize=4096)
def _signs(names: str) -> tuple[bool, bool]:
    """Return whether names are those of an author, and whether they may be of a date."""
    is_named = _AUTHOR.is_in(names)
    return is_named, is_named or _DATED.is_in(names)


def _near(draft: Draft, number: int, known: set[Any]) -> Iterator[Any]:
    """Yield the elements that contain little but this block, and the elements inside."""
    nodes = draft.walk.nodes
    node = first = draft.walk.blocks.node[number]
    for _ in range(MAX_NEAR):
        if node == 0 or nodes.end[node] - nodes.start[node] > MAX_NEAR:
            break
        yield draft.walk.elements[node]
        node = nodes.parent[node]
    waiting = [child for child in draft.walk.elements[first] if child not in known]
    for _ in range(MAX_INSIDE):
        if not waiting:
            return
        element = waiting.pop()
        if isinstance(element.tag, str):
            yield element
            waiting += [child for child in element if child not in known]


def separate_posts(posts: Iterable[Any]) -> None:
    """Insert an ``<hr>`` between the posts that are still in the tree."""
    seen: set[Any] = set()
    for post in posts:
        above = post.getparent()
        if above is None or post.tag in _ITEMS:
            continue
        if above in seen:
            post.addprevious(etree.Element("hr"))
        seen.add(above)
