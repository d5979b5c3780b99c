"""The main content of a page: chrome pruned, by simple rules with guards.

Nothing is removed before all is decided, so that a verdict which leaves too little can
be taken back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from scraper_service.formats.document import drop
from scraper_service.formats.tags import CHROME_ROLES

if TYPE_CHECKING:
    from scraper_service.formats.document import Document

_CHROME_TAGS = frozenset({"nav", "aside", "footer", "header", "dialog", "menu"})
_WORDS = (
    "nav navbar navigation menu menus submenu topbar top-bar masthead header footer "
    "sidebar side-bar aside rail breadcrumb breadcrumbs pagination pager cookie cookies "
    "consent gdpr popup modal overlay newsletter subscribe subscription signup "
    "sign-up share sharing sharedaddy social socials addthis promo promos promotion "
    "advert adverts advertisement advertising ads ad adsense sponsor sponsored related "
    "recommended recommendations recirc outbrain taboola skip-link skip-links "
    "site-header site-footer page-header-nav toolbar author-bio tags tag-list tagcloud "
    "post-navigation post-nav prev-next next-prev most-read trending popular "
    "post-tags entry-tags hatnote noprint mw-editsection catlinks metadata printfooter"
)
_COMMENT_WORDS = "comments comment-list commentlist disqus disqus_thread respond"
_SEPARATORS = r"(?:^|[\s_-])"


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(
        rf"{_SEPARATORS}(?:{'|'.join(words.split())})(?=$|[\s_-])", re.IGNORECASE
    )


_CHROME = _pattern(_WORDS)
_COMMENTS = _pattern(_COMMENT_WORDS)
# Consent texts can be longer than the page itself.
_CONSENT = "onetrust CybotCookiebot didomi usercentrics cookie-consent cookieconsent"
_CONSENT_PATH = (
    ".//*[@id]["
    + " or ".join(f"contains(@id, '{name}')" for name in _CONSENT.split())
    + "]"
)
_KEPT_NAME = re.compile(
    r"(?:^|[\s_-])(?:content|main|article|body|post|entry|story|product)(?=$|[\s_-])",
    re.IGNORECASE,
)
_INTERACTIVE = frozenset({"button", "select", "textarea", "input", "datalist"})
_NEVER_CHROME = frozenset(
    {"a", "span", "h1", "h2", "li", "table", "tbody", "tr", "td", "th", "code", "pre"}
)
_BLOCKS = frozenset({"div", "section", "ul", "ol", "p", "article", "dl"})
_FORUM = re.compile(
    r"DiscussionForumPosting|QAPage|phpbb|vbulletin|xenforo|discourse|simplemachines|"
    r"invision|mybb",
    re.IGNORECASE,
)
_RELATED = re.compile(
    r"^(?:related|read more|read next|more from|more stories|you (?:may|might) also|"
    r"recommended|see also|also read|further reading|popular|trending|latest|"
    r"most (?:read|popular)|share this|leave a (?:reply|comment))\b",
    re.IGNORECASE,
)
BIG_BLOCK = 0.4  # share of the page's words which no chrome block holds
LEAST_KEPT = {True: 0.12, False: 0.30}  # of the page's words, by "is an article"
ENOUGH_WORDS = 600


@define
class _Weight:
    """Words of an element with all below it; ``prose`` are those in ``<p>``."""

    words: int = 0
    linked: int = 0
    links: int = 0
    prose: int = 0

    @property
    def plain(self) -> int:
        return self.words - self.linked


@frozen
class _Page:
    """What the rules look at. ``order`` is the body's elements in document order."""

    body: Any
    order: list[Any]
    weights: dict[Any, _Weight]
    guarded: set[Any]
    kind: str


def keep_main_content(document: Document, raw_hint: str) -> None:
    """Reduce the body to its main content; the whole body where none is found.

    ``raw_hint`` is text that tells the kind of page (its types, generator, classes).
    """
    _drop_consent(document.body)
    page = _weighed(document.body, raw_hint)
    total = page.weights[page.body]
    for strict in (True, False):
        pruned = _chrome(page, strict=strict)
        left = _left(page, pruned)
        container = _container(page, left) if strict else page.body
        kept = left[container].plain
        least = LEAST_KEPT[page.kind == "article"] * total.plain
        if kept and (kept >= least or kept > ENOUGH_WORDS):
            _reduce(page, pruned | _tails(page, left, container), container)
            return


def _drop_consent(body: Any) -> None:
    for element in body.xpath(_CONSENT_PATH):
        guarded = next(element.iter("h1", "main"), None) is not None
        if not guarded and _count(element) < _count(body):
            drop(element)


def _count(element: Any) -> int:
    return len("".join(element.itertext()).split())


def _weighed(body: Any, hint: str) -> _Page:
    order = list(body.iter())
    weights = {element: _Weight() for element in order}
    for element in reversed(order):
        own = weights[element]
        own.words += len(element.text.split()) if element.text else 0
        if element.tag == "a":
            own.linked, own.links = own.words, own.links + 1
        elif element.tag == "p":
            own.prose = own.words - own.linked
        if element is body:
            continue
        above = weights[element.getparent()]
        above.words += own.words + (len(element.tail.split()) if element.tail else 0)
        above.linked += own.linked
        above.links += own.links
        above.prose += own.prose
    guarded: set[Any] = set()
    for element in (*body.iter("main"), next(body.iter("h1"), None)):
        if element is not None:
            guarded.update((element, *element.iterancestors()))
    return _Page(body, order, weights, guarded, _kind(body, hint, weights[body]))


