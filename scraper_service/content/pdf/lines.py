"""The lines of a PDF page with their positions, for both readers; hyphens, and codes."""

from __future__ import annotations

import itertools
import re
import string
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADING_RATIO = 1.12  # minimum size of a heading relative to the text
# Minimum gap between two cells, relative to the font size; the gap after the number of a
# heading is often 1.
WIDE_GAP = 1.1
NEAR = 3.0  # points between ruling lines that touch, or are drawn twice
BOLD = re.compile(r"bold|black|heavy|semib|demi|-medi\b|CMBX|CMB\d|SFBX", re.IGNORECASE)
FIXED = re.compile(
    r"courier|consol|monospace|mono(?:-|$|\d)|typewriter|menlo|monaco|NimbusMon"
    r"|tt(?:\d|[-_]|$)|LMMono|DejaVuSansM|SourceCode|FiraCode|Cascadia|LetterGothic"
    r"|Cousine",
    re.IGNORECASE,
)
# Characters that occur if a font does not map its glyphs to Unicode.
_UNREAD = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\uffff\ue000-\uefff\uf100-\uf8ff]"
)
_LIGATURES = str.maketrans(
    {
        "\ufb00": "ff",
        "\ufb01": "fi",
        "\ufb02": "fl",
        "\ufb03": "ffi",
        "\ufb04": "ffl",
        "\ufb05": "st",
        "\ufb06": "st",
        "\u00a0": " ",
        "\u2007": " ",
        "\u202f": " ",
        "\u00ad": "-",  # a soft hyphen at the end of a line is visible
        "\ufffe": "-",  # PDFium's character for a hyphen at the end of a line
    }
)

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points


@define
class Cell:
    """A part of a line, separated from the next part by a wide gap."""

    text: str
    #: The left edge, in points.
    x0: float
    #: The right edge, in points.
    x1: float


@define
class Line:
    """A line of text; positions are in points from the lower left corner of the page."""

    text: str
    #: The font size in points.
    size: float
    #: The left edge.
    x0: float
    #: The lower edge.
    y0: float
    #: The right edge.
    x1: float
    #: The upper edge.
    y1: float
    #: The cells; most lines have a single cell.
    cells: list[Cell] = field(factory=list)
    #: The linked parts of the text: start, end, URL.
    links: list[tuple[int, int, str]] = field(factory=list)
    is_bold: bool = False
    #: True for a fixed-width font.
    is_fixed: bool = False
    #: True if the text does not run from left to right on the page.
    is_rotated: bool = False
    #: The ruled table instead of the line, which has the size 0.
    table: Block | None = None


@define
class Block:
    """The lines of a paragraph or table."""

    lines: list[Line]
    #: The cells of a table; None for other blocks.
    rows: list[list[str]] | None = None
    #: True for an entry of a table of contents.
    is_listing: bool = False
    #: The left margin of the page's code, in points.
    margin: float = 0.0

    @property
    def box(self) -> Box:
        """Left, bottom, right and top on the page, in points."""
        return (
            min(line.x0 for line in self.lines),
            min(line.y0 for line in self.lines),
            max(line.x1 for line in self.lines),
            max(line.y1 for line in self.lines),
        )


@define
class Mark:
    """A text that stands on a page without being part of its text: a field or note."""

    text: str
    #: Left, bottom, right and top, in points.
    box: Box
    #: True for a box or button to tick.
    is_tick: bool = False
    #: The name of a box or button, which replaces a missing label.
    label: str = ""


@define
class RuledGrid:
    """A table whose columns or rows are parted by lines; positions are in points."""

    #: The lines between columns; without them, gaps part the columns.
    upright: list[Box]
    across: list[Box]
    #: The borders of the columns, from the left.
    xs: list[float]
    #: The borders of the rows, from the top.
    ys: list[float]

    def contains(self, x: float, y: float) -> bool:
        """Return True if a point is inside the table."""
        return self.xs[0] < x < self.xs[-1] and self.ys[-1] < y < self.ys[0]

    def cell_at(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column of the lines above and left of a point."""
        left = [v[0] for v in self.upright if v[0] < x and v[1] < y < v[3]]
        above = [h[1] for h in self.across if y < h[1] and h[0] < x < h[2]]
        column = sum(border <= max(left, default=self.xs[0]) for border in self.xs) - 1
        row = sum(border > min(above, default=self.ys[0]) for border in self.ys)
        return row, column


@define
class PageText:
    """The text of a page."""

    #: The lines in the order of the file, positioned on the rotated page.
    lines: list[Line] = field(factory=list)
    #: The URLs that the page links to.
    links: list[str] = field(factory=list)
    #: The rotation of the page in counterclockwise quarter turns.
    angle: int = 0
    #: The fields and notes that are not among the lines yet.
    marks: list[Mark] = field(factory=list)
    #: The tables drawn with lines.
    grids: list[RuledGrid] = field(factory=list)
    #: True for a page without text, lines and pictures.
    is_blank: bool = False
    #: The number of large pictures.
    pictures: int = 0

    @property
    def letters(self) -> int:
        """The number of letters and digits."""
        return sum(sum(map(str.isalnum, line.text)) for line in self.lines)


def rotate_box(box: Box, quarters: int) -> Box:
    """Return a box, rotated counterclockwise about the page's lower left corner."""
    left, bottom, right, top = box
    if quarters == 1:
        return -top, left, -bottom, right
    if quarters == 2:
        return -right, -top, -left, -bottom
    if quarters == 3:
        return bottom, -right, top, -left
    return box


def rows_of(lines: list[Line], tolerance: float) -> list[list[Line]]:
    """Return lines in rows from the top, each row from the left.

    ``tolerance`` is the largest difference in height of a row, relative to the font size.
    """
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: -line.y0):
        if not rows or rows[-1][0].y0 - line.y0 > tolerance * line.size:
            rows.append([])
        rows[-1].append(line)
    return [sorted(row, key=lambda line: line.x0) for row in rows]


