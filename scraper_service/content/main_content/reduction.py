"""Reduces a page to its main content: a verdict on each block, and the reduced tree.

An explanation names the chance or the rule of each verdict. Elements that repeat or
decorate the content go, too: copies for other screens, logos, edit links.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from lxml import etree

from scraper_service.content.html.cleaning import clean
from scraper_service.content.html.code_blocks import drop_toolbars
from scraper_service.content.html.document import SKIPPED, drop, parse
from scraper_service.content.main_content.blocks import MAX_NAMES, Walk
from scraper_service.content.main_content.drops import (
    article_comments,
    drop_next_articles,
    drop_plain,
)
from scraper_service.content.main_content.model import (
    KINDS,
    Draft,
    Kind,
    Model,
    PageDeclarations,
    Table,
    add_description,
    is_chrome,
    kind_of,
    model,
    read_declarations,
    structure_signs,
)
from scraper_service.content.main_content.rules import (
    add_bylines,
    correct,
    separate_posts,
)
from scraper_service.content.page_urls import is_route
from scraper_service.content.passes import classed, elements, texts_in
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scraper_service.content.html.document import Document

MARKS = frozenset(
    "headerlink anchor-link anchorjs-link hash-link header-anchor mw-editsection".split()
)
MAX_BLOCKS = 20_000  # blocks that are scored: 30 MB of features
SMALL = 60  # words outside chrome; the model is not used with fewer
ENOUGH = 150  # words outside chrome from which the bar is not lowered
WHOLE_PAGE = 600  # words including chrome from which the model is always used
ARTICLE = 0.6  # raises the bar of articles by up to this factor
SURE = 0.8  # chance of an article from which comments are dropped
FORUM = 0.2  # chance of a forum from which posts keep their authors and dates
LEAST_CERTAINTY = 0.6
LEAST_TEXT = 10  # words
CHROME_NAMES = -1.5  # maximum score of class names that mean chrome on a small page
CHROME_CHANCE = 0.4  # such names count only below this chance


def keep_main_content(document: Document, page: PageDeclarations) -> None:
    """Reduce the body to its main content; a body with text keeps at least one block.

    ``page`` is the result of :func:`read_declarations`, called before the tree was cleaned.
    """
    drop_slide_copies(document.body)
    drop_next_articles(document, page)
    verdict = judge(document.body, page)
    if verdict is not None:
        reduce(verdict.walk, verdict.keep, page.picture, verdict.lead)
        separate_posts(verdict.posts)
    is_product = "og:product" in page.signs or (
        verdict is None or verdict.kind.name == "product"
    )
    if page.description and is_product:
        add_description(document.body, page.description)
    document.is_main = True
    drop_duplicate_blocks(document.body)
    drop_repeated_pictures(document.body)
    drop_toolbars(document.body)
    drop_edit_links(document.body)
    drop_logos(document.body, document.base)


def reduce(walk: Walk, keep: Sequence[bool], picture: str = "", lead: int = 0) -> None:
    """Remove every block whose ``keep`` is False from the tree.

    A picture before block ``lead`` stays if its URL contains ``picture``.
    """
    if all(keep):
        return
    whole, texts = walk.find_dropped(keep, picture, lead)
    for element, which in texts:
        setattr(element, which, None)
    for element in whole:
        drop(element)


@frozen
class Verdict:
    """The verdict on the blocks of a page."""

    #: The nodes and blocks of the page.
    walk: Walk
    #: The kind of the page.
    kind: Kind
    #: Per block, the probability of main content.
    chances: Any
    #: The chance from which a block is kept.
    bar: float
    #: Per block, True if the block is kept.
    keep: list[bool]
    #: The rule that overruled the chance, by block number.
    rules: dict[int, str]
    #: The elements of the posts of a forum.
    posts: list[Any] = field(factory=list)
    #: The first block that is kept as text; the picture of the page stands before it.
    lead: int = 0


def judge(
    body: Any, page: PageDeclarations, learned: Model | None = None
) -> Verdict | None:
    """Return the verdict on the blocks of the cleaned ``body``; None if it has no text.

    ``page`` contains the declarations, read before cleaning. At least one block is kept. The
    default model is that of the weights file. The model is not used for pages of a few
    words, or of more than :data:`MAX_BLOCKS` blocks.
    """
    learned = learned or model()
    drop_marks(body)
    walk = Walk(body, learned.tables)
    if not len(walk.blocks):
        return None
    kind = kind_of(
        page.signs | structure_signs(walk, learned.class_parts), learned.kinds
    )
    if len(walk.blocks) > MAX_BLOCKS:
        keep = ~_chrome(walk, np.zeros(len(walk.blocks)))
        rules = dict.fromkeys(
            range(len(keep)), "a huge page: all but menus and footers"
        )
        return Verdict(walk, kind, keep * 1.0, 1.0, keep.tolist(), rules)
    chances, made = learned.chances(walk, kind.chances)
    return decide(walk, kind, chances, made, page.titles, learned.threshold)


def decide(
    walk: Walk,
    kind: Kind,
    chances: Any,
    made: Table,
    titles: tuple[str, ...],
    factor: float,
) -> Verdict:
    """Keep the blocks whose chance reaches the bar, and apply the rules.

    ``titles`` are the declared titles; ``factor`` multiplies the bar of the best F1.
    """
    rules: dict[int, str] = {}
    if kind.chances[KINDS.index("article")] >= SURE:
        comments = article_comments(walk, made)
        chances = np.where(comments, 0.0, chances)
        rules.update(dict.fromkeys(np.flatnonzero(comments).tolist(), "a comment"))
    bar = threshold(chances, made.words) * factor
    bar *= 1 + ARTICLE * kind.chances[KINDS.index("article")]
    bar *= _certainty(walk, made)
    bar = min(bar, float(chances.max()))
    keep = chances >= bar
    if not bar:
        keep[:] = ~_chrome(walk, chances)
        every = range(len(keep))
        rules.update(dict.fromkeys(every, "a small page: all but menus and footers"))
    draft = Draft(walk, made, chances, bar, keep, rules, titles)
    if bar:
        correct(draft)
    else:
        drop_plain(draft)
    forum = kind.chances[KINDS.index("forum")]
    posts = add_bylines(draft) if forum >= FORUM else []
    texts = keep & (made.words >= LEAST_TEXT) & (made.columns["in heading"] == 0)
    lead = int(texts.argmax())
    return Verdict(walk, kind, chances, bar, keep.tolist(), rules, posts, lead)


def drop_marks(body: Any) -> None:
    """Drop the anchor links and edit links next to headings."""
    for element in classed(body, _is_mark, MARKS, "a", "span"):
        drop(element)


def _is_mark(names: str) -> bool:
    return not MARKS.isdisjoint(names[:MAX_NAMES].split())


def threshold(chances: Any, words: Any) -> float:
    """Return the minimum chance of a block for the best expected F1 of the kept words.

    Blocks are added from the likeliest down. The expected F1 rises to a maximum; blocks
    with a chance below half of the maximum lower it (Lewis, "Evaluating and optimizing
    autonomous text classification systems", 1995).
    """
    order = np.argsort(-chances, kind="stable")
    weight = words + 0.01
    hits = np.cumsum((chances * weight)[order])
    expected = 2 * hits / (np.cumsum(weight[order]) + hits[-1])
    return float(expected.max()) / 2


def _certainty(walk: Walk, made: Table) -> float:
    """Return a factor on the bar: 0 for pages of a few words, 1 for long pages.

    The model was trained on whole pages and takes too much of a small page for chrome. If
    a long page has nearly all words in chrome, its content stands there.
    """
    chrome = _in_chrome(walk)
    words = float(made.words[~chrome].sum())
    if words < SMALL:
        return LEAST_CERTAINTY if made.words.sum() >= WHOLE_PAGE else 0.0
    return min(max((words - SMALL) / (ENOUGH - SMALL), LEAST_CERTAINTY), 1.0)


def _chrome(walk: Walk, chances: Any) -> Any:
    """Return per block True if the elements around it, or its names and chance, mean chrome.

    If all blocks would count as chrome, no block does.
    """
    inside, nodes = _in_chrome(walk), walk.nodes
    named = np.array([scores.low for scores in nodes.scores]) <= CHROME_NAMES
    for number, parent in enumerate(nodes.parent[1:], 1):
        named[number] |= named[parent]
    named = named[walk.blocks.node] & (chances < CHROME_CHANCE)
    for chrome in (inside | named, inside):
        if not chrome.all():
            return chrome
    return np.zeros(len(walk.blocks), dtype=bool)


def _in_chrome(walk: Walk) -> Any:
    bits = walk.blocks.places
    found = {own: is_chrome(own) for own in set(bits)}
    return np.fromiter(map(found.__getitem__, bits), bool, len(bits))


# -- copies, logos and edit links -------------------------------------------------------

MAX_DUPLICATES = 100  # pairs whose texts are compared
MAX_CLASS = 300  # characters read of a class attribute or a link
_BLOCKS = ("div", "section", "ul")  # more tags would take too long
_SLIDES = ("div", "li")
# Classes of Slick, Swiper, Splide, Glide and bxSlider; and of Owl Carousel.
_COPIED = frozenset(
    "slick-cloned swiper-slide-duplicate splide__slide--clone glide__slide--clone "
    "bx-clone".split()
)
# Each of these names has one of the parts.
_COPIED_PARTS = ("clone", "swiper-slide-duplicate")
_OWL = frozenset({"owl-item", "cloned"})
# Classes of Bootstrap, Foundation and Tailwind, and common names of sites' own.
_SCREENS = re.compile(
    r"(?:^|[\s_-])(?:hidden-(?:xs|sm|md|lg)|visible-(?:xs|sm|md|lg)|d-(?:\w\w-)?none"
    r"|(?:sm|md|lg|xl|2xl|\]):hidden|hidden (?:\S+ )*\S+:(?:block|flex|grid|inline\S*)"
    r"|(?:hide|show|hidden|visible)-(?:on-|for-)?(?:mobile|desktop|tablet|small|large)"
    r"|(?:mobile|desktop)(?:-only|-show|-hide|-hidden|-visible)?)(?=$|[\s_-])"
)
# Each match has one of the parts.
_SCREEN_PARTS = "hidden visible none hide show mobile desktop".split()


def drop_slide_copies(body: Any) -> None:
    """Drop the copies of slides that a carousel makes for endless rotation."""
    for copy in classed(body, _is_copy, _COPIED_PARTS, *_SLIDES):
        drop(copy)


def drop_duplicate_blocks(body: Any) -> None:
    """Drop each block that has the text of its next sibling, both for some screens.

    Their class attributes name the screens, and have to differ.
    """
    pairs = []
    for element in classed(body, _names_screens, _SCREEN_PARTS, *_BLOCKS):
        duplicate = element.getnext()
        others = None if duplicate is None else duplicate.get("class")
        if others and others != element.get("class") and _names_screens(others):
            pairs.append((element, duplicate))
    for element, duplicate in reversed(pairs[:MAX_DUPLICATES]):
        text = "".join("".join(texts_in(element)).split())
        if text and text == "".join("".join(texts_in(duplicate)).split()):
            drop(duplicate)


def drop_repeated_pictures(body: Any) -> None:
    """Drop the repeated pictures of a row, as a rotating banner has them.

    A picture right after its copy stays: the stars of a rating are such a row.
    """
    first: dict[tuple[str | None, str | None], Any] = {}
    repeated = []
    before = None
    for image in elements(body, "img"):
        picture = image.get("src"), image.get("alt")
        known = first.setdefault(picture, image)
        if known is not image and picture != before:
            repeated.append((known, image))
        before = picture
    for known, image in repeated[:MAX_DUPLICATES]:
        if _row_of(image) is _row_of(known):
            drop(image)


def _row_of(image: Any) -> Any:
    """Return the largest element around a picture that has no text."""
    row, above = image, image.getparent()
    while above is not None and not any(
        text and not text.isspace() for text in texts_in(above)
    ):
        row, above = above, above.getparent()
    return row


def _is_copy(names: str) -> bool:
    """Return True if class names mark a carousel's copy of a slide."""
    parts = names[:MAX_CLASS].split()
    return not _COPIED.isdisjoint(parts) or _OWL.issubset(parts)


@lru_cache(maxsize=4096)
def _names_screens(names: str) -> bool:
    """Return True if class names restrict an element to some screen sizes."""
    return _SCREENS.search(names[:MAX_CLASS]) is not None


MAX_EVENTS = 5_000  # in the walk to the first text
_LOGO = re.compile(
    r"(?:^|[^a-z])(?:fav)?(?:logos?|icon)(?![a-z])|[a-z]Logo(?![a-z])|_LOGO"
)
_IMAGE_FILE = re.compile(r"\.(?:jpe?g|png|webp|gif|avif)\Z", re.IGNORECASE)


def drop_logos(body: Any, base: str) -> None:
    """Drop the pictures before the first text that are logos or lead elsewhere.

    Elsewhere is the home page or another site. A link to the picture's full size does
    not count.
    """
    for image in list(_images_before_text(body)):
        link = next(image.iterancestors("a"), None)
        names = (image.get("src", "").rpartition("/")[2], image.get("alt", ""))
        is_logo = any(map(_LOGO.search, (*names, image.get("class", ""))))
        if is_logo or (link is not None and _leads_elsewhere(link, base)):
            drop(image)


def _images_before_text(body: Any) -> Iterator[Any]:
    """Yield the images before the first text; no image if the page has no text."""
    found: list[Any] = []
    events = etree.iterwalk(body, events=("start", "end"))
    for _, (event, element) in zip(range(MAX_EVENTS), events, strict=False):
        text = element.text if event == "start" else element.tail
        if element.tag in SKIPPED and event == "start":
            events.skip_subtree()
            text = None
        if element.tag == "img" and event == "start":
            found.append(element)
        if text and not text.isspace():
            yield from found
            return


def _leads_elsewhere(link: Any, base: str) -> bool:
    """Return True if a link leads to a home page or to another host."""
    target, page = url_parts(link.get("href", "")), url_parts(base)
    if target.scheme not in {"http", "https"} or _IMAGE_FILE.search(target.path):
        return False
    is_home = target.path in {"", "/"} and not is_route(target.fragment)
    return is_home or target.netloc != page.netloc


_EDIT_TARGETS = ("edit", "github", "gitlab", "bitbucket", "codeberg", "suggest")
_EDIT = re.compile(
    r"\W*(?:(?:edit|improve|suggest (?:an )?edits?(?: to| on)?)(?: the| this)?"
    r"(?: (?:page|doc|document|article|file|topic|section|docs?|documentation))?(?: source)?"
    r"(?: (?:on|in|via) (?:github|gitlab|bitbucket|codeberg))?"
    r"|(?:diese |die )?seite (?:auf \w+ )?bearbeiten|(?:modifier|éditer) cette page(?: sur \w+)?"
    r"|editar (?:esta )?página(?: en \w+| no \w+)?|modifica (?:questa )?pagina(?: su \w+)?)\W*",
    re.IGNORECASE,
)


def drop_edit_links(body: Any) -> None:
    """Drop links to the source of a page of documentation, such as "Edit this page"."""
    for link in classed(body, _may_edit, _EDIT_TARGETS, "a", by="href"):
        label = " ".join("".join(texts_in(link)).split())[:MAX_CLASS]
        if " " in label and _EDIT.fullmatch(label):
            drop(link)


def _may_edit(target: str) -> bool:
    lower = target.lower()
    return any(part in lower for part in _EDIT_TARGETS)


# -- explanations ----------------------------------------------------------------------

SHOWN = 160  # characters of a block's text
PATH = 3  # elements in the path of a block


def explain(html: str | bytes, url: str) -> dict[str, Any]:
    """Return the kind of the page, its evidence, and the verdict on each block.

    ``{"kind", "kinds": {name: chance}, "evidence": [{sign, weight}], "bar", "blocks":
    [{number, keep, chance, words, path, rule, text}]}``. A block is kept if its ``chance``
    reaches ``bar``. A ``rule`` names the rule that overruled the chance.
    """
    document = parse(html, url)
    page = read_declarations(document)
    clean(document)
    verdict = judge(document.body, page)
    if verdict is None:
        return {"kind": None, "kinds": {}, "evidence": [], "bar": None, "blocks": []}
    return {
        "kind": verdict.kind.name,
        "kinds": {n: round(c, 3) for n, c in verdict.kind.by_name().items()},
        "evidence": [
            {"sign": sign, "weight": weight} for sign, weight in verdict.kind.evidence
        ],
        "bar": round(verdict.bar, 3),
        "blocks": [_block(verdict, number) for number in range(len(verdict.keep))],
    }


def _block(verdict: Verdict, number: int) -> dict[str, Any]:
    blocks = verdict.walk.blocks
    return {
        "number": number,
        "keep": verdict.keep[number],
        "chance": round(float(verdict.chances[number]), 3),
        "words": blocks.words[number],
        "path": _path(verdict, blocks.node[number]),
        "rule": verdict.rules.get(number),
        "text": " ".join(blocks.text[number].split())[:SHOWN],
    }


def _path(verdict: Verdict, node: int) -> str:
    """Return the tags and classes of the innermost elements around a block."""
    names: list[str] = []
    nodes = verdict.walk.nodes
    while node > 0 and len(names) < PATH:
        own = verdict.walk.elements[node].get("class", "").split()[:2]
        names.append(".".join([nodes.tag[node], *own]))
        node = nodes.parent[node]
    return " > ".join(reversed(names)) or "body"
