"""Finds what a page embeds: documents, players, forms, and text that stands in for elements.

An embedded document is a file or page in an ``embed``, ``object``, ``frame`` or ``iframe``.
Its viewer may be a page that names the document in a parameter. Each player of a video or
sound becomes a link, so that all formats have it. Other players and frames are losses,
but for those of advertising.

For Markdown, which has no fields, the values of form fields become text: a chosen option
with a label, the text of a text area or a read-only field. Controls of the page, such as a
sort order or a search, are no content.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from attrs import frozen
from lxml import etree

from scraper_service.content.documents.files import KINDS, extension_of
from scraper_service.content.html.document import empty, parse
from scraper_service.content.losses import anchor_of, is_in
from scraper_service.content.page_urls import AD_HOSTS, absolute, is_blocked, is_web
from scraper_service.content.passes import texts_in
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scraper_service.content.html.document import Document

_LAZY_SOURCES = ("data-src", "data-lazy-src")  # of a frame, as cleaning leaves it
# Frames of other hosts are advertisements, trackers and forms more often than players.
_VIDEO = re.compile(
    r"(?:https?:)?//(?:(?:www\.)?youtube(?:-nocookie)?\.com/embed/"
    r"(?:(?P<youtube>(?!videoseries)[\w-]{11})(?![\w-]))?"
    r"|player\.vimeo\.com/video/|(?:www\.)?dailymotion\.com/embed/video/"
    r"|(?:www\.)?loom\.com/embed/|fast\.wistia\.(?:net|com)/embed/iframe/"
    r"|embed\.ted\.com/talks/|videopress\.com/(?:embed|v)/)(?!.*[?&]background=1)"
)
_KINDS = {
    "video": re.compile(
        r"//(?:[\w-]+\.)*(?:youtube(?:-nocookie)?\.com|vimeo\.com|dailymotion\.com|loom\.com"
        r"|wistia\.(?:net|com)|ted\.com|videopress\.com|twitch\.tv|brightcove\.(?:net|com)"
        r"|jwplayer\.com|jwplatform\.com|vidyard\.com|rutube\.ru|bilibili\.com"
        r"|streamable\.com|mediadelivery\.net|cloudflarestream\.com|kaltura\.com)/"
    ),
    "audio": re.compile(
        r"//(?:[\w-]+\.)*(?:soundcloud\.com|spotify\.com|podcasts\.apple\.com"
        r"|music\.apple\.com|anchor\.fm|buzzsprout\.com|simplecast\.com|podbean\.com"
        r"|libsyn\.com|megaphone\.fm|bandcamp\.com|mixcloud\.com|deezer\.com"
        r"|transistor\.fm|spreaker\.com|acast\.com|captivate\.fm)/"
    ),
}
_REASONS = {
    "frame": "A frame shows a page of its own; scrape its URL.",
    "media": "A script plays it: the player in the page has no controls, or no file.",
}
_TINY = re.compile(r"\s*[01](?:px)?\s*\Z")
_UNSEEN = re.compile(
    r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden"
    r"|(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|!|\Z))",
    re.IGNORECASE,
)
# Frames that are no content: checks, consent, sign-in, buttons, chats, analytics.
_MACHINERY = re.compile(
    r"recaptcha|hcaptcha\.com|challenges\.cloudflare\.com|/ns\.html|consent|cookie"
    r"|accounts\.google\.|(?:^|\.)facebook\.com/(?:plugins/(?:like|share|page|follow)|tr)"
    r"|platform\.twitter\.com/widgets/(?:follow|tweet)_button|/storage\.html"
    r"|js\.stripe\.com|(?:^|\.)ads?\d?\.|/(?:ads?|adserver|pixel|iframe-ads?|safeframe)/"
    r"|addthis|sharethis|(?:^|\.)livechat|tawk\.to|zendesk|drift\.com|hubspot.*/tracking"
)
MAX_EMBEDDED = 200  # documents of one page
MAX_TEXT = 20_000  # characters of a sentence that are searched for boilerplate
_SOURCES = ("src", "data-src", "data-lazy-src")
_FILES = [kind for kind in KINDS.values() if kind.name not in {"md", "feed"}]
_EXTENSIONS = frozenset(["pdf", *(name for kind in _FILES for name in kind.extensions)])
_TYPES = frozenset(
    ["application/pdf", "application/x-pdf"]
    + [mime for kind in _FILES for mime in kind.mime_types]
)
_PICTURES = frozenset("svg svgz png jpg jpeg gif webp avif bmp".split())
_MEDIA = frozenset("mp4 webm ogv mov m4v mp3 ogg oga wav m4a swf".split())
_MEDIA_TYPES = ("video/", "audio/", "application/x-shockwave", "application/x-java")
# Viewers of other sites by host, path and the parameter that names the document.
_VIEWERS = (
    ("docs.google.com", ("/viewer", "/gview", "/viewerng/viewer"), "url"),
    ("drive.google.com", ("/viewerng/viewer", "/viewer"), "url"),
    ("view.officeapps.live.com", ("/op/embed.aspx", "/op/view.aspx"), "src"),
)
#: Elements whose content a browser shows only instead of the element; further ones are
#: ``iframe`` and :data:`MEDIA`.
STANDING_IN = ("applet", "canvas", "noembed", "noframes", "object")
MEDIA = ("video", "audio")
_RAW = ("iframe", "noembed", "noframes")
_SENTENCE = re.compile(r"[^.!?\u3002\uff01\uff1f]*[.!?\u3002\uff01\uff1f]*")
_OF_BROWSERS = re.compile(
    r"browser|navigateur|navegador|braus|przegl|браузер|ブラウザ|浏览器|瀏覽器"
    r"|plug-?in|flash player|\bframes?\b|\bframeset|\btag\b|html ?5|cadres",
    re.IGNORECASE,
)
_OF_SUPPORT = re.compile(
    r"support|unterst|en charge|soporta|compatib|enable|cannot|can.t|kann|unable|install"
    r"|upgrade|does(?:n.t| not)|nicht|ondersteun|obsługuj|поддерж|サポート|対応|支持"
    r"|display|require|needs?\b",
    re.IGNORECASE,
)


@frozen
class Player:
    """A frame, video or sound of a cleaned page."""

    #: Its element; a frame is a ``div``.
    element: Any
    #: The nearest element around it with text, which tells whether it is content.
    around: Any


def find_players(document: Document) -> list[Player]:
    """Return the players of a cleaned tree with the elements around them.

    Main content may drop a player, which has no text, and keep the text next to it.
    """
    known: dict[Any, bool] = {}
    return [
        Player(element, anchor_of(element, known))
        for element in document.players
        if is_in(element, document.root)
    ]


def link_players(document: Document, players: Iterable[Player]) -> None:
    """Put a link to its page or file into each player; others become losses.

    Main content is chosen before: a player has no text of its own, and stays with the
    text next to it.
    """
    root = document.root
    for player in players:
        element = player.element
        is_frame = element.tag == "div"
        url = _url_of_frame(element) if is_frame else _url_of_media(element)
        target = absolute(document.base, url) if url else None
        title = element.get("title") or element.get("aria-label") or ""
        is_kept = is_in(element, root)
        if is_kept and target is not None and target.startswith(("http:", "https:")):
            name = "Video" if is_frame else element.tag.capitalize()
            link = etree.SubElement(element, "a", href=target)
            link.text = " ".join(title.split()) or name
        elif (is_kept or is_in(player.around, root)) and _is_seen(element):
            _record(document, element, title)


def _record(document: Document, element: Any, title: str) -> None:
    """Record a player that no format contains, unless it has no content of its own."""
    if element.tag == "div":
        names = (
            *_LAZY_SOURCES,
            *(name for name in element.attrib if name[-4:] == "-src"),
        )
        url = next(filter(None, (element.get(n, "").strip() for n in names)), "")
        target = absolute(document.base, url) if url else None
        if (
            len(element)
            or element.text
            or not is_web(target)
            or _is_machinery(str(target))
        ):
            return
        kind = next(
            (k for k, hosts in _KINDS.items() if hosts.search(str(target))), "frame"
        )
    else:
        source = element if element.get("src") else element.find("source")
        url = "" if source is None else source.get("src") or ""
        target = absolute(document.base, url) if url else None
        if element.find(".//a") is not None or _is_decoration(element, url):
            return
        kind = element.tag
    document.losses.add(
        kind,
        _REASONS["frame" if element.tag == "div" else "media"],
        url=target if is_web(target) else None,
        text=title,
    )


def _is_decoration(media: Any, url: str) -> bool:
    """Return True for a video that plays by itself, and for a sound without controls."""
    if "controls" in media.attrib:
        return False
    if media.tag == "audio":
        return not url
    return not {"autoplay", "loop"}.isdisjoint(media.keys()) or (
        not url and not (media.get("class") or media.get("id"))
    )


def _is_seen(element: Any) -> bool:
    """Return False for a player of no size, and for a hidden one."""
    return (
        element.get("aria-hidden") != "true"
        and element.get("hidden") is None
        and not any(
            _TINY.match(element.get(name) or "") for name in ("width", "height")
        )
        and _UNSEEN.search(element.get("style") or "") is None
    )


def _is_machinery(url: str) -> bool:
    """Return True for the frame of an advertisement, a tracker or a form's check."""
    parts = url_parts(url)
    host = (parts.hostname or "").removeprefix("www.")
    return (
        is_blocked(host, AD_HOSTS)
        or _MACHINERY.search(f"{host}{parts.path}") is not None
    )


