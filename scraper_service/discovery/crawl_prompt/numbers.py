"""Text in one spelling: lower case, no accents, numbers as digits."""

from __future__ import annotations

import re
import unicodedata

MAX_PAGES = 10_000_000  # a larger ``limit`` is no option that a prompt can set
MAX_DIGITS = 15  # of a number; Python refuses to parse much longer ones

# Those that are other words, too ("once", "ein"), are left out.
_WORDS = {
    1: "one einem einer",
    2: "two zwei deux dos",
    3: "three drei trois tres",
    4: "four vier quatre cuatro",
    5: "five funf cinq cinco",
    6: "six sechs seis",
    7: "seven sieben sept siete",
    8: "eight acht huit ocho",
    9: "nine neun neuf nueve",
    10: "ten zehn dix diez",
    11: "eleven elf onze",
    12: "twelve zwolf douze doce",
    15: "fifteen funfzehn quinze quince",
    20: "twenty zwanzig vingt veinte",
    25: "twenty-five funfundzwanzig vingt-cinq veinticinco",
    30: "thirty dreissig trente treinta",
    40: "forty vierzig quarante cuarenta",
    50: "fifty funfzig cinquante cincuenta",
    60: "sixty sechzig soixante sesenta",
    70: "seventy siebzig setenta",
    80: "eighty achtzig ochenta",
    90: "ninety neunzig noventa",
    100: "cien ciento einhundert",
    200: "zweihundert doscientos",
    500: "funfhundert quinientos",
    1000: "mil eintausend",
}
_SCALES = {
    "hundred": 100,
    "hundert": 100,
    "cent": 100,
    "thousand": 1000,
    "tausend": 1000,
    "mille": 1000,
    "dozen": 12,
    "dutzend": 12,
    "douzaine": 12,
    "docena": 12,
    "million": 1_000_000,
}
_VALUES = {word: value for value, line in _WORDS.items() for word in line.split()}

_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:[.,\u202f' ]\d{3})+)(?!\d)")
_SHORT = re.compile(r"\b(\d+(?:\.\d+)?) ?k\b")
_COUNTED = re.compile(rf"\b(?:(a|ein|une?|una|\d{{1,6}}) )?({'|'.join(_SCALES)})s?\b")
_LONG = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?")


def folded(text: str) -> str:
    """Return ``text`` in lower case, without accents, its numbers in digits.

    A number of more than :data:`MAX_DIGITS` digits becomes the largest one.
    """
    plain = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub("[\u2019`\u00b4]", "'", plain)
    plain = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), plain)
    plain = _LONG.sub("9" * MAX_DIGITS, plain)
    plain = _SHORT.sub(lambda m: str(int(float(m[1]) * 1000)), plain)
    plain = _WORD.sub(lambda m: str(_VALUES.get(m[0], m[0])), plain)
    plain = _COUNTED.sub(_product, plain)
    return re.sub(r"\s+", " ", plain).strip()


def _product(match: re.Match[str]) -> str:
    count = match[1]
    number = int(count) if count and count.isdigit() else 1
    return str(number * _SCALES[match[2]])
