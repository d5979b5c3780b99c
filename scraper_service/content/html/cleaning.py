"""Cleans a page's tree: drops hidden content and makes URLs absolute.

One walk finds the special elements of all steps, since each walk costs about a hundredth
of a page's time. The module also adds spaces between words, links and prices that only
styles separate, and serialises the tree as the page's cleaned HTML.
"""

from __future__ import annotations

import html as escapes
import re
from copy import deepcopy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import evolve
from lxml import etree

from scraper_service.content.decode import clean_text
from scraper_service.content.html.code_blocks import drop_line_numbers, join_code_lines
from scraper_service.content.html.document import DROPPED, drop, empty, parse
from scraper_service.content.html.embedded import (
    MEDIA,
    STANDING_IN,
    has_content,
    keep_standing_in,
)
from scraper_service.content.html.formulas import (
    FORMULA_ATTRIBUTES,
    FORMULA_CLASSES,
    FORMULA_TAGS,
    PICTURE_PARTS,
    mark_formulas,
    mark_picture,
    mark_script,
)
from scraper_service.content.html.hidden_text import (
    Hiding,
    HidingRules,
    Panels,
    is_overlay,
    is_real_text,
    may_be_shown,
)
from scraper_service.content.html.pictures import (
    AMP_TAGS,
    DIAGRAM_ATTRIBUTES,
    DIAGRAM_CLASSES,
    adopt_noscript_images,
    find_drawings,
    keep_sources,
    load_lazy_image,
    replace_amp,
    show_pictures,
)
from scraper_service.content.losses import Losses
from scraper_service.content.page_urls import (
    PLACEHOLDERS,
    absolute,
    origin_of,
    without_session,
)
from scraper_service.content.passes import (
    complete_plain_urls,
    elements,
    marked,
    outermost,
    texts_in,
    unseparated,
    word_total,
)
from scraper_service.content.words import instruction_in, may_instruct

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

#: The keys of further elements: with a sign of a formula, a diagram or a picture, with a text
#: for screen readers, with what may be the date of a change, and what may be an article.
SIGNED, SPOKEN, CHANGES, ARTICLES = "signed", "spoken", "changes", "articles"
#: Attributes of an article that name its URL.
ARTICLE_URLS = frozenset(
    (
        "data-url data-href data-permalink data-article-url data-canonical data-canonical-url"
        " data-page-url data-post-url data-link data-path data-uri itemid about"
    ).split()
)
_BY_TAG = (
    *("iframe", *STANDING_IN, *MEDIA, "noscript", *AMP_TAGS),
    *("template", "script", "style", "svg", "picture", "table", "pre", *FORMULA_TAGS),
)
_DATED_TAGS = ("time", "footer")
_SIGNS = (*FORMULA_CLASSES, *DIAGRAM_CLASSES)
_SIGN_ATTRIBUTES = (*FORMULA_ATTRIBUTES, *DIAGRAM_ATTRIBUTES)
# The tags of texts for screen readers, and parts of their classes.
_SPOKEN_TAGS = frozenset({"span", "div", "p"})
_SPOKEN_PARTS = ("offscreen", "sr-only", "visually", "screen-reader", "a11y-hidden")
MAX_SPOKEN = 200  # characters
# Parts of the classes of elements with the date of a change, and of footers.
_CHANGE_PARTS = (
    *("git-revision-date", "lastmod", "last-modified", "lastmodified"),
    *("last-updated", "lastupdated", "footer"),
)
# The parts of a class that stand for the further keys.
_PARTS = {SIGNED: _SIGNS, SPOKEN: _SPOKEN_PARTS, CHANGES: _CHANGE_PARTS}
_ATTRIBUTES = frozenset(_SIGN_ATTRIBUTES)


def special_elements(document: Document) -> dict[str, list[Any]]:
    """Return the special elements of a page by tag, the others by the keys above.

    Each list is in document order. Elements inside a ``noscript`` are not among them. The
    result is kept until ``document.special`` is set to None.
    """
    if document.special is None:
        document.special = _find(document.body)
    return document.special


