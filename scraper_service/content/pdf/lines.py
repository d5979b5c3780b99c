"""Lines of text with their places on a page, whichever library read them."""

from __future__ import annotations

import re

from attrs import define, field

BOLD = re.compile(r"bold|black|heavy|semib|demi|-medi\b|CMBX|CMB\d|SFBX", re.IGNORECASE)
FIXED = re.compile(
    r"courier|consol|monospace|mono(?:-|$|\d)|typewriter|menlo|monaco|NimbusMon"
    r"|tt(?:\d|[-_]|$)|LMMono|DejaVuSansM|SourceCode|FiraCode|Cascadia|LetterGothic"
    r"|Cousine",
    re.IGNORECASE,
)
# Signs that no text has: what is left where a font does not say what its glyphs mean.
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
        "\u00ad": "-",  # visible, as it stands at the end of a line
        "\ufffe": "-",  # PDFium's sign for the same
    }
)

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points


@define
class Cell:
    """A part of a line, apart from the next one by a wide gap."""

    text: str
    x0: float
    x1: float


@define
class Line:
    """One line; places are in points from the lower left corner of the page.

    ``size`` is that of its letters, in points. ``cells`` has one element for most lines.
    ``links`` are parts of the text that lead somewhere: start, end, address. ``turned``
    lines do not run from left to right.
    """

    text: str
    size: float
    x0: float
    y0: float
    x1: float
    y1: float
    cells: list[Cell] = field(factory=list)
    links: list[tuple[int, int, str]] = field(factory=list)
    is_bold: bool = False
    is_fixed: bool = False
    turned: bool = False


@define
class Block:
    """Lines which belong together; ``rows`` are the cells of one that is a table.

    ``is_listing`` marks an entry of a table of contents. ``margin`` is where code
    begins on the page, in points.
    """

    lines: list[Line]
    rows: list[list[str]] | None = None
    is_listing: bool = False
    margin: float = 0.0

    @property
    def box(self) -> Box:
        """The place on the page: left, bottom, right, top."""
        return (
            min(line.x0 for line in self.lines),
            min(line.y0 for line in self.lines),
            max(line.x1 for line in self.lines),
            max(line.y1 for line in self.lines),
        )


@define
class PageText:
    """The lines of a page in the order of the file, and the addresses it links to.

    Places in ``lines`` are those after ``turn`` quarters of a circle against the clock.
    """

    lines: list[Line] = field(factory=list)
    links: list[str] = field(factory=list)
    turn: int = 0

    @property
    def letters(self) -> int:
        """The number of letters and digits."""
        return sum(sum(map(str.isalnum, line.text)) for line in self.lines)


def turned(box: Box, quarters: int) -> Box:
    """Return a box turned about the corner of the page, against the clock."""
    left, bottom, right, top = box
    if quarters == 1:
        return -top, left, -bottom, right
    if quarters == 2:
        return -right, -top, -left, -bottom
    if quarters == 3:
        return bottom, -right, top, -left
    return box


def shown(text: str) -> str:
    """Return ``text`` with ligatures as letters and hyphens as hyphens."""
    return text if text.isascii() else text.translate(_LIGATURES)


def tidy(text: str) -> str:
    """Return ``text`` as shown, white space collapsed."""
    return " ".join(shown(text).split())


def unread_share(text: str) -> float:
    """Return the share of signs in ``text`` that are no readable ones, 0...1."""
    if not text or (text.isascii() and text.replace("\r\n", "").isprintable()):
        return 0.0
    return len(_UNREAD.findall(text)) / len(text)