def is_player(url: str) -> bool:
    """Return True for the URL of a known player of videos."""
    return _VIDEO.match(url) is not None


def _url_of_frame(frame: Any) -> str | None:
    """Return the URL of a video of a known host; None for other frames."""
    if len(frame):
        return None
    for name in _LAZY_SOURCES:
        url = frame.get(name, "").strip()
        match = _VIDEO.match(url) if url else None
        if match is not None:
            number = match["youtube"]
            return f"https://www.youtube.com/watch?v={number}" if number else url
    return None


def _url_of_media(media: Any) -> str | None:
    """Return the URL of a ``video`` or ``audio`` that a reader can start.

    Without ``controls`` a video is decoration, and a sound is not displayed.
    """
    if "controls" not in media.attrib or media.find(".//a") is not None:
        return None
    source = media if media.get("src") else media.find("source")
    return None if source is None else source.get("src")


@frozen(eq=False)
class Embedded:
    """A document that a page embeds and shows."""

    #: The absolute URL of the element; None for a document inside the page.
    url: str | None
    #: The URL of the document, which differs from ``url`` in a viewer.
    target: str | None
    #: True for a PDF file or a file of an office program.
    is_file: bool
    #: True for a frame of a frameset.
    is_frame: bool
    #: The element that stays in the tree as long as the document is content.
    anchor: Any

    @property
    def urls(self) -> Iterator[str]:
        """The URLs of the element and of the document, each once."""
        return (x for x in dict.fromkeys((self.url, self.target)) if x is not None)