def plain_letters(text: str) -> str:
    """Return ``text`` with plain letters, spaces and hyphens for their variants."""
    return text if text.isascii() else text.translate(_LIGATURES)


def tidy(text: str) -> str:
    """Return ``text`` with plain letters and collapsed white space."""
    return " ".join(plain_letters(text).split())


def unread_share(text: str) -> float:
    """Return the share of unreadable characters in ``text``, 0 to 1."""
    if not text or (text.isascii() and text.replace("\r\n", "").isprintable()):
        return 0.0
    return len(_UNREAD.findall(text)) / len(text)


_WORD = r"(?<![^\W\d_])[^\W\d_]++"  # whole: a line may be one long word
_BROKEN = re.compile(rf"({_WORD})[-\u2010]\Z")
_CHAIN = re.compile(rf"{_WORD}[-\u2010]{_WORD}[-\u2010]\Z")  # "state-of-"
_FIRST = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile(rf"{_WORD}(?:[-\u2010][^\W\d_]++)+")


class Hyphens:
    """The hyphenated words of a file, collected inside lines."""

    def __init__(self, lines: Iterable[str] = ()):
        found: set[str] = set()
        for line in lines:
            if "-" in line or "\u2010" in line:
                found.update(_COMPOUND.findall(line))
        parts = (re.split("[-\u2010]", word.lower()) for word in found)
        self._pairs = {pair for words in parts for pair in itertools.pairwise(words)}

    def joint(self, before: str, after: str) -> tuple[int, str]:
        """Return the length of ``before`` that stays, and the separator for ``after``.

        A hyphen inside a continued word is removed. It stays if the file writes the word
        with a hyphen elsewhere. It also stays after capitals, "self" and another hyphen,
        as in "PDF-based" and "state-of-the".
        """
        broken = _BROKEN.search(before) if before[-1:] in {"-", "\u2010"} else None
        if broken is None or not after[:1].islower():
            return len(before), " "
        first = _FIRST.match(after)
        pair = (broken[1].lower(), first[0].lower() if first else "")
        if pair in self._pairs or (len(broken[1]) > 1 and broken[1].isupper()):
            return len(before), ""
        if pair[0] == "self" or _CHAIN.search(before[-80:]):
            return len(before), ""
        return len(before) - 1, ""


# -- text layers of codes ----------------------------------------------------------------

# A font without a map to Unicode may give plain letters that are no language. Most of their
# codes are shifted by a fixed number in the table of characters.
QUICK = 600  # characters that prove a language in nearly all pages
SAMPLE = 6000
MIN_WORDS = 25  # fewer words prove nothing
MIN_HITS = 3  # distinct common words of a text in a language
MIN_SHARE = 0.12  # of all words: common words of a text whose shift is undone
MAX_SHARE = 0.06  # of all words: common words of a text of codes, by chance
MAX_SHIFT = 31  # in the table of characters
# The most frequent words of European languages.
_COMMON = frozenset(
    "the of and to in is that for it with as was on be by are this from at or an not "
    "der die und das von zu mit den auf ist ein eine nicht dem des sich im für als "
    "de la le les et des en du un une que est pour dans sur par qui il au "
    "el los las y por con para una se del su al es "
    "di che il non per una sono della con da si gli "
    "do da em os no na um uma com não ao "
    "het een van en dat op te zijn voor met niet "
    "och att det som på av är för den med ikke til og på af jeg ja on ei "
    "w na nie się jest z do że v se je na že i u da za "
    "dan yang di ke untuk ve bir bu az egy hogy nem și cu pe".split()
)
_PRINTABLE = "".join(map(chr, range(33, 127)))
_EDGES = string.punctuation


def has_shifted_codes(page: PageText) -> bool:
    """Return True if the lines of a page are plain letters, but no language."""
    text = ""
    for line in page.lines:
        text += line.text + "\n"
        if len(text) > QUICK:
            break
    if _is_language(text):
        return False
    text = "\n".join(line.text for line in page.lines)[:SAMPLE]
    words = text.split()
    if len(words) < MIN_WORDS or not text.isascii() or _is_language(text):
        return False
    if _share(words) > MAX_SHARE:
        return False
    return _is_shifted(text)


def _is_language(text: str) -> bool:
    return len(_COMMON.intersection(text.lower().split())) >= MIN_HITS


def _share(words: list[str]) -> float:
    found = sum(word.strip(_EDGES).lower() in _COMMON for word in words)
    return found / max(len(words), 1)


def _is_shifted(text: str) -> bool:
    for shift in filter(None, range(-MAX_SHIFT, MAX_SHIFT + 1)):
        table = {ord(c): ord(c) + shift for c in _PRINTABLE}
        words = text.translate(table).split()
        hits = {word.strip(_EDGES).lower() for word in words} & _COMMON
        if len(hits) > 2 * MIN_HITS - 1 and _share(words) > MIN_SHARE:
            return True
    return False
