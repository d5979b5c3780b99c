"""The parts of a sentence that set an option of a crawl: counts, pauses, switches.

Each is taken out of the sentence where it is found; what is left speaks of places.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from attrs import frozen

from scraper_service.discovery.crawl_prompt.numbers import MAX_PAGES

MAX_DELAY_S = 60

_PAGES = (
    r"(?:pages?|urls?|documents?|docs|articles?|posts?|items?|entries|results?|records?"
    r"|seiten?|artikel|dokumente?|paginas?|resultats?|resultados?|articulos?)"
)
_STEPS = (
    r"(?:levels?|clicks?|hops?|links?(?: deep)?|steps?|ebenen?|klicks?|niveaux?|clics?"
    r"|niveles|nivel|liens?|enlaces?)"
)
_SECONDS = r"(?:seconds?|secs?|s|sekunden?|sek|secondes?|segundos?)"
_TIME = (
    rf"(?:{_SECONDS}|milliseconds?|millisekunden?|ms|minutes?|mins?|minuten?|minutos?)"
)
_MOST = (
    r"(?:at (?:the )?most|up to|no more than|not more than|never more than|maximum(?: of)?"
    r"|max(?:imal)?\.?(?: of)?|a limit of|limit(?:ed)?(?: it| the crawl| yourself)?"
    r"(?: to| of| at|:)?|less than|fewer than|stop (?:after|at)|the first|first|top|just"
    r"|only|about|around|hochstens|bis zu|nicht mehr als|maximal|die ersten|nur"
    r"|au plus|au maximum|pas plus de|jusqu'a|les|seulement"
    r"|como maximo|maximo|hasta|no mas de|las primeras|solo|limite(?: de)?)"
)
_MOST_AFTER = (
    r"(?:at (?:the )?most|max(?:imum)?|tops|or (?:less|fewer)|in total|altogether"
    r"|hochstens|maximal|au (?:plus|maximum)|maximum|como maximo|maximo)"
)
_SITE = r"(?:web ?site|site|domain|host|seite|domaine?|web|sitio|dominio|webseite)"
_NO = (
    r"(?:no|not|never|without|excluding|exclude|skip(?:ping)?|ignor\w+|avoid\w*|except"
    r"|stay (?:off|out of|away from)|don'?t|do not|leave out|omit\w*|drop|kein\w*|ohne"
    r"|nicht|sans|pas|sin|ni|aucun\w*|ignora)"
)
_SUBDOMAINS = r"(?:sub-?domains?|subdomanen|sous-?domaines?|subdominios?)"
_OUTSIDE = (
    r"(?:external (?:links?|sites?|pages?|domains?|web ?sites?|urls?)|outbound links?"
    r"|(?:links? (?:to|on) )?(?:other|foreign) (?:web ?)?(?:sites?|domains?|hosts?)"
    r"|off-?site links?|externe[nr]? (?:links?|seiten)|liens externes|enlaces externos)"
)
_SITEMAPS = r"(?:site ?maps?(?:\.xml)?)"
_QUERY = r"(?:(?:query|url|get)[ -]?(?:strings?|parameters?|params?)|querystrings?)"
_SIMILAR = r"(?:similar|duplicate[d]?|near-?duplicate|equal|alike)"
_LATER_NO = r"(?: [\w']+){0,2} (?:not|nicht|pas|no|out|off|alone)\b"
_GAP = r"(?: [\w']+){0,3}? "  # up to three words between two


@frozen
class Setting:
    """A way to say something: ``take`` turns the match into options."""

    pattern: re.Pattern[str]
    take: Callable[[re.Match[str]], dict[str, Any]]


def _fixed(**values: Any) -> Callable[[re.Match[str]], dict[str, Any]]:
    return lambda _: values


def _number(name: str) -> Callable[[re.Match[str]], dict[str, Any]]:
    return lambda match: {name: int(match["n"])}


def _delay(match: re.Match[str]) -> dict[str, Any]:
    number, unit = float(match["n"].replace(",", ".")), match["unit"]
    if unit.startswith(("ms", "milli")):
        number /= 1000
    elif unit.startswith("min"):
        number *= 60
    return {"delay_s": max(1, math.ceil(number))}


def _rate(match: re.Match[str]) -> dict[str, Any]:
    number = int(match["n"])
    seconds = {"s": 1, "m": 60, "h": 3600}[match["unit"][0]]
    return {"delay_s": max(1, math.ceil(seconds / number))} if number else {}


def _says(
    pattern: str,
    take: Callable[[re.Match[str]], dict[str, Any]] | None = None,
    **values: Any,
) -> Setting:
    return Setting(re.compile(pattern, re.ASCII), take or _fixed(**values))


_N = r"(?P<n>\d{1,9})"
_DECIMAL = r"(?P<n>\d{1,6}(?:[.,]\d{1,3})?)"
_UNIT = rf"(?P<unit>{_TIME})\b"

# In this order: what is more exact comes first.
SETTINGS = (
    # -- pauses
    _says(
        rf"(?:(?:wait|pause|delay|sleep|rest|crawl-delay|warte\w*|attend\w*|espera\w*"
        rf"|pausa)\b[^.;,\d]{{0,30}}?){_DECIMAL} ?-?{_UNIT}"
        r"(?: (?:pause|delay|break))?"
        r"(?: (?:between|zwischen|entre|after|before)[^.;,]{0,40})?",
        _delay,
    ),
    _says(
        rf"(?:with |mit |avec |con )?(?:an? )?{_DECIMAL} ?-?{_UNIT}"
        r" (?:pause|delay|break|wait|gap|(?:between|zwischen|entre|abstand)[^.;,]{0,40})",
        _delay,
    ),
    _says(
        r"(?:(?:1|a|one) (?:request|page|call|hit|seite|page|pagina)s? )?"
        rf"(?:every|each|per|alle|toutes les|cada) {_DECIMAL} ?-?{_UNIT}",
        _delay,
    ),
    _says(
        rf"(?:{_MOST} )?{_N} (?:requests?|pages?|calls?|hits?) (?:a|an|per|each|every|pro|par)"
        r" (?P<unit>second|minute|hour|sekunde|stunde|minuto)",
        _rate,
    ),
    # -- depth
    _says(
        rf"(?:{_MOST} )?(?:(?:crawl |link |click )?(?:depth|tiefe|profondeur|profundidad))"
        rf"(?: of| is|:|=| von| de)?(?: {_MOST})? ?{_N}",
        _number("max_discovery_depth"),
    ),
    _says(
        r"(?:(?:do not|don'?t|never|not|nicht|pas|no)(?: \w+){0,3}? )?"
        r"(?:(?:deeper|further|tiefer|beyond|farther) (?:than|als) |plus (?:de|loin que) )?"
        rf"(?:follow\w* )?(?:{_MOST} )?{_N} {_STEPS}\b(?: (?:deep|down|away|tief|max))?"
        r"(?: (?:from|of|von) the (?:start|first|home)(?: ?page)?)?",
        _number("max_discovery_depth"),
    ),
    _says(
        r"(?:only |just )?(?:pages? |what is |those )?(?:directly )?linked (?:directly )?"
        r"(?:from|on) (?:the|this) (?:start|home|first|front|main)? ?page",
        max_discovery_depth=1,
    ),
    # -- how many
    _says(
        r"(?:only|just|nothing but|nur|seulement|solo)(?: the| this| die| diese| la| cette"
        r"| esta)?(?: (?:single|one|1))?"
        r" (?:home ?page|front ?page|landing ?page|start ?page|startseite"
        r"|page d'accueil|pagina de inicio|this page|single page)\b",
        limit=1,
    ),
    _says(r"(?:only|just) (?:this|the given|1) (?:1 )?(?:page|url)\b", limit=1),
    _says(
        rf"{_MOST} {_N}(?: {_PAGES})?(?: {_MOST_AFTER})?\b(?! ?(?:{_STEPS}|{_TIME})\b)",
        _number("limit"),
    ),
    _says(rf"{_N} {_PAGES}(?: {_MOST_AFTER})?\b", _number("limit")),
    _says(
        rf"(?:max(?:imum|imal)?|limit)(?: (?:number|count|amount) of)? {_PAGES}"
        rf"(?: is| of|:|=)? ?{_N}",
        _number("limit"),
    ),
    _says(rf"\b{_N} {_MOST_AFTER}\b", _number("limit")),
    # -- where
    _says(rf"{_SUBDOMAINS}{_LATER_NO}", allow_subdomains=False),
    _says(rf"{_OUTSIDE}{_LATER_NO}", allow_external_links=False),
    _says(
        rf"\b{_NO}{_GAP}(?:other )?{_SUBDOMAINS}|{_NO} {_SUBDOMAINS}",
        allow_subdomains=False,
    ),
    _says(
        r"(?:(?:also|and|with|including|include|follow\w*|crawl|allow|mit|avec|con|incluye"
        rf"|inclus|auch)\b{_GAP})?(?:all |the |its |any |auch |alle |les |los )*{_SUBDOMAINS}",
        allow_subdomains=True,
    ),
    _says(rf"\b{_NO}{_GAP}{_OUTSIDE}|{_NO} {_OUTSIDE}", allow_external_links=False),
    _says(
        rf"(?:do not|don'?t|never|without) (?:leav\w+|go\w* (?:outside|off|beyond)) (?:of )?"
        rf"(?:the|this|my|our|same)? ?{_SITE}"
        rf"|(?:stay|remain|keep) (?:on|within|inside|in|to) (?:the|this|that|one|1)?"
        rf"(?: same)? ?{_SITE}",
        allow_external_links=False,
    ),
    _says(
        rf"(?:(?:also|and|with|including|include|follow\w*|crawl|allow|mit|avec|con)\b{_GAP})?"
        rf"(?:all |the |any )*{_OUTSIDE}",
        allow_external_links=True,
    ),
    _says(
        rf"(?:the |die |der |das |le |el )?(?:whole|entire|complete|full|ganze?[ns]?|gesamte?[ns]?"
        rf"|komplette?[ns]?|vollstandige?[ns]?) {_SITE}"
        rf"|(?:everything|anything|all pages|every page) (?:on|of|from) (?:the|this|their) {_SITE}"
        rf"|all of (?:the|this|their) {_SITE}"
        r"|tout le (?:site|domaine)|le site (?:entier|complet)"
        r"|todo el (?:sitio|dominio)(?: web)?|el sitio (?:entero|completo)",
        crawl_entire_domain=True,
    ),
    # -- sitemaps
    _says(
        rf"(?:use |using |fetched |read |take )?(?:only|just|solely|nur|uniquement|solo)"
        r"(?: \w+){0,3}?"
        rf" {_SITEMAPS}"
        r"|(?:\w+ )?(?:listed |urls |pages |what is |found )*(?:from|in|by|of|aus|auf|via|du|del)"
        rf" (?:the |der |dem )?{_SITEMAPS} (?:only|alone|nur|uniquement)"
        rf"|{_SITEMAPS}[ -]only",
        sitemap="only",
    ),
    _says(rf"\b{_NO}{_GAP}{_SITEMAPS}|{_NO} {_SITEMAPS}", sitemap="skip"),
    _says(
        rf"(?:us\w+|includ\w+|with|read|also|mit)(?: \w+){{0,2}}? {_SITEMAPS}",
        sitemap="include",
    ),
    # -- which addresses are one page
    _says(
        rf"(?:keep|respect|consider|treat)\b{_GAP}{_QUERY}[^.;,]{{0,40}}",
        ignore_query_parameters=False,
    ),
    _says(
        rf"(?:{_NO}|strip\w*|remov\w+|disregard\w*|discard\w*|cut(?: off)?)\b"
        rf"(?:{_GAP}| ){_QUERY}",
        ignore_query_parameters=True,
    ),
    _says(
        rf"(?:treat|count|consider|keep|regard)\b[^.;,]{{0,20}}?{_SIMILAR} (?:urls?|pages|addresses|links)"
        r"(?: (?:as|apart|separate)[^.;,]{0,30})?"
        r"|(?:do not|don'?t|no|without) (?:de-?duplicat\w+)",
        deduplicate_similar_urls=False,
    ),
    _says(
        rf"(?:{_NO}|merge|collapse)\b(?:{_GAP}| )(?:{_SIMILAR} (?:urls?|pages|addresses|content|links)|duplicates?)"
        r"|de-?duplicat\w+(?: \w+)?",
        deduplicate_similar_urls=True,
    ),
)
_GENTLE = re.compile(
    r"\b(?:slow(?:ly| down)?|gentl[ey]|careful(?:ly)?|langsam|lentement|despacio)\b"
)


def taken(text: str) -> tuple[dict[str, Any], str]:
    """Return the options that a folded sentence sets, and the sentence without them."""
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        while match := setting.pattern.search(text):
            if not match[0].strip():
                break
            for name, value in setting.take(match).items():
                values.setdefault(name, value)
            text = f"{text[: match.start()]} , {text[match.end() :]}"
    if _GENTLE.search(text):
        values.setdefault("delay_s", 1)
        text = _GENTLE.sub(" , ", text)
    return {
        name: value for name, value in values.items() if _is_allowed(name, value)
    }, text


def _is_allowed(name: str, value: Any) -> bool:
    if name == "limit":
        return bool(1 <= value <= MAX_PAGES)
    if name == "delay_s":
        return bool(value <= MAX_DELAY_S)
    return True