def find_embedded(document: Document) -> list[Embedded]:
    """Return the documents that a page embeds and shows, each once, in document order.

    Players of videos, pictures and plug-ins are no documents. Call this before the page
    is cleaned.
    """
    found: dict[str, Embedded] = {}
    embeds = document.parts.embeds[:MAX_EMBEDDED]
    for element in reversed(embeds):  # libxml2 keeps them in the head without <body>
        if element.tag == "object" and element.getparent().tag == "head":
            document.body.insert(0, element)
    for element in embeds:
        each = _read_embedded(element, document.base)
        if each is not None:
            found.setdefault(each.target or "", each)
    return list(found.values())


def _read_embedded(element: Any, base: str) -> Embedded | None:
    names = ("data",) if element.tag == "object" else _SOURCES
    value = next((x for name in names if (x := element.get(name, "").strip())), "")
    # The document of a ``srcdoc`` stands in the page.
    if not value or element.get("srcdoc") or not _is_shown(element):
        return None
    kind = element.get("type", "").partition(";")[0].strip().lower()
    url = absolute(base, value)
    if value[:5].lower() == "data:":
        is_pdf = value[5:20].lower().startswith("application/pdf")
        if not is_pdf:
            return None
        return Embedded(None, None, True, False, anchor_of(element))
    if url is None or not is_web(url) or is_player(url):
        return None
    is_plugin = element.tag in {"embed", "object"}
    if is_plugin and (_is_picture(url, kind) or _is_media(url, kind)):
        return None
    target = document_url(url) or url
    is_file = kind in _TYPES or extension_of(target) in _EXTENSIONS
    return Embedded(url, target, is_file, element.tag == "frame", anchor_of(element))


def document_url(url: str) -> str | None:
    """Return the URL of the document that a viewer shows; None for other pages."""
    parts = url_parts(url)
    if not parts.query:
        return None
    name = "file"  # PDF.js
    for host, paths, parameter in _VIEWERS:
        if parts.hostname == host and parts.path in paths:
            name = parameter
    try:
        values = parse_qs(parts.query, max_num_fields=50).get(name)
    except ValueError:
        return None
    target = absolute(url, values[0]) if values else None
    if target is None or not is_web(target):
        return None
    is_file = name != "file" or extension_of(target) in _EXTENSIONS
    return target if is_file or "viewer" in parts.path.lower() else None


def _is_picture(url: str, kind: str) -> bool:
    return kind.startswith("image/") or (not kind and extension_of(url) in _PICTURES)