def _find(body: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {
        name: [] for name in (*_BY_TAG, SIGNED, SPOKEN, CHANGES, ARTICLES)
    }
    for element in marked(
        body,
        (*_BY_TAG, *_DATED_TAGS, "article"),
        (*_SIGN_ATTRIBUTES, *ARTICLE_URLS),
        class_parts=(*_SIGNS, *_SPOKEN_PARTS, *_CHANGE_PARTS),
        image_parts=("tex",),
        role_parts=("img", "article"),
        itemprop_parts=("datemodified",),
        closed=("noscript",),
    ):
        tag = element.tag
        if tag in found:
            found[tag].append(element)
            continue
        names = element.get("class")
        keys = set(_keys_of(names)) if names else set()
        if tag in _DATED_TAGS or element.get("itemprop") == "dateModified":
            keys.add(CHANGES)
        elif element.get("itemprop"):
            keys.discard(CHANGES)
        if tag not in _SPOKEN_TAGS:
            keys.discard(SPOKEN)
        if _may_be_article(element):
            keys.add(ARTICLES)
        if SIGNED not in keys and (not keys or _is_signed(element)):
            keys.add(SIGNED)
        for key in keys:
            found[key].append(element)
    return found


@lru_cache(maxsize=4096)
def _keys_of(names: str) -> frozenset[str]:
    """Return the keys that a class stands for."""
    lower = names.lower()
    return frozenset(
        key for key, parts in _PARTS.items() if any(part in lower for part in parts)
    )


def _may_be_article(element: Any) -> bool:
    return (
        element.tag == "article"
        or element.get("role") == "article"
        or not ARTICLE_URLS.isdisjoint(element.keys())
    )


def _is_signed(element: Any) -> bool:
    """Return True for an element with a sign of a formula, diagram or picture."""
    attributes = element.attrib
    return attributes.get("role") == "img" or not _ATTRIBUTES.isdisjoint(attributes)


# -- cleaning --------------------------------------------------------------------------

# For writing systems with spaces between words; a single letter is part of a word.
_ENDS_WORD = re.compile(r"(?:[^\W\u2e80-\uffff]{2}|\w\))$")
_BEGINS_WORD = re.compile(r"[^\W\u2e80-\uffff]{2}")
_ENDS_PHRASE = re.compile(r"\w[a-z\u00df-\u00f6\u00f8-\u00ff)]\Z")
_BEGINS_NAME = re.compile(r"[A-Z][a-z]")
_REDUCTION = re.compile(r"\d\d?%")
_CURRENCY = frozenset("$\u20ac\u00a3")
# Class names of labels and values: a pair of them is not one word.
_LABELS = re.compile(r"(?:^|[\s_-])(?:label|name|key|title|value|count)(?=$|[\s_-])")
_ENDS_LABEL = re.compile(r"[^\W\d_]:\Z")
# Roles of elements that styles set apart from the text.
_ROLES = frozenset({"cell", "gridcell", "columnheader", "rowheader", "tooltip"})
_EXACT = frozenset({"pre", "code", "kbd", "samp", "tt", "math", "textarea"})
UNCOVERED_WORDS = 100  # hidden content with more words may be the page itself
SPEECH_WORDS = 500  # hidden texts with fewer words are searched for instructions
FEW_WORDS = 30
HIDDEN = "It is hidden, and no control of the page opens it."
FAINT = 0.1  # of the visible words; a larger transparent share awaits a script
_NO_WORDS = frozenset({"script", "style", "template"})
_PLACEHOLDERS = frozenset({"B:", "P:"})  # id prefixes of React's placeholders
_FRAMES = './/*[@data-original-tag="iframe"]'
MAX_FRAMES = 50  # srcdoc documents parsed per page
MAX_FRAME_DEPTH = 5  # srcdoc documents inside each other
_DROPPED = (etree.Comment, etree.PI, etree.Entity, *DROPPED)
_URL_ATTRIBUTES = {
    "a": "href",
    "area": "href",
    "img": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "track": "src",
    "input": "src",
    "form": "action",
    "blockquote": "cite",
    "q": "cite",
}
MAX_ROUNDS = 3  # of replacements of elements by their content
_MASKED_EMAIL = "/cdn-cgi/l/email-protection"
_MASK = re.compile(r"\s*\[email\sprotected\]\s*")
# Parts of URLs that do not stay as written; see without_session() and is_placeholder().
_CHANGED_URLS = {
    "a": ("sid=", "sessionid", "zenid=", ".php?s=", _MASKED_EMAIL),
    "img": (*PLACEHOLDERS, *PICTURE_PARTS),
}
_SCRIPTING = ("script", "style", "noscript", "template", "svg")  # in a head
_WITH_EVENT_HANDLERS = etree.XPath("//*[@*[starts-with(name(), 'on')]]")


def separate_words(body: Any) -> None:
    """Add a space between links, and between spans of one class, that styles separate.

    The space also goes between other links, spans and bold texts in these cases: a new
    word begins after several words, a new price begins, a value follows its label, a
    cell follows another one, or a note follows its mark in the text.
    """
    for element, other in unseparated(body, "a", "span", "b", "strong", "sup", "input"):
        if other.tag == "sup":
            continue
        if other.tag == element.tag and (
            element.tag == "a"
            or (element.get("class") and element.get("class") == other.get("class"))
        ):
            before, after = "".join(texts_in(element)), "".join(texts_in(other))
            is_end = bool(_ENDS_WORD.search(before[-3:]) and _BEGINS_WORD.match(after))
        else:
            after = other.text or "".join(texts_in(other))
            if not after[:1].isalnum() and after[:1] not in _CURRENCY:
                continue
            before = "".join(texts_in(element))
            is_note = other.tag == "a" and after.isdigit()
            is_end = (
                not is_note and _are_apart(before, after)
            ) or _are_label_and_value(element, other, before)
        if (is_end or _is_cell_or_note(element, other)) and not any(
            above.tag in _EXACT for above in element.iterancestors()
        ):
            element.tail = " "


def _is_cell_or_note(element: Any, other: Any) -> bool:
    """Return True for a cell or a note, which styles set apart from the text."""
    if element.tag == "input" or other.get("role") in _ROLES:
        return True
    return element.tag == "sup" and " " in "".join(texts_in(other)).strip()


def _are_apart(before: str, after: str) -> bool:
    """Return True if a word or a price ends and a new one begins, by their letters."""
    first = after[0]
    if before[-1:].isdigit():
        if first in _CURRENCY or (before[:1] in _CURRENCY and _REDUCTION.match(after)):
            return True
        if not _BEGINS_NAME.match(after):
            return False
    elif first.islower() or first in _CURRENCY or not _ENDS_PHRASE.search(before[-2:]):
        return False
    return " " in f"{before}{after}".strip()


def _are_label_and_value(element: Any, other: Any, before: str) -> bool:
    """Return True for a label and its value, by a colon or by their class names."""
    if _ENDS_LABEL.search(before[-2:]):
        return True
    names, others = element.get("class"), other.get("class")
    return bool(
        names
        and others
        and _LABELS.search(names)
        and _LABELS.search(others)
        and _ENDS_WORD.search(before[-3:])
    )


def clean(document: Document, *, complete: bool = True) -> None:
    """Drop the elements of the tree that are not content.

    With ``complete``, also make the URLs absolute.
    """
    body = document.body
    found, frames = _replace_elements(document)
    document.players = frames + found["video"] + found["audio"]
    if found["template"]:
        _move_streamed_parts(body, found["template"])
    others = [part for part in document.root if part is not body]
    styles = [x for part in others for x in elements(part, "style")] + found["style"]
    rules = HidingRules(styles)
    for script in found["script"]:
        if script.get("type", "")[:5] == "math/":
            mark_script(document, script)
    signed = found[SIGNED]
    keep_sources(signed + found["pre"], found["script"])
    drawn = [element for tag in FORMULA_TAGS for element in found[tag]]
    mark_formulas(document, drawn, signed)
    show_pictures(document, found["picture"] + found["svg"], signed)
    document.drawings = find_drawings(document, found["svg"], found["canvas"])
    etree.strip_elements(body, *_DROPPED, with_tail=False)
    etree.strip_tags(body, "map")
    drop_spoken_copies(found[SPOKEN])
    codes = found["pre"] + join_code_lines(found["table"], document.base)
    if codes:
        drop_line_numbers(codes)
    if hidden := rules.find_hidden(body):
        _drop_hidden(document, body, hidden)
    separate_words(body)
    if complete:
        origin = origin_of(document.base)
        for element in complete_plain_urls(
            body, _URL_ATTRIBUTES, origin, _CHANGED_URLS
        ):
            if element.tag != "img" or not mark_picture(document, element):
                _complete_urls(element, element.tag, document)


def drop_spoken_copies(texts: list[Any]) -> None:
    """Drop the drawn form of a text whose spoken form stands next to it, as of a price.

    The spoken form is hidden from the eye, the drawn one (``$19<sup>99</sup>``) from
    screen readers.
    """
    for spoken in texts:
        for drawn in (spoken.getnext(), spoken.getprevious()):
            if drawn is None or drawn.get("aria-hidden") != "true":
                continue
            if drawn.find(".//img") is not None:
                continue
            text = _characters(spoken)
            if text and len(text) <= MAX_SPOKEN and text == _characters(drawn):
                drop(drawn)
                for name in ("class", "style"):  # which would hide it
                    spoken.attrib.pop(name, None)
                break


def _characters(element: Any) -> str:
    """Return the letters and digits of an element."""
    return "".join(filter(str.isalnum, "".join(texts_in(element)))).lower()


def _replace_elements(document: Document) -> tuple[dict[str, list[Any]], list[Any]]:
    """Replace elements that stand for others by their content.

    Return the special elements of the tree after it, and the frames.
    """
    frames: list[Any] = []
    for _ in range(MAX_ROUNDS):
        found = special_elements(document)
        frames += found["iframe"]
        if not _replace(document, found):
            break
        document.special = None
    return special_elements(document), frames


def _replace(document: Document, found: dict[str, list[Any]]) -> bool:
    """Replace the elements of one round; return True if the tree has others after it."""
    is_changed = False
    for tag in ("iframe", *STANDING_IN, *MEDIA):
        is_changed |= keep_standing_in(found[tag], document.base)
    for tag in AMP_TAGS:
        is_changed |= bool(found[tag])
        replace_amp(found[tag])
    if found["iframe"]:
        is_changed |= _inline_frames(document, found["iframe"])
    if found["noscript"] and not is_changed:
        is_changed = _resolve_noscript(document.body, found["noscript"])
    return is_changed


def _drop_hidden(document: Document, body: Any, hidden: dict[Any, Hiding]) -> None:
    """Drop hidden elements, and warn of texts meant for a language model.

    Hidden content stays if a script or a click would show it. It also stays if it is
    longer than the visible text. Other parts with a text of their own are losses.
    """
    texts = {e: " ".join(texts_in(e)).split() for e in outermost(hidden)}
    faint = sum(len(t) for e, t in texts.items() if hidden[e] is Hiding.MAYBE)
    visible = 0
    if faint > FEW_WORDS or any(len(t) > UNCOVERED_WORDS for t in texts.values()):
        visible = word_total(body) - sum(map(len, texts.values()))
    least = max(visible, UNCOVERED_WORDS)
    speeches = {e: " ".join(t) for e, t in texts.items() if 0 < len(t) < SPEECH_WORDS}
    if not may_instruct(" ".join(speeches.values())):
        speeches = {}
    excerpts = []
    uncovered: set[str] = set()  # class names
    panels = Panels(body)
    for element, kind in hidden.items():
        if element not in texts and panels.are_gone_around(element):
            continue
        words = texts.get(element, [])
        own = words if element in texts else " ".join(texts_in(element)).split()
        speech = speeches.get(element)
        if element not in texts and 0 < len(own) < SPEECH_WORDS:
            speech = " ".join(own)
        excerpt = None if speech is None else instruction_in(speech)
        names = set((element.get("class") or "").split())
        if excerpt is None and (
            len(words) > least
            or may_be_shown(element, kind)
            or (kind is Hiding.MAYBE and faint > max(FAINT * visible, FEW_WORDS))
            or not (words or uncovered.isdisjoint(names))
            or (kind is Hiding.CLOSED and is_real_text(own) and panels.open(element))
        ):
            if len(words) > least:
                uncovered |= names
            continue
        is_lost = kind is not Hiding.UNSEEN and is_real_text(own)
        is_lost = is_lost and excerpt is None and not is_overlay(element)
        above = element.getparent()
        panels.drop(element)
        if excerpt is not None:
            excerpts.append(excerpt)
        elif is_lost:
            document.losses.add("hiddenPart", HIDDEN, text=" ".join(own), near=above)
    if excerpts:
        document.warnings.append(
            f"Hidden text that speaks to a language model was left out "
            f'({len(excerpts)}), such as "{excerpts[0]}".'
        )


def _inline_frames(document: Document, frames: list[Any]) -> bool:
    """Replace each ``iframe`` by a ``div`` that contains its ``srcdoc`` document.

    Nested frames follow their outer frames. Return True if the tree has new or fewer
    elements.
    """
    is_changed = False
    found = [(frame, 1) for frame in frames]
    for number, (frame, depth) in enumerate(found):  # the loop appends
        source, url = frame.get("srcdoc"), frame.get("src")
        frame.tag = "div"
        # Otherwise the content stands in for a frame that some browsers do not show.
        if source or not has_content(frame):
            is_changed |= len(frame) > 0
            empty(frame)
        frame.attrib.pop("srcdoc", None)
        frame.attrib.pop("src", None)
        frame.set("data-original-tag", "iframe")
        if url and "data-src" not in frame.attrib:  # else that of a lazy frame
            frame.set("data-src", url)
        if source and number < MAX_FRAMES and depth <= MAX_FRAME_DEPTH:
            page = parse(source, "")
            inner = page.body
            document.losses.extend(page.losses)
            found += [(nested, depth + 1) for nested in inner.iter("iframe")]
            frame.text = inner.text
            frame.extend(list(inner))
            is_changed = True
    return is_changed


def without_frames(document: Document) -> Document | None:
    """Return a copy of a cleaned page without frames, None for a page without any."""
    if document.root.find(_FRAMES) is None:
        return None
    bare = evolve(document, root=deepcopy(document.root), warnings=[], losses=Losses())
    for frame in bare.root.findall(_FRAMES):
        drop(frame)
    return bare


def _resolve_noscript(body: Any, blocks: list[Any]) -> bool:
    """Keep ``noscript`` only where it contains more words than all other parts of the page.

    Return True if something of it is in the tree now.
    """
    inside = sum(len("".join(block.itertext()).split()) for block in blocks)
    is_page = inside > 0 and not _has_words(body, 2 * inside)
    is_changed = is_page
    for block in blocks:
        if is_page:
            block.tag = "div"
        else:
            is_changed |= adopt_noscript_images(block)
            drop(block)
    return is_changed


def _move_streamed_parts(body: Any, templates: list[Any]) -> None:
    """Move the parts that React streams later to their positions.

    React sends such parts hidden, at the end of the page; a script moves them in the
    browser. An empty ``template`` marks each position.
    """
    by_name: dict[str, Any] = {}
    for template in templates:
        name = template.get("id", "")
        if name[:2] in _PLACEHOLDERS:
            by_name.setdefault(name[2:], template)
    if not by_name:
        return
    for part in list(body.iter("div")):
        name = part.get("id", "")
        if name[:2] != "S:" or part.get("hidden") is None or name[2:] not in by_name:
            continue
        template = by_name.pop(name[2:])
        if any(above is part for above in template.iterancestors()):
            continue
        drop(part)
        del part.attrib["hidden"]
        template.addnext(part)


def _has_words(body: Any, count: int) -> bool:
    """Return True if there are at least ``count`` words outside scripts and styles."""
    for element in body.iter():
        text = None if element.tag in _NO_WORDS else element.text
        for part in (text, element.tail):
            if part:
                count -= len(part.split())
        if count <= 0:
            return True
    return False


def _complete_urls(element: Any, tag: str, document: Document) -> None:
    """Make the URLs of ``element`` absolute, and load lazy images."""
    if tag == "img":
        load_lazy_image(element)
    for name in (
        (_URL_ATTRIBUTES[tag], "poster") if tag == "video" else (_URL_ATTRIBUTES[tag],)
    ):
        value = element.get(name)
        if value is None:
            continue
        if tag == "a" and (
            (value.lstrip().startswith("#") and value not in document.routes)
            or (_MASKED_EMAIL in value and _unmask_email(element))
        ):
            continue
        # An empty URL means the page itself in links and forms, no file in media.
        is_nothing = name in {"src", "poster"} and not value.strip()
        url = None if is_nothing else absolute(document.base, value)
        if url is not None and tag == "a":
            url = without_session(url)
        if url is None:
            del element.attrib[name]
        elif url != value:
            element.set(name, url)


def _unmask_email(link: Any) -> bool:
    """Restore an e-mail URL that Cloudflare masks; return True on success.

    The URL is in hexadecimal; all its bytes are XORed with the first byte. Cloudflare's
    script does the same in a browser, also with the text that stands for the address.
    """
    shown = next((e for e in link.iter() if e.get("data-cfemail")), None)
    code = link.get("href").partition("#")[2]
    if shown is not None:
        code = shown.get("data-cfemail")
    try:
        key, *values = bytes.fromhex(code)
        address = bytes(value ^ key for value in values).decode()
    except ValueError:
        return False
    if not address:
        return False
    link.set("href", f"mailto:{address}")
    name = address.partition("?")[0]
    if shown is not None:
        del shown[:]
        shown.text = name
    for element in link.iter():
        if element.text and _MASK.fullmatch(element.text):
            element.text = name
    return True


def clean_html(document: Document) -> str:
    """Serialise the tree as HTML without scripts, styles and event handlers.

    :func:`clean` leaves scripts and styles in the head, and event handlers everywhere.
    """
    etree.strip_elements(document.root, *_SCRIPTING, with_tail=False)
    for element in _WITH_EVENT_HANDLERS(document.root):
        for name in list(element.attrib):
            if name.startswith("on"):
                del element.attrib[name]
    text: str = etree.tostring(document.root, encoding="unicode", method="html")
    return clean_text(text)


def preformatted_html(text: str) -> str:
    """Return a plain text document as HTML."""
    return f"<html><body><pre>{escapes.escape(text, quote=False)}</pre></body></html>"
