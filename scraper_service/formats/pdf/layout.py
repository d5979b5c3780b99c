"""From positioned lines of a PDF to paragraphs, headings and reading order."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from scraper_service.formats.decode import clean_text
from scraper_service.formats.inline import escaped, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_SORTED = 1500  # blocks of a page; beyond it columns are not looked for
HEADING_RATIO = 1.15  # size of a heading against the text
EDGE_LINES = 2  # lines at the top and bottom looked at for repetition
COLUMN_GAP = 6.0  # points between two columns

_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]\Z")
_BULLET = re.compile(
    r"^(?:[\u2022\u25cf\u25aa\u25e6\u2023\u2043\u25a0\uf0b7\uf0a7]|[\u2013-](?=\s))\s*"
)
_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_LINE_START = re.compile(r"^(?=#{1,6}\s|[-+]\s|>|=+$|-+$|~~~)")


@frozen
class _Line:
    text: str
    size: float
    x0: float
    y0: float
    x1: float
    y1: float


@define
class _Block:
    lines: list[_Line]

    @property
    def box(self) -> tuple[float, float, float, float]:
        return (
            min(line.x0 for line in self.lines),
            min(line.y0 for line in self.lines),
            max(line.x1 for line in self.lines),
            max(line.y1 for line in self.lines),
        )


@define
class PdfPage:
    """The text blocks of one page, in points from its lower left corner."""

    blocks: list[_Block] = field(factory=list)

    @classmethod
    def from_layout(cls, layout: Any) -> PdfPage:
        """Read pdfminer's layout of a page, figures included."""
        blocks = []
        for box in _boxes(layout):
            lines = [_line(line) for line in box]
            kept = [line for line in lines if line is not None]
            if kept:
                blocks.append(_Block(kept))
        return cls(_in_order(blocks))


def _boxes(layout: Any) -> Iterator[Any]:
    """Yield the text boxes, those in figures as well."""
    for item in layout:
        if hasattr(item, "get_text"):
            if hasattr(item, "__iter__"):
                yield item
        elif hasattr(item, "__iter__"):
            yield from _boxes(item)