def _kind(body: Any, hint: str, weight: _Weight) -> str:
    if _FORUM.search(hint):
        return "forum"
    if "product" in hint.lower():
        return "product"
    if weight.prose > 0.5 * weight.plain or "article" in hint.lower():
        return "article"
    return "other"


def _chrome(page: _Page, *, strict: bool) -> set[Any]:
    """Return the elements to drop, each with all below it."""
    pruned: set[Any] = set()
    limit = BIG_BLOCK * page.weights[page.body].plain
    for element in page.order:
        if element is page.body or element in page.guarded:
            continue
        if element.getparent() in pruned or (
            _is_chrome(element, page.kind, strict=strict)
            and page.weights[element].plain <= limit
        ):
            pruned.add(element)
    return pruned


def _is_chrome(element: Any, kind: str, *, strict: bool) -> bool:
    tag, attributes = element.tag, element.attrib
    if tag in _CHROME_TAGS:
        nested = ("article", "main", "section")
        return tag != "header" or next(element.iterancestors(*nested), None) is None
    if tag in _INTERACTIVE:
        return bool(tag != "input" or attributes.get("type") != "checkbox")
    if not attributes:
        return False
    if attributes.get("role", "") in CHROME_ROLES:
        return True
    if not strict or tag in _NEVER_CHROME:
        return False
    name = f"{attributes.get('class', '')} {attributes.get('id', '')}"
    if name == " ":
        return False
    if kind != "forum" and _COMMENTS.search(name):
        return True
    return bool(_CHROME.search(name)) and not (
        "header" in name.lower() and _KEPT_NAME.search(name)
    )


def _left(page: _Page, pruned: set[Any]) -> dict[Any, _Weight]:
    """Weigh again without what is pruned."""
    if not pruned:
        return page.weights
    left = {
        element: _Weight(own.words, own.linked, own.links, own.prose)
        for element, own in page.weights.items()
    }
    for element in pruned:
        if element.getparent() in pruned:
            continue
        own = page.weights[element]
        for above in element.iterancestors():
            weight = left.get(above)
            if weight is None:
                break
            weight.words -= own.words
            weight.linked -= own.linked
            weight.links -= own.links
            weight.prose -= own.prose
    return left


def _container(page: _Page, left: dict[Any, _Weight]) -> Any:
    """Return the element which holds the content: main, article or the prose."""
    body = page.body
    mains = [e for e in page.order if e.tag == "main" or e.get("role") == "main"]
    best = max(mains, key=lambda e: left[e].plain, default=body)
    if mains and left[best].plain >= 0.3 * left[body].plain:
        body = best
    articles = [e for e in body.iter("article") if e in left]
    biggest = max(articles, key=lambda e: left[e].plain, default=body)
    if left[biggest].plain >= 0.6 * left[body].plain:
        body = biggest
    return _prose_node(body, left) if page.kind == "article" else body


def _prose_node(node: Any, left: dict[Any, _Weight]) -> Any:
    """Descend while one child holds nearly all prose and nearly all words."""
    while True:
        own = left[node]
        step = next(
            (
                child
                for child in node
                if left[child].prose >= 0.75 * own.prose
                and left[child].plain >= 0.4 * own.plain
                and child.tag
                in {"div", "section", "article", "main", "td", "table", "tr", "tbody"}
            ),
            None,
        )
        if step is None or not own.prose:
            return node
        node = step


def _tails(page: _Page, left: dict[Any, _Weight], container: Any) -> set[Any]:
    """Return link lists and "related" sections after the content."""
    found: set[Any] = set()
    whole = left[container]
    if whole.linked > 0.5 * whole.words:
        return found
    for element in container.iter():
        if element is container or element in page.guarded:
            continue
        weight = left[element]
        if element.tag in _BLOCKS and weight.links >= 3:
            if weight.linked > 0.75 * weight.words:
                found.add(element)
        elif element.tag in {"h2", "h3", "h4", "h5"} and weight.words <= 8:
            found |= _related(element, left)
    return found


def _related(heading: Any, left: dict[Any, _Weight]) -> set[Any]:
    if not _RELATED.match("".join(heading.itertext()).strip()):
        return set()
    after = list(heading.itersiblings())
    words = sum(left[e].words for e in after)
    if words and sum(left[e].linked for e in after) > 0.5 * words:
        return {heading, *after}
    return set()


def _reduce(page: _Page, pruned: set[Any], container: Any) -> None:
    for element in pruned:
        if element.getparent() is not None and element.getparent() not in pruned:
            drop(element)
    if container is page.body:
        return
    heading = next(page.body.iter("h1"), None)
    keep_heading = heading is not None and container not in heading.iterancestors()
    drop(container)
    if keep_heading:
        drop(heading)
    for child in list(page.body):
        page.body.remove(child)
    page.body.text = None
    if keep_heading:
        page.body.append(heading)
    page.body.append(container)
