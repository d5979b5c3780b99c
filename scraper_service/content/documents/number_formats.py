"""Numbers and dates as a spreadsheet shows them (ECMA-376, part 1, 18.8.30 and 31).

Formats that follow the reader's country are written as ISO 8601, and so is what a format
leaves open; names of months and days are English.
"""

from __future__ import annotations

import functools
import re
from datetime import date, datetime, timedelta

DAYS_1900 = date(1899, 12, 30)
DAYS_1904 = date(1904, 1, 1)
MAX_DAY = 2_958_465  # 9999-12-31

# The formats that files name by number alone; those of other countries are dates.
BUILTIN = {
    0: "General",
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    12: "# ?/?",
    13: "# ??/??",
    14: "yyyy-mm-dd",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm",
    37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)",
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
    48: "##0.0E+0",
    49: "@",
} | dict.fromkeys([*range(27, 37), *range(50, 59)], "yyyy-mm-dd")

_TOKEN = re.compile(
    r'"(?P<text>[^"]*)"|\\(?P<sign>.)|[_*].|\[\$(?P<currency>[^\]-]*)[^\]]*\]'
    r"|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*\]|(?P<ampm>AM/PM|A/P)"
    r"|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?)|(?P<exponent>E[+-]0+)"
    r"|(?P<number>[0#?][0#?,]*(?:\.[0#?]*)?|\.[0#?]+)(?P<scale>,*)"
    r"|(?P<percent>%)|(?P<as_text>@)|(?P<general>General)|(?P<other>.)",
    re.IGNORECASE,
)

Tokens = list[tuple[str, str]]


@functools.lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[Tokens, ...]:
    """Split a format at its semicolons: positive, negative, zero, text."""
    sections: list[Tokens] = [[]]
    for match in _TOKEN.finditer(code[:500]):
        kind = match.lastgroup or ""
        if kind == "scale":
            kind = "number"
        if kind == "other" and match[0] == ";":
            sections.append([])
        elif kind in {"text", "sign", "currency"}:
            sections[-1].append(("text", match[kind]))
        elif kind == "number":
            sections[-1].append(("number", match["number"] + match["scale"]))
        elif kind:
            sections[-1].append((kind, match[kind]))
    return tuple(sections)


def is_date_format(code: str) -> bool:
    """Tell whether a format shows numbers as dates or times."""
    return any(kind in {"date", "elapsed"} for kind, _ in _sections(code)[0])


def shown_number(value: float, code: str, epoch: date = DAYS_1900) -> str:
    """Return ``value`` in the format ``code``; days are counted from ``epoch``."""
    sections = _sections(code or "General")
    tokens = sections[0]
    if value < 0 and len(sections) > 1:
        tokens, value = sections[1], -value
    elif value == 0 and len(sections) > 2:
        tokens = sections[2]
    kinds = {kind for kind, _ in tokens}
    if kinds & {"date", "elapsed"}:
        return _date(value, tokens, epoch)
    if not kinds & {"number", "exponent"}:
        if kinds & {"general", "as_text"} or not tokens:
            return _general(value)
        return "".join(text for kind, text in tokens if kind in {"text", "other"})
    if ("other", "/") in tokens or not abs(value) < 1e300:
        return _general(value)
    return _number(value, tokens)


def _general(value: float) -> str:
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.10g}"


def _number(value: float, tokens: Tokens) -> str:
    mask = next((text for kind, text in tokens if kind == "number"), "0")
    exponent = next((text for kind, text in tokens if kind == "exponent"), None)
    digits = mask.rstrip(",")
    scale = len(mask) - len(digits)
    whole, _, fraction = digits.partition(".")
    value *= 100.0 ** sum(kind == "percent" for kind, _ in tokens)
    value /= 1000.0**scale
    places = len(fraction)
    if exponent is not None:
        mantissa, power = f"{abs(value):.{places}e}".split("e")
        text = f"{mantissa}E{power[0]}{int(power[1:]):0{len(exponent) - 2}d}"
    else:
        text = f"{abs(value):{',' if ',' in whole else ''}.{places}f}"
        optional = len(fraction) - len(fraction.rstrip("#?"))
        for _ in range(optional):
            text = text.removesuffix("0")
        text = text.removesuffix(".")
        least = whole.count("0")
        if "," not in whole and least > 1:
            text = text.zfill(least + (places + 1 if places else 0))
        if not least and text.startswith("0."):
            text = text[1:]
    written, result = False, []
    for kind, part in tokens:
        if kind == "number" and not written:
            result.append(text)
            written = True
        elif kind in {"text", "percent", "other"}:
            result.append(part)
    sign = "-" if value < 0 and text.strip("0.,") else ""
    return sign + "".join(result).strip()


def _date(value: float, tokens: Tokens, epoch: date) -> str:
    if not 0 <= value <= MAX_DAY:
        return _general(value)
    seconds = round(value * 86_400, 3)
    day = datetime(epoch.year, epoch.month, epoch.day)  # has no zone
    moment = day + timedelta(seconds=seconds)
    if not any(text.startswith("s") and "." in text for _, text in tokens):
        moment = (moment + timedelta(microseconds=500_000)).replace(microsecond=0)
    half_day = any(kind == "ampm" for kind, _ in tokens)
    parts = []
    before = ""
    for index, (kind, text) in enumerate(tokens):
        if kind == "date":
            following = next((t for k, t in tokens[index + 1 :] if k == "date"), "")
            is_minute = text[0] in "mM" and (
                before[:1] in {"h", "H"} or following[:1] in {"s", "S"}
            )
            parts.append(_date_part(moment, text.lower(), is_minute, half_day))
            before = text
        elif kind == "elapsed":
            unit = {"h": 3600, "m": 60, "s": 1}[text[0].lower()]
            parts.append(str(int(seconds // unit)).zfill(len(text)))
            before = text
        elif kind == "ampm":
            parts.append("AM" if moment.hour < 12 else "PM")
        elif kind in {"text", "other"}:
            parts.append(text)
    return "".join(parts).strip()


def _date_part(moment: datetime, text: str, is_minute: bool, half_day: bool) -> str:
    width = len(text)
    if text[0] == "y":
        return f"{moment.year:04d}" if width > 2 else f"{moment.year % 100:02d}"
    if text[0] == "m" and not is_minute:
        if width > 2:
            return moment.strftime("%B" if width == 4 else "%b")
        return str(moment.month).zfill(width)
    if text[0] == "d":
        if width > 2:
            return moment.strftime("%A" if width == 4 else "%a")
        return str(moment.day).zfill(width)
    if text[0] == "h":
        hour = (moment.hour - 1) % 12 + 1 if half_day else moment.hour
        return str(hour).zfill(width)
    if text[0] == "m":
        return str(moment.minute).zfill(width)
    seconds, _, fraction = text.partition(".")
    shown = str(moment.second).zfill(len(seconds))
    if fraction:
        shown += f".{moment.microsecond:06d}"[: len(fraction) + 1]
    return shown