def laid_out(pages: list[PdfPage]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the Markdown of each page and all blocks with their places."""
    _drop_repeated(pages)
    sizes = Counter[float]()
    for page in pages:
        for block in page.blocks:
            for line in block.lines:
                sizes[line.size] += len(line.text)
    levels = _heading_levels(sizes)
    texts, facts = [], []
    for number, page in enumerate(pages, 1):
        parts = []
        for block in page.blocks:
            for kind, text in _paragraphs(block, levels):
                parts.append(text)
                facts.append(
                    {
                        "pageNumber": number,
                        "type": kind,
                        "text": text,
                        "bbox": [round(value, 1) for value in block.box],
                    }
                )
        texts.append(
            clean_text(re.sub(r"(?m)^(- .*)\n\n(?=- )", r"\1\n", "\n\n".join(parts)))
        )
    return texts, facts


def _line(line: Any) -> _Line | None:
    if not hasattr(line, "get_text"):
        return None
    text = " ".join(line.get_text().replace("\xad", "-").split())
    if not text:
        return None
    sizes = (
        Counter(round(c.size, 1) for c in line if hasattr(c, "size"))
        if hasattr(line, "__iter__")
        else Counter[float]()
    )
    size = sizes.most_common(1)[0][0] if sizes else round(line.height, 1)
    return _Line(text, size, *line.bbox)


def _in_order(blocks: list[_Block]) -> list[_Block]:
    """Sort into reading order: strips from the top, columns inside from the left."""
    if len(blocks) < 2 or len(blocks) > MAX_SORTED:
        return sorted(blocks, key=lambda b: (-b.box[3], b.box[0]))
    boxes = [(block.box, block) for block in blocks]
    strips = _split(boxes, low=1, high=3, gap=0.0, reverse=True)
    ordered: list[_Block] = []
    while strips:
        group = strips.pop(0)
        columns = _columns(group)
        while strips and len(merged := _columns(group + strips[0])) > 1:
            group, columns = group + strips.pop(0), merged
        for column in columns:
            column.sort(key=lambda item: (-item[0][3], item[0][0]))
            ordered += [block for _, block in column]
    return ordered


_Boxes = list[tuple[tuple[float, float, float, float], _Block]]


def _columns(boxes: _Boxes) -> list[_Boxes]:
    return _split(boxes, low=0, high=2, gap=COLUMN_GAP, reverse=False)


def _split(
    boxes: _Boxes, *, low: int, high: int, gap: float, reverse: bool
) -> list[_Boxes]:
    """Cut at the gaps of the projection on one axis."""
    ordered = sorted(boxes, key=lambda item: item[0][low])
    groups: list[_Boxes] = []
    edge = float("-inf")
    for item in ordered:
        if item[0][low] >= edge + gap or not groups:
            groups.append([])
        groups[-1].append(item)
        edge = max(edge, item[0][high])
    return groups[::-1] if reverse else groups


def _drop_repeated(pages: list[PdfPage]) -> None:
    """Remove the header and footer lines that stand on most pages."""
    if len(pages) <= 3:
        return
    counts: Counter[str] = Counter()
    for page in pages:
        counts.update({_DIGITS.sub("#", line.text) for line in _edge(page)})
    repeated = {text for text, n in counts.items() if n > 0.5 * len(pages)}
    for page in pages:
        unwanted = {
            id(line) for line in _edge(page) if _DIGITS.sub("#", line.text) in repeated
        }
        if not unwanted or len(unwanted) == sum(len(b.lines) for b in page.blocks):
            continue
        for block in page.blocks:
            block.lines = [line for line in block.lines if id(line) not in unwanted]
        page.blocks = [block for block in page.blocks if block.lines]


def _edge(page: PdfPage) -> list[_Line]:
    lines = sorted(
        (line for b in page.blocks for line in b.lines), key=lambda line: -line.y1
    )
    return [*lines[:EDGE_LINES], *lines[EDGE_LINES:][-EDGE_LINES:]]


def _heading_levels(sizes: Counter[float]) -> dict[float, int]:
    if not sizes:
        return {}
    text_size = sizes.most_common(1)[0][0]
    total = sum(sizes.values())
    larger = sorted(
        (
            s
            for s, n in sizes.items()
            if s >= HEADING_RATIO * text_size and n < 0.2 * total
        ),
        reverse=True,
    )
    return {size: min(rank, 4) for rank, size in enumerate(larger, 1)}


def _paragraphs(block: _Block, levels: dict[float, int]) -> list[tuple[str, str]]:
    """Return (type, Markdown) of the headings, list items and paragraphs in a block."""
    result: list[tuple[str, str]] = []
    run: list[str] = []
    kind = ""
    for line in block.lines:
        level = levels.get(line.size, 0)
        bullet = None if level else _BULLET.match(line.text)
        own = (
            f"heading{level}"
            if level
            else "list"
            if bullet or kind == "list"
            else "text"
        )
        if run and (own != kind or bullet):
            result.append(_written(kind, run))
            run = []
        kind = own
        run.append(line.text[bullet.end() :] if bullet else line.text)
    if run:
        result.append(_written(kind, run))
    return [(name, text) for name, text in result if text.strip("#- ")]


def _written(kind: str, lines: list[str]) -> tuple[str, str]:
    text = ""
    for line in lines:
        if text and _HYPHEN.search(text) and line[:1].islower():
            text = text[:-1] + line
        else:
            text = f"{text} {line}" if text else line
    text = escaped(plain(text)).strip()
    if kind.startswith("heading"):
        if any(char.isalpha() for char in text) and len(text) <= 200:
            return "heading", f"{'#' * int(kind[-1])} {text}"
        return "paragraph", text
    if kind == "list":
        return "list", f"- {text}"
    return "paragraph", _LINE_START.sub(r"\\", text)
