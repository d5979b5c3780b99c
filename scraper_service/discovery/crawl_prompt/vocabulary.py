"""The words that the rules know: English first, then German, French and Spanish.

All are in lower case without accents, as :func:`~scraper_service.discovery.crawl_prompt.numbers.folded`
leaves them; topics are stems, as :func:`stem` leaves them.
"""

from __future__ import annotations

import re

# Topics that have several names, each name a word of a sentence or of a path.
_TOPICS = (
    "about ueber uns apropos nosotros company",
    "account konto compte cuenta",
    "aktuelles news actualite noticia nachricht press",
    "api",
    "archive archiv archivo",
    "author writer autor auteur columnist",
    "blog post weblog",
    "career job vacancy stelle karriere emploi empleo",
    "cart basket panier carrito warenkorb",
    "changelog release",
    "checkout kasse",
    "collection kollektion category",
    "contact kontakt contacto",
    "course lecture kurs cours curso",
    "doc documentation manual dokumentation",
    "event termin calendar evenement evento veranstaltung",
    "faq",
    "forum",
    "guide handbuch guia anleitung howto",
    "help support hilfe aide ayuda",
    "imprint impressum",
    "install installation",
    "legal term impressum",
    "login signin logon anmelden connexion",
    "member mitglied",
    "newsletter",
    "opinion column meinung",
    "order bestellung commande pedido",
    "price pricing preis prix precio",
    "privacy datenschutz confidentialite privacidad",
    "product produkt produit producto item",
    "project projekt projet proyecto",
    "recipe rezept recette receta",
    "reference",
    "review rezension avis resena",
    "search suche recherche busqueda buscar",
    "signup register registration subscribe",
    "sport deporte",
    "staff people mitarbeiter personal",
    "tag label schlagwort etiqueta",
    "team equipe equipo",
    "thread topic discussion t",
    "tutorial lesson",
    "user profile u",
    "video clip film",
)

# Names of languages, as the first segment of a path has them.
LANGUAGES = {
    "english": "en",
    "englisch": "en",
    "anglais": "en",
    "ingles": "en",
    "german": "de",
    "deutsch": "de",
    "allemand": "de",
    "aleman": "de",
    "french": "fr",
    "franzosisch": "fr",
    "francais": "fr",
    "frances": "fr",
    "spanish": "es",
    "spanisch": "es",
    "espagnol": "es",
    "espanol": "es",
    "italian": "it",
    "italienisch": "it",
    "portuguese": "pt",
    "dutch": "nl",
    "japanese": "ja",
    "chinese": "zh",
    "russian": "ru",
    "polish": "pl",
}

# Kinds of files: what they are called, and the endings of their paths.
_FILES = {
    "pdf": "pdf",
    "image picture photo bild bilder imagen": "png|jpe?g|gif|webp|svg",
}

# Words of a phrase that name no topic.
FILLER = frozenset(
    """
    a all also am an any are around as at be been below beneath best can click collect
    collection's come concerning content coverage crawl description do document
    each every everything fetch file find focus follow following for from full get give
    go grab has have here i i'd i'm in information info inside into is it item its just
    keep like look make me more my need new of off old on one online our over page part
    please post published publish related relevant result scrape section see should site
    some start starting stuff such text that the their version edition them then there these they thing
    this those to too under us use via view visit want we web website were what where
    which who will with within would written you your article area list entry whole
    entire complete domain host pages anything about's material resource latest recent
    der die das den dem des ein eine einen einer und alle alles auf aus bei bitte von zu
    zum zur im in mit fur uber seite seiten webseite unter unterhalb bereich ich mochte
    will mir crawle hole sammle gib inhalte artikel
    le la les l un une des du de d et tout tous toute toutes au aux dans sur pour avec
    page rubrique je veux voudrais recupere s'il vous plait
    el los las un una unos unas y de del todo todos toda todas en con para por pagina
    paginas seccion quiero necesito recoge
    """.split()
)

AND = (
    "and",
    "or",
    "plus",
    "und",
    "oder",
    "sowie",
    "et",
    "ou",
    "y",
    "o",
    "e",
    "ni",
    "as",
)
ONLY = frozenset(
    """only just solely exclusively restrict limited include including want need get
    collect crawl fetch scrape keep nur ausschliesslich bloss seulement uniquement
    solo solamente unicamente""".split()
)
NOT = frozenset(
    """skip except excepting excluding exclude excludes without not no avoid avoiding
    ignore ignoring omit omitting minus never nothing none nor drop dropping
    ohne ausser nicht kein keine keinen sauf sans pas excepte hormis menos excepto sin
    salvo evita ignora""".split()
)
# Turned over by a word that follows: "everything but the blog" is without the blog.
ALL = frozenset("everything anything all whatever alles tout todo".split())

_PLURAL = re.compile(r"(?<=[a-z]{3})(?<!s)s$")
_ENDING = re.compile(r"(?<=[a-z]{4})(?:ation|ing|e)$")
_Y = re.compile(r"(?<=[a-z]{3})y$")


def stem(word: str) -> str:
    """Return a word without its commonest endings."""
    return _Y.sub("i", _ENDING.sub("", _PLURAL.sub("", word)))


GROUPS: dict[str, frozenset[str]] = {}
for _line in _TOPICS:
    _stems = frozenset(map(stem, _line.split()))
    for _each in _stems:
        GROUPS[_each] = GROUPS.get(_each, frozenset()) | _stems

# What the first may mean, too, but not the other way round.
for _name, _other in (("user", "member"), ("profil", "member")):
    GROUPS[_name] |= {_other}

FILES = {
    stem(name): endings for line, endings in _FILES.items() for name in line.split()
}


def meanings(word: str) -> frozenset[str]:
    """Return the stems that mean the same as ``word``, its own among them."""
    own = stem(word)
    return GROUPS.get(own, frozenset()) | {own}
