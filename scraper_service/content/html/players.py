"""Puts a link into each player of a video or sound, so that all formats have it.

Other players and frames are losses, but for those of advertising.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import frozen
from lxml import etree

from scraper_service.content.html.page_urls import absolute, is_web
from scraper_service.content.losses import anchor_of, is_in
from scraper_service.options.urls import url_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.html.document import Document

#: The hosts of advertising, tracking and consent; all their subdomains count.
AD_HOSTS = frozenset(
    """
    2mdn.net adform.net adlightning.com admob.com adnxs.com adroll.com ads-twitter.com
    adsafeprotected.com adsrvr.org adsymptotic.com amazon-adsystem.com amplitude.com
    analytics.google.com analytics.tiktok.com app-measurement.com appnexus.com
    atdmt.com bat.bing.com bidswitch.net bluekai.com bounceexchange.com branch.io
    casalemedia.com chartbeat.com chartbeat.net clarity.ms connect.facebook.net
    contextweb.com cookiebot.com cookielaw.org crazyegg.com criteo.com criteo.net
    crwdcntrl.net demdex.net didomi.io doubleclick.net doubleverify.com everesttech.net
    exelator.com facebook.net flashtalking.com fullstory.com google-analytics.com
    googleadservices.com googlesyndication.com googletagmanager.com googletagservices.com
    gumgum.com heapanalytics.com hotjar.com hotjar.io imrworldwide.com indexww.com
    innovid.com intercom.io iubenda.com krxd.net lijit.com liveramp.com mathtag.com
    media.net mediavine.com mixpanel.com moatads.com mookie1.com mouseflow.com
    newrelic.com nr-data.net omnitagjs.com omtrdc.net onetrust.com openx.net
    optimizely.com outbrain.com parsely.com perfectaudience.com permutive.com
    pubmatic.com quantcast.com quantcount.com quantserve.com rlcdn.com rubiconproject.com
    scorecardresearch.com segment.com segment.io serving-sys.com sharethrough.com
    smartadserver.com smartlook.com spotxchange.com stackadapt.com statcounter.com
    taboola.com tapad.com teads.tv tremorhub.com tribalfusion.com trustarc.com
    truste.com tynt.com usercentrics.eu yieldmo.com zedo.com zemanta.com
    """.split()
)
_SOURCES = ("data-src", "data-lazy-src")  # of a frame, as cleaning leaves it
# Frames of other hosts are advertisements, trackers and forms more often than players.
_VIDEO = re.compile(
    r"(?:https?:)?//(?:(?:www\.)?youtube(?:-nocookie)?\.com/embed/"
    r"(?:(?P<youtube>(?!videoseries)[\w-]{11})(?![\w-]))?"
    r"|player\.vimeo\.com/video/|(?:www\.)?dailymotion\.com/embed/video/"
    r"|(?:www\.)?loom\.com/embed/|fast\.wistia\.(?:net|com)/embed/iframe/"
    r"|embed\.ted\.com/talks/|videopress\.com/(?:embed|v)/)(?!.*[?&]background=1)"
)
_KINDS = (
    (
        "video",
        re.compile(
            r"//(?:[\w-]+\.)*(?:youtube(?:-nocookie)?\.com|vimeo\.com|dailymotion\.com|loom\.com"
            r"|wistia\.(?:net|com)|ted\.com|videopress\.com|twitch\.tv|brightcove\.(?:net|com)"
            r"|jwplayer\.com|jwplatform\.com|vidyard\.com|rutube\.ru|bilibili\.com"
            r"|streamable\.com|mediadelivery\.net|cloudflarestream\.com|kaltura\.com)/"
        ),
    ),
    (
        "audio",
        re.compile(
            r"//(?:[\w-]+\.)*(?:soundcloud\.com|spotify\.com|podcasts\.apple\.com"
            r"|music\.apple\.com|anchor\.fm|buzzsprout\.com|simplecast\.com|podbean\.com"
            r"|libsyn\.com|megaphone\.fm|bandcamp\.com|mixcloud\.com|deezer\.com"
            r"|transistor\.fm|spreaker\.com|acast\.com|captivate\.fm)/"
        ),
    ),
)
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


@frozen
class Player:
    """A frame, video or sound of a cleaned page."""

    #: Its element; a frame is a ``div``.
    element: Any
    #: The nearest element around it with text, which tells whether it is content.
    place: Any


def find_players(document: Document) -> list[Player]:
    """Return the players of a cleaned tree with their places.

    Main content may drop a player, which has no text, and keep the text beside it.
    """
    return [
        Player(element, anchor_of(element))
        for element in document.players
        if is_in(element, document.root)
    ]


def link_players(document: Document, players: Iterable[Player]) -> None:
    """Put a link to its page or file into each player; others become losses.

    Main content is chosen before: a player has no text of its own, and stays with the
    text beside it.
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
        elif (is_kept or is_in(player.place, root)) and _is_seen(element):
            _record(document, element, title)


def _record(document: Document, element: Any, title: str) -> None:
    """Record a player that no format contains, unless it has no content of its own."""
    if element.tag == "div":
        names = (*_SOURCES, *(name for name in element.attrib if name[-4:] == "-src"))
        url = next(filter(None, (element.get(n, "").strip() for n in names)), "")
        target = absolute(document.base, url) if url else None
        if (
            len(element)
            or element.text
            or not is_web(target)
            or _is_machinery(str(target))
        ):
            return
        kind = next((k for k, hosts in _KINDS if hosts.search(str(target))), "frame")
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
    names = host.split(".")
    return (
        any(".".join(names[n:]) in AD_HOSTS for n in range(max(len(names) - 1, 0)))
        or _MACHINERY.search(f"{host}{parts.path}") is not None
    )


def is_player(url: str) -> bool:
    """Return True for the URL of a known player of videos."""
    return _VIDEO.match(url) is not None


def _url_of_frame(frame: Any) -> str | None:
    """Return the URL of a video of a known host; None for other frames."""
    if len(frame):
        return None
    for name in _SOURCES:
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
