"""Shows numbers and dates as a spreadsheet does (ECMA-376, part 1, 18.8.30 and 31).

Formats that depend on the reader's country use ISO 8601. Names of months and days are
English. Fractions and powers of ten are shown as plain numbers.
"""

from __future__ import annotations

import functools
import re
from datetime import date, datetime, time, timedelta

Value = float | date | time | timedelta
Tokens = list[tuple[str, str]]

DAY_0 = datetime(1899, 12, 30)  # has no zone
MAX_DAY = 2_958_465  # 9999-12-31

# Formats that files refer to by number only; the numbers of other countries are dates.
BUILTIN = (
    dict.fromkeys([14, *range(27, 37), *range(50, 59)], "yyyy-mm-dd")
    | dict(enumerate(("0", "0.00", "#,##0", "#,##0.00"), 1))
    | dict(enumerate(("d-mmm-yy", "d-mmm", "mmm-yy", "h:mm AM/PM"), 15))
    | dict(enumerate(("h:mm:ss AM/PM", "h:mm", "h:mm:ss", "yyyy-mm-dd h:mm"), 19))
    | {9: "0%", 10: "0.00%", 45: "mm:ss", 47: "mm:ss.0"}
    | dict.fromkeys((37, 38), "#,##0;(#,##0)")
    | dict.fromkeys((39, 40), "#,##0.00;(#,##0.00)")
)

_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|\[[^\]]*\]|[_*].|(?P<minute>(?<=h[:.])mm?|mm?(?=[:.]s))"
    r"|(?P<moment>AM/PM|A/P|y+|m+|d+|h+|s+(?:\.0+)?)"
    r"|(?P<plain>General|@|E[+-])|(?P<mask>(?:[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+),*)"
    r"|(?P<percent>%)|(?P<end>;)|(?P<other>.)",
    re.IGNORECASE,
)
_LITERAL = frozenset({"quoted", "escaped", "currency", "percent", "other"})
# Codes of strftime by letter, for one letter, two and so on.
_DIRECTIVES = {
    "y": ("%y", "%y", "%Y"),
    "m": ("%-m", "%m", "%b", "%B"),
    "d": ("%-d", "%d", "%a", "%A"),
    "h": ("%-H", "%H"),
    "minute": ("%-M", "%M"),
    "s": ("%-S", "%S"),
    "a": ("%p",),
}


def format_value(value: Value, code: str) -> str:
    """Return a number or a date in the format ``code``; durations are ``h:mm:ss``."""
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    sections = _sections(code)
    tokens = sections[0]
    is_date = any(kind in {"moment", "minute"} for kind, _ in tokens)
    if isinstance(value, int | float):
        if not is_date:
            return _number(value, sections)
        if not 0 <= value <= MAX_DAY:
            return _general(value)
        value = DAY_0 + timedelta(days=value)
    if is_date:
        return _date(value, tokens)
    return str(value).removesuffix(" 00:00:00")


@functools.lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[Tokens, ...]:
    """Split a format at its semicolons: positive, negative, zero, text."""
    sections: list[Tokens] = [[]]
    for match in _TOKEN.finditer(code[:500]):
        kind = match.lastgroup
        if kind == "end":
            sections.append([])
        elif kind:
            sections[-1].append((kind, match[kind]))
    return tuple(sections)


def _date(value: date | time, tokens: Tokens) -> str:
    has_noon = any(kind == "moment" and text[0] in "aA" for kind, text in tokens)
    parts = []
    for kind, text in tokens:
        if kind in _LITERAL:
            parts.append(text)
        elif kind in {"moment", "minute"}:
            name, _, fraction = text.lower().partition(".")
            choices = _DIRECTIVES[name[0] if kind == "moment" else kind]
            directive = choices[min(len(name), len(choices)) - 1]
            parts.append(
                value.strftime(directive.replace("H", "I") if has_noon else directive)
            )
            if fraction:
                parts.append(f".{value:%f}"[: len(fraction) + 1])
    return "".join(parts).strip()


def _number(value: float, sections: tuple[Tokens, ...]) -> str:
    tokens = sections[0]
    if value < 0 and len(sections) > 1:
        tokens, value = sections[1], -value
    elif value == 0 and len(sections) > 2:
        tokens = sections[2]
    kinds = [kind for kind, _ in tokens]
    is_odd = kinds.count("mask") > 1 or kinds.count("percent") > 1
    if not tokens or "plain" in kinds or is_odd or not abs(value) < 1e300:
        return _general(value)
    value *= 100 if "percent" in kinds else 1
    digits = ""
    parts = []
    for kind, text in tokens:
        if kind == "mask":
            digits = _digits(abs(value), text)
            parts.append(digits)
        elif kind in _LITERAL:
            parts.append(text)
    sign = "-" if value < 0 and digits.strip("0.,") else ""
    return sign + "".join(parts).strip()


def _digits(value: float, mask: str) -> str:
    """Return a positive number in digits, by a mask such as ``#,##0.0#``."""
    places = mask.rstrip(",")
    value /= 1000.0 ** min(len(mask) - len(places), 9)  # each comma at the end
    before, _, after = places.partition(".")
    grouped = "," if "," in before else ""
    whole, _, rest = f"{value:{grouped}.{len(after)}f}".partition(".")
    least = len(after.rstrip("#?"))
    rest = rest[:least] + rest[least:].rstrip("0")
    if "0" not in before and whole == "0":
        whole = ""
    elif not grouped:
        whole = whole.zfill(before.count("0"))
    return f"{whole}.{rest}" if rest else whole


def _general(value: float) -> str:
    is_whole = abs(value) < 1e15 and value == int(value)
    return str(int(value)) if is_whole else f"{value:.10g}"