def _is_media(url: str, kind: str) -> bool:
    return kind.startswith(_MEDIA_TYPES) or extension_of(url) in _MEDIA


def _is_shown(element: Any) -> bool:
    """Return False for an element of no size, or in one that browsers do not show."""
    if {element.get("width"), element.get("height")} & {"0", "1", "0px", "1px"}:
        return False
    around = [element, *element.iterancestors()]
    return not any(
        each.tag in {"noscript", "template"}
        or "hidden" in each.attrib
        or "display:none" in each.get("style", "").replace(" ", "").lower()
        for each in around
    )


def standing_in_words(
    elements: Iterable[Any], *, boilerplate_only: bool = False
) -> int:
    """Return the number of words that stand in for elements of a page of few words.

    ``boilerplate_only`` counts sentences such as "Your browser does not support frames".
    """
    count = 0
    seen: set[Any] = set()  # elements inside each other count once
    for element in elements:
        if element in seen:
            continue
        seen.update(element.iter(*STANDING_IN, *MEDIA, "iframe"))
        for text in _texts(element):
            count += len(text.split())
            if boilerplate_only:
                count -= len(without_boilerplate(text).split())
    return count


def _texts(element: Any) -> Iterator[str]:
    for each in element.iter():
        if each.text and isinstance(each.tag, str):  # else a comment
            yield each.text
        if each.tail and each is not element:
            yield each.tail


def keep_standing_in(elements: Iterable[Any], base: str) -> bool:
    """Make the content of elements that browsers cannot show content of the tree.

    An ``object`` with a picture becomes an ``img``. Sentences about what a browser does
    not support go. Elements without content stay as they are, and are dropped later.
    Return True if the tree has new or fewer elements.
    """
    is_changed = False
    for number, element in enumerate(elements):
        if (
            element.tag in _RAW
            and number < MAX_EMBEDDED
            and "<" in (element.text or "")
        ):
            _parse_raw(element)
            is_changed = True
        for each in element.iter():
            if each.text and isinstance(each.tag, str):
                each.text = without_boilerplate(each.text)
            if each is not element and each.tail:
                each.tail = without_boilerplate(each.tail)
        if element.tag == "object" and _becomes_picture(element, base):
            is_changed = True
            continue
        if element.tag in STANDING_IN and has_content(element):
            element.set("data-original-tag", element.tag)
            element.tag = "div"
    return is_changed


def _parse_raw(element: Any) -> None:
    """Parse the content of an element, which an HTML parser leaves as text."""
    inner = parse(element.text, "").body
    etree.strip_elements(inner, *_RAW, "script", "style", "template", with_tail=False)
    element.text = inner.text
    element.extend(list(inner))


def _becomes_picture(element: Any, base: str) -> bool:
    url = absolute(base, element.get("data", "").strip())
    kind = element.get("type", "").strip().lower()
    if not is_web(url) or not _is_picture(str(url), kind):
        return False
    text = " ".join("".join(element.itertext()).split())
    name = element.get("aria-label") or element.get("title") or text
    empty(element)
    element.attrib.clear()
    element.tag = "img"
    element.set("src", str(url))
    element.set("alt", name)
    return True


def has_content(element: Any) -> bool:
    """Return True if an element has a text, picture or table in it."""
    if next(element.iter("img", "table"), None) is not None:
        return True
    return any(not text.isspace() for text in _texts(element))


def without_boilerplate(text: str) -> str:
    """Return a text without sentences about what a browser does not support."""
    if len(text) > MAX_TEXT or not _OF_BROWSERS.search(text):
        return text
    return "".join(
        " " if _OF_BROWSERS.search(part) and _OF_SUPPORT.search(part) else part
        for part in _SENTENCE.findall(text)
    )


# -- values of form fields -------------------------------------------------------------

MAX_FIELDS = 500  # of a page; later ones are not shown
MAX_VALUE = 20_000  # characters of a text area
MAX_LABEL = 80  # characters
MAX_LABEL_PARTS = 20  # elements
NOT_SHOWN = "The value of a form field is not shown; the format html has the field."

_TAGS = ("select", "textarea", "input", "meter", "progress")
_INPUT_TYPES = frozenset(
    "text email url tel number date time datetime-local month week".split()
)
# Names and labels of fields that steer the page.
_CONTROL = re.compile(
    r"sort|order|lang|locale|currency|country|quantity|qty|per.?page|limit|theme|filter|search"
    r"|query|view|page|newsletter|e-?mail|captcha|csrf|token|amount|menge|anzahl|sprache"
    r"|trier|cantidad|quantité|quantità",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"\W*(?:(?:please )?(?:select|choose|pick|any|all|none)\b|bitte|(?:aus)?wählen|choisi"
    r"|sélection|elige|elegir|selecc|scegli|selezion|escolha)|\W*\Z",
    re.IGNORECASE,
)


