"""Colours of CSS as ``#RRGGBB``."""

from __future__ import annotations

import colorsys
import re

_HEX = re.compile(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})\b", re.IGNORECASE)
_FUNCTION = re.compile(r"(rgb|hsl)a?\(([^()]*)\)", re.IGNORECASE)
_NUMBER = re.compile(r"(-?(?:\d{1,6}(?:\.\d{0,20})?|\.\d{1,20}))(%|deg)?")
_NAMED = {
    "aqua": "#00FFFF",
    "black": "#000000",
    "blue": "#0000FF",
    "crimson": "#DC143C",
    "darkblue": "#00008B",
    "darkgreen": "#006400",
    "darkred": "#8B0000",
    "fuchsia": "#FF00FF",
    "gold": "#FFD700",
    "gray": "#808080",
    "green": "#008000",
    "grey": "#808080",
    "indigo": "#4B0082",
    "lightgray": "#D3D3D3",
    "lime": "#00FF00",
    "maroon": "#800000",
    "navy": "#000080",
    "olive": "#808000",
    "orange": "#FFA500",
    "pink": "#FFC0CB",
    "purple": "#800080",
    "red": "#FF0000",
    "silver": "#C0C0C0",
    "steelblue": "#4682B4",
    "teal": "#008080",
    "tomato": "#FF6347",
    "white": "#FFFFFF",
    "whitesmoke": "#F5F5F5",
    "yellow": "#FFFF00",
}
_FAINT = 0.1  # less opaque than this is no colour
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_GREY = 24  # between the parts of a colour, at most


def colour(text: str) -> str | None:
    """Return the first colour in the value of a declaration, None for none."""
    if match := _HEX.search(text):
        digits = match[1]
        if len(digits) < 6:
            digits = "".join(2 * digit for digit in digits)
        if len(digits) == 8 and int(digits[6:], 16) < 255 * _FAINT:
            return None
        return f"#{digits[:6].upper()}"
    if match := _FUNCTION.search(text):
        return _of_numbers(match[1].lower(), match[2])
    for word in _WORD.findall(text):
        if found := _NAMED.get(word.lower()):
            return found
    return None


def _of_numbers(kind: str, text: str) -> str | None:
    parts = [(float(n), unit) for n, unit in _NUMBER.findall(text)]
    if len(parts) < 3:
        return None
    if len(parts) > 3:
        opacity = parts[3][0] / (100 if parts[3][1] == "%" else 1)
        if opacity < _FAINT:
            return None
    if kind == "hsl":
        hue, full, light = parts[0][0] % 360 / 360, parts[1][0] / 100, parts[2][0] / 100
        channels = [
            255 * x for x in colorsys.hls_to_rgb(hue, min(light, 1), min(full, 1))
        ]
    else:
        channels = [n * 2.55 if unit == "%" else n for n, unit in parts[:3]]
    return "#" + "".join(f"{min(255, max(0, round(x))):02X}" for x in channels)


def is_dark(found: str) -> bool:
    """Tell whether light text would be read on a colour (relative luminance)."""
    red, green, blue = (int(found[n : n + 2], 16) for n in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 110


def is_grey(found: str) -> bool:
    """Tell whether a colour is black, white or between."""
    parts = [int(found[n : n + 2], 16) for n in (1, 3, 5)]
    return max(parts) - min(parts) <= _GREY
