"""Finds pages that stand in for content: errors, parked domains, default pages of servers.

A page is such a page only if it has little text, and if its heading or its text is the
message. Articles about such pages have more text, or more in their heading.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scraper_service.content.words import AnyCase

if TYPE_CHECKING:
    from collections.abc import Iterator

# Limits in words outside menus and forms, of pages with nothing but a message.
SHORT = 60
MAX_HEADING = 300  # characters
MAX_TEXT = 3000  # characters that are searched
LEAST_SHARE = 0.6  # of the characters of a heading that are the message

_SEPARATOR = re.compile(r"\s+[|\u2013\u2014·•»«:/-]+\s+|\s*[|»«·•]\s*")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2019\u2018\u02bc\u00b4`", "'"))
_ABOUT = AnyCase(
    r"\b(?:how to|how do|how can|why (?:do|does|is|are|your)|what (?:is|are|does|do|to)|guide|"
    r"fix(?:es|ed|ing)?|tutorial|design(?:s|ing)?|explain(?:s|ed|ing)?|understand(?:ing)?|"
    r"tips|best|troubleshoot(?:ing)?|solv(?:e|es|ed|ing)|documentation|docs|"
    r"handling|custom|create|creating|build(?:ing)?|anleitung|beheben|lösen|wie (?:man|sie)|"
    r"warum|was (?:ist|tun)|comment|pourquoi|résoudre|corriger|cómo|por qué|solucionar|"
    r"arreglar|come (?:risolvere|si)|perché|risolvere|como (?:corrigir|resolver)|"
    r"corrigir)\b|\?",
)


# Pieces of the phrases below. What stands between them is bounded, for linear searches.
_SIGH = r"(?:(?:oops|ooops|whoops|sorry|uh[ -]oh|oh no|hmm+|hoppla|ups|huch|oups|désolé|lo sentimos|ops|desculpe|error|erreur|fehler|errore|erro|404)[\W_]+)*"
_GAP = r"(?: [^.!?]{0,80}?)?"
_THING = (
    r"(?:(?:that|this|the|your|requested|web) ?){0,3}(?:page|file|url|content|article|product|"
    r"item|post|document|resource|link|listing|job|profile|account|video|story|topic|thread|"
    r"recipe|web address)s?"
)
_SEITE = r"(?:seite|inhalt|artikel|datei|produkt|adresse|url|beitrag|angebot)"
_PAGE_FR = r"(?:page|contenu|article|produit|fichier|adresse|annonce|url)"
_PAGINA = r"(?:página|pagina|contenido|conteúdo|contenuto|artículo|articolo|artigo|producto|prodotto|produto|archivo)"

_GONE = AnyCase(
    rf"{_SIGH}{_THING}{_GAP} (?:(?:was|is|were|are|could|can) ?(?:not|n't)(?: be(?:en)?)? (?:found|located|displayed)"
    r"|(?:cannot|can't|could not|couldn't) be (?:found|located|displayed)|not found"
    r"|(?:does|do)(?: not|n't) (?:seem to )?exist|(?:is|are)(?: not|n't) (?:currently )?(?:available|here|there|anymore)"
    r"|(?:is|are) (?:no longer|gone|missing|unavailable)|unavailable|no longer (?:exists?|available)|never existed"
    r"|(?:has|have|may have|might have) (?:been )?(?:moved|removed|deleted|vanished|expired|disappeared|gone missing))",
    rf"{_SIGH}(?:we |i )?(?:can(?:not|'t)|could(?: not|n't)|(?:are |were )?unable to|failed to|did(?: not|n't)) (?:seem to )?(?:find|locate)"
    r" (?:the |that |this |what |any |your |a )?[^.!?]{0,30}?(?:page|file|url|looking for|requested|address|content|article|product|item)",
    r"nothing (?:was )?(?:found|here)\b", r"there(?:'s| is) nothing here",
    r"(?:is|are)(?: not|n't) the (?:web ?)?pages? you(?:'re| are) looking for",
    r"not a functioning page", r"(?:link|url) (?:you followed )?(?:is|may be|might be) broken",
    rf"{_SIGH}(?:die|diese)? ?(?:\w+ )?{_SEITE}{_GAP} (?:nicht (?:mehr )?(?:gefunden|finden|verfügbar|vorhanden|existier)|existiert (?:leider )?nicht|gibt es (?:leider )?nicht|wurde (?:leider )?(?:gelöscht|entfernt|verschoben))",
    rf"{_SIGH}(?:wir )?(?:konnten|können) {_GAP}{_SEITE} (?:leider )?nicht finden", r"nicht gefunden",
    rf"{_SIGH}(?:la |cette |le |ce )?{_PAGE_FR}{_GAP} (?:introuvable|non trouvée?|n'existe (?:pas|plus)|n'est (?:pas|plus) (?:disponible|accessible)|n'a (?:pas|pu) {_GAP}(?:été )?trouvée?|a été (?:supprimée?|déplacée?))",
    rf"(?:nous )?(?:n'avons pas (?:pu )?trouv\w+|ne (?:trouvons|parvenons) pas|impossible de trouver){_GAP} {_PAGE_FR}",
    rf"{_SIGH}(?:la |esta |el |a |esta |questa )?{_PAGINA}{_GAP} (?:no (?:\w+ )?(?:encontrad[oa]|existe|está disponible|se (?:encuentra|encontró|ha encontrado|pudo encontrar))|ya no (?:existe|está)|ha sido (?:eliminad|movid|rimoss)|non (?:è (?:stata )?)?(?:più )?(?:trovata|esiste|disponibile|stata trovata)|inesistente|è stata (?:rimossa|spostata)|não (?:foi )?(?:encontrad[ao]|existe|está (?:mais )?disponível|pôde ser encontrada)|já não existe|foi removid)",
    rf"no (?:hemos podido |pudimos |podemos |se puede |se pudo )?(?:encontrar|encontramos|encontrado){_GAP} {_PAGINA}",
    rf"non (?:riusciamo a |abbiamo |è stato possibile )?trova(?:re|to){_GAP} {_PAGINA}",
    rf"não (?:conseguimos |foi possível |pudemos )?encontr(?:ar|amos){_GAP} {_PAGINA}",
    r"страница не (?:найдена|существует)", r"页面不存在", r"找不到(?:网页|頁面|页面|该页)",
    r"ページが見つかりません", r"페이지를 찾을 수 없",
)  # fmt: skip
# Words that are a message as a heading only.
_NOT_FOUND = AnyCase(
    rf"{_SIGH}(?:http )?(?:error |status )?\b404\b(?!\s*(?:area|\d))(?: error| page)?(?:[\W_]+not found)?",
    r"\bnot found\b", r"nicht gefunden", r"introuvable", r"non trouvée?", r"no encontrad[oa]",
)  # fmt: skip
_PARKED = AnyCase(
    r"(?:this|the) domain(?: name)?(?: [\w.-]+\.\w+)? (?:is|has|may be|might be|could be|has been|was) (?:now )?(?:listed )?(?:for sale|parked|expired|available for (?:purchase|sale))",
    r"[\w-]+\.[a-z.]+ (?:is|may be) (?:parked|for sale)(?! (?:at|in|on) )", r"buy this domain", r"get this domain",
    r"domain (?:is )?parked", r"parked (?:free|domain|by|page)", r"courtesy of godaddy",
    r"domain owner using sedo", r"domain has (?:recently )?been registered", r"domain expired",
    r"domain (?:is|name) registered,? but", r"diese domain (?:\w+ )?(?:steht|ist) ",
)  # fmt: skip
_PARKING_MARKS = (
    b"sedoparking.com", b"parkingcrew.net", b"bodis.com", b"parking-lander", b"hugedomains.com",
    b"d38psrni17bvxu.cloudfront.net", b"parklogic.com", b"cdn.dan.com", b"namebrightstatic.com",
    b"parkingpage.namecheap.com", b"afternic.com/forsale", b'window.location.href="/lander"',
)  # fmt: skip
_DEFAULT = AnyCase(
    r"welcome to (?:nginx|openresty|tengine|caddy|lighttpd|centos|xampp)(?: on [\w ]+)?!?",
    r"apache2? (?:\w+ )?default page(?:: it works)?", r"it works!*", r"iis(?: windows(?: server)?)?",
    r"apache tomcat(?:/[\d.]+)?", r"(?:web server's |domain |default )+(?:web ?site |server )?page",
    r"(?:\w+ ){0,3}test page for the [\w ]+", r"http server test page(?:[\w ,]+)?",
)  # fmt: skip
_DEFAULT_TEXT = AnyCase(
    r"the nginx web server is successfully installed", r"the default welcome page used to test",
    r"you've successfully installed tomcat", r"site is (?:hosted|generated) by (?:plesk|cpanel)",
    r"your (?:web ?server|caddy) is (?:working|running)", r"domain default page",
    r"if you are the owner of this web ?site, please contact your hosting provider",
    r"no web ?site (?:is )?configured at this address",
)  # fmt: skip
_MAINTENANCE = AnyCase(
    r"briefly unavailable for scheduled maintenance", r"(?:down|closed|offline|unavailable) (?:for|due to) (?:\w+ )?maintenance",
    r"(?:under|undergoing) (?:\w+ )?maintenance", r"(?:we'll|we will|will|should) be (?:right )?back(?: online)?(?: soon| shortly| in )?",
    r"\bbe right back\b", r"maintenance mode", r"(?:site|page|service|shop|store) is (?:currently |temporarily )?(?:down|offline|unavailable|closed)",
    r"under construction", r"temporarily (?:unavailable|offline|closed|down)",
    r"wartungs(?:arbeiten|modus)", r"(?:en|pour) maintenance", r"en mantenimiento",
    r"in manutenzione", r"em manutenção",
)  # fmt: skip
_BROKEN = AnyCase(
    r"error (?:establishing|connecting to) (?:a |the )?database(?: connection)?", r"database (?:connection )?error",
    r"(?:could not|can't|cannot|unable to|failed to) connect to (?:the |local )?(?:database|mysql|db)(?: server)?",
    r"sqlstate\[", r"mysqli?(?:_\w+\(\)|::)", r"uncaught (?:\w+\\?)*(?:error|exception)",
    r"(?:parse|fatal) error\s*: ", r"warning: [^.]{0,150} on line \d",
    r"whitelabel error page", r"traceback \(most recent call last\)",
    r"server error in '/", r"runtime error", r"application error\b",
    r"critical error on (?:this|your) web ?site", r"(?:500 )?(?:internal )?server error", r"(?:502 )?bad gateway",
    r"(?:503 )?service (?:temporarily )?unavailable", r"(?:504 )?gateway time-?out", r"unhandled exception",
    r"(?:oops[^\w]*)?something went wrong", r"an? (?:unexpected |internal |unknown )?error (?:has )?occurr?ed",
)  # fmt: skip


def error_page(title: str, heading: str, text: str, words: int, html: bytes) -> str:
    """Return why a page is no content but an error or a placeholder; empty if it is content.

    ``text`` is the text outside menus and forms, of ``words`` words, without the title.
    The result is the end of a sentence.
    """
    title, heading = _plain(title)[:MAX_HEADING], _plain(heading)[:MAX_HEADING]
    headings = list(_headings(title, heading, words))
    for kind, pattern in _KINDS:
        for each in headings:
            if (said := _message(each, pattern, whole=pattern is _DEFAULT)) and (
                pattern in _LONG or words < 2 * SHORT
            ):
                return f'{kind}its title or heading says "{said}"'
    if words >= 2 * SHORT or _ABOUT.search(f"{title} {heading}"):
        return ""
    start = _plain(text[:MAX_TEXT]).replace(heading, "", 1)  # which was searched above
    is_question = "?" in start  # as in a forum
    for kind, pattern in _TEXT_KINDS:
        if is_question and pattern in {_BROKEN, _DEFAULT_TEXT}:
            continue
        limit = 2 * SHORT if pattern in {_PARKED, _DEFAULT_TEXT} else SHORT
        if words < limit and (match := pattern.search(start)):
            return f'{kind}its text says "{match[0].strip()}"'
    markup = html[:200_000].lower()
    if any(mark in markup for mark in _PARKING_MARKS):
        return "it is a parked domain: it has markup of a parking service"
    return ""


_KINDS = (
    ("", _GONE),
    ("", _NOT_FOUND),
    ("it is a parked domain: ", _PARKED),
    ("it is the default page of a server: ", _DEFAULT),
    ("it is a notice of maintenance: ", _MAINTENANCE),
    ("it is an error of the site: ", _BROKEN),
)
# The messages that pages with more text have, such as lists of other pages.
_LONG = (_GONE, _NOT_FOUND, _DEFAULT)
_TEXT_KINDS = (
    ("it is an error of the site: ", _BROKEN),
    ("it is a parked domain: ", _PARKED),
    ("it is the default page of a server: ", _DEFAULT_TEXT),
    ("it is a notice of maintenance: ", _MAINTENANCE),
    ("", _GONE),
)


def _plain(text: str) -> str:
    return " ".join(text.translate(_APOSTROPHES).split())


def _headings(title: str, heading: str, words: int) -> Iterator[str]:
    """Yield the heading, the title and its parts that may be messages.

    The title without the site's name counts if the page has no other heading, or hardly
    any text.
    """
    yield heading
    parts = _SEPARATOR.split(title) if title else []
    if not heading or words < SHORT or any(part == heading for part in parts):
        yield title
        yield from parts


def _message(heading: str, pattern: AnyCase, *, whole: bool) -> str:
    """Return the message that a heading consists of; empty if it has more to say."""
    match = pattern.search(heading) if heading else None
    if match is None or _ABOUT.search(heading):
        return ""
    share = len(match[0].strip()) / len(heading)
    return match[0].strip() if share >= (0.9 if whole else LEAST_SHARE) else ""