def show_form_values(document: Document) -> None:
    """Insert the values of the fields in a page's final tree as text; record the others."""
    found: dict[str, list[Any]] = {tag: [] for tag in _TAGS}
    for element in document.body.iter(*_TAGS):
        found[element.tag].append(element)
    if not any(found.values()):
        return
    selects, areas, inputs, meters, bars = (
        each[:MAX_FIELDS] for each in found.values()
    )
    fields = _Fields(document)
    for field in selects:
        fields.show_choice(field)
    for field in areas:
        fields.show_text(field)
    for field in inputs:
        fields.show_input(field)
    for field in meters + bars:
        value, most = field.get("value"), field.get("max")
        if value and not "".join(texts_in(field)).strip():
            field.text = f"{value}/{most}" if most else value


class _Fields:
    """The form fields of one page."""

    def __init__(self, document: Document):
        self._losses = document.losses
        labels = list(document.body.iter("label"))
        self._labels = {each.get("for"): each for each in reversed(labels)}

    def show_choice(self, field: Any) -> None:
        """Show the options that a list has selected, if it has a label."""
        chosen = [each for each in field.iter("option") if "selected" in each.attrib]
        texts = [" ".join("".join(texts_in(option)).split()) for option in chosen]
        shown = ", ".join(text for text in texts if not _PROMPT.match(text))[:MAX_VALUE]
        if not shown or self._is_control(field):
            return
        if self._has_label(field):
            _insert(field, "span", shown)
        else:
            self._record(field, shown)

    def show_text(self, field: Any) -> None:
        """Show the text of a text area, unless it is markup or very long."""
        text = "".join(texts_in(field)).strip("\n")
        if len(text) > MAX_VALUE or text.lstrip()[:1] == "<":
            self._record(field, text)
        elif text.strip():
            _insert(field, "pre" if "\n" in text else "span", text)

    def show_input(self, field: Any) -> None:
        """Show the value of a field that readers cannot change."""
        value = " ".join(field.get("value", "").split())[:MAX_VALUE]
        if not value or field.get("type", "text").lower() not in _INPUT_TYPES:
            return
        if "readonly" in field.attrib or "disabled" in field.attrib:
            _insert(field, "span", value)
        elif not self._is_control(field) and self._has_label(field):
            self._record(field, value)

    def _record(self, field: Any, value: str) -> None:
        label = self._label_of(field).rstrip(": ")
        text = f"{label}: {value[:MAX_VALUE]}" if label else value[:MAX_VALUE]
        self._losses.add("formField", NOT_SHOWN, text=text, near=field)

    def _is_control(self, field: Any) -> bool:
        names = (field.get(name, "")[:200] for name in ("name", "id", "class", "type"))
        return _CONTROL.search(" ".join((*names, self._label_of(field)))) is not None

    def _has_label(self, field: Any) -> bool:
        """Return True if a label stands before a field, or around it."""
        if self._label(field) is not None or field.getparent().tag in {"td", "dd"}:
            return True
        text = _text_before(field)
        before = field.getprevious()
        if before is not None and not text.strip() and len(before) <= 1:
            text = "".join(texts_in(before))
        return text.rstrip().endswith(":")

    def _label(self, field: Any) -> Any:
        around = next(field.iterancestors("label"), None)
        named = self._labels.get(field.get("id")) if field.get("id") else None
        return named if around is None else around

    def _label_of(self, field: Any) -> str:
        """Return the text of the label of a field, else its ``aria-label``."""
        label = self._label(field)
        if label is None:
            return str(field.get("aria-label") or "")[:MAX_LABEL]
        texts = []
        for each in islice(label.iter(etree.Element), MAX_LABEL_PARTS):
            if each.tag not in {"option", "textarea"}:
                texts.append(each.text)
            texts.append(None if each is label else each.tail)
        return " ".join(" ".join(filter(None, texts)).split())[:MAX_LABEL]


def _text_before(field: Any) -> str:
    before = field.getprevious()
    text = field.getparent().text if before is None else before.tail
    return text or ""


def _insert(field: Any, tag: str, text: str) -> None:
    """Insert the value of a field after it."""
    is_apart = tag == "pre" or _text_before(field)[-1:].isspace()
    shown = etree.Element(tag)
    shown.text = text if is_apart else f" {text}"
    shown.tail, field.tail = field.tail, None
    field.addnext(shown)
