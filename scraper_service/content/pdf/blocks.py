"""The text blocks of a PDF file, classified and written as Markdown and HTML.

Blocks are headings, lists, code, tables and paragraphs. Headers and footers are removed.
"""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, field

from scraper_service.content.decode import clean_text
from scraper_service.content.markdown.inline import destination, escape_text, plain
from scraper_service.content.pdf.layout import blocks_in_order
from scraper_service.content.pdf.lines import HEADING_RATIO, Block, Hyphens, rotate_box

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.pdf.lines import Line, PageText

MAX_HEADING = 200  # characters
INDENT = 0.6  # minimum indent of a paragraph's first line, relative to the font size

Kind = Literal["heading", "list", "paragraph", "code", "table"]
Piece = tuple[str, "str | None"]  # a text, and the URL it links to

_BULLET = re.compile(
    r"^(?:[\u2022\u25cf\u25cb\u25aa\u25e6\u2023\u2043\u25a0\uf0b7\uf0a7\u2219]"
    r"|[\u2013*-](?=\s))\s*"
)
_NUMBERED = re.compile(r"^(?:\d{1,3}[.)]|\([0-9a-z]{1,3}\)|[a-z]\)|\[[ x]\])\s+\S")
_ENDS = re.compile(r"[.!?:;\u2026][\"')\]\u201d\u2019]?\Z")
_LINE_START = re.compile(r"^(?=#{1,6}\s|[-+]\s|>|=+$|-+$|~~~)")
_LOOSE_ITEMS = re.compile(r"(?m)^(- .*)\n\n(?=- )")


@define
class Part:
    """A classified block of the document."""

    #: Heading, list item, paragraph, code or table.
    kind: Kind
    #: The text; empty for a table.
    pieces: list[Piece] = field(factory=list)
    #: The level of a heading, 1 to 6; 0 for other kinds.
    level: int = 0
    #: The cells of a table; empty for other kinds.
    rows: list[list[str]] = field(factory=list)
    #: Left, bottom, right and top on the page, in points.
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def text(self) -> str:
        """The text without markup."""
        return "".join(text for text, _ in self.pieces)


def parts_of(pages: list[PageText]) -> list[list[Part]]:
    """Return the parts of each page; remove repeated lines from ``pages``."""
    drop_repeated(pages)
    sizes = Counter[float]()
    for page in pages:
        for line in page.lines:
            if not line.is_fixed:
                sizes[line.size] += len(line.text)
    styles = _Styles(sizes, Hyphens(line.text for page in pages for line in page.lines))
    return [_page_parts(page, styles) for page in pages]


def _page_parts(page: PageText, styles: _Styles) -> list[Part]:
    blocks = blocks_in_order(page.lines, page.grids)
    parts = _with_whole_code(part for block in blocks for part in _parts(block, styles))
    parts = _with_whole_words(parts, styles.hyphens)
    if page.angle:
        for part in parts:  # back to the coordinates of the page
            part.box = rotate_box(part.box, 4 - page.angle)
    return parts


def _with_whole_code(parts: Iterable[Part]) -> list[Part]:
    """Join consecutive code parts; make paragraphs of single lines of code."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and last.kind == part.kind == "code":
            is_apart = last.box[1] - part.box[3] > part.box[3] - part.box[1]
            last.pieces += [("", None), *part.pieces] if is_apart else part.pieces
            last.box = (*part.box[:2], *last.box[2:])
        else:
            found.append(part)
    for part in found:
        if part.kind == "code":
            text = dedent("\n".join(line for line, _ in part.pieces))
            part.pieces = [(text, None)]
            part.kind = "code" if "\n" in text else "paragraph"
    return found


def _with_whole_words(parts: list[Part], hyphens: Hyphens) -> list[Part]:
    """Join paragraphs that a hyphenated word connects, at any distance on the page."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if (
            last is not None
            and last.pieces
            and last.pieces[-1][0].endswith(("-", "\u2010"))
            and continues(last, part)
            and hyphens.joint(last.pieces[-1][0], part.text)[1] == ""
        ):
            found[-1] = join_parts(last, part, hyphens)
        else:
            found.append(part)
    return found


class _Styles:
    """Properties of a whole file: the font sizes of headings, and the hyphenated words."""

    def __init__(self, sizes: Counter[float], hyphens: Hyphens):
        self.hyphens = hyphens
        self.text_size = sizes.most_common(1)[0][0] if sizes else 10.0
        total = sum(sizes.values())
        least = HEADING_RATIO * self.text_size
        rare = (size for size, count in sizes.items() if count < 0.2 * total)
        larger = sorted((size for size in rare if size >= least), reverse=True)
        self._levels = {size: min(rank, 5) for rank, size in enumerate(larger, 1)}

    def level(self, block: Block) -> int:
        """Return the heading level of a block; 0 if it is no heading."""
        lines = block.lines
        size = max(lines, key=lambda line: len(line.text)).size
        level = self._levels.get(size, 0)
        if not level and len(lines) <= 2 and all(line.is_bold for line in lines):
            text = lines[-1].text
            if size >= self.text_size and not text.endswith((".", ",", ";", "-")):
                level = min(len(self._levels) + 1, 6)
        if not level:
            return 0
        length = sum(len(line.text) for line in lines)
        has_words = any(c.isalpha() for line in lines for c in line.text)
        return level if has_words and length <= MAX_HEADING else 0


def _parts(block: Block, styles: _Styles) -> Iterable[Part]:
    if block.rows is not None:
        yield Part("table", rows=block.rows, box=block.box)
        return
    if block.is_listing:
        yield Part("list", _pieces(block.lines, styles.hyphens), box=block.box)
        return
    if level := styles.level(block):
        yield Part(
            "heading", _pieces(block.lines, styles.hyphens), level, box=block.box
        )
        return
    if block.lines[0].is_fixed and not any(line.links for line in block.lines):
        yield Part("code", _code(block), box=block.box)
        return
    for kind, lines in _paragraphs(block):
        pieces = _pieces(lines, styles.hyphens)
        if kind == "list" and (bullet := _BULLET.match(pieces[0][0])):
            pieces[0] = (pieces[0][0][bullet.end() :], pieces[0][1])
        part = Part(kind, pieces, box=Block(lines).box)
        if part.text.strip():
            yield part


def _paragraphs(
    block: Block,
) -> Iterable[tuple[Literal["list", "paragraph"], list[Line]]]:
    left = min(line.x0 for line in block.lines)
    right = max(line.x1 for line in block.lines)
    kind: Literal["list", "paragraph"] = "paragraph"
    run: list[Line] = []
    for line in block.lines:
        bullet = _BULLET.match(line.text)
        if run and (
            bullet
            or _NUMBERED.match(line.text)
            or (kind == "paragraph" and _begins(run, line, left, right))
        ):
            yield kind, run
            run, kind = [], "paragraph"
        if bullet:
            kind = "list"
        run.append(line)
    yield kind, run


def _begins(run: list[Line], line: Line, left: float, right: float) -> bool:
    last = run[-1]
    indent = line.x0 - left
    if indent > INDENT * line.size and last.x0 - left < 0.3 * line.size:
        return indent < 0.3 * (right - left) and len(run) > 1
    is_short = last.x1 < right - 0.25 * (right - left)
    return is_short and bool(_ENDS.search(last.text)) and line.text[:1].isupper()


def _pieces(lines: list[Line], hyphens: Hyphens) -> list[Piece]:
    """Return the text of lines as pieces; join words hyphenated at a line end."""
    pieces: list[Piece] = []
    for line in lines:
        if pieces:
            before, url = pieces[-1]
            ends, link = hyphens.joint(before, line.text)
            pieces[-1] = (before[:ends], url)
            if link:
                pieces.append((link, None))
        at = 0
        for start, end, url in line.links:
            if start > at:
                pieces.append((line.text[at:start], None))
            pieces.append((line.text[start:end], url))
            at = end
        if at < len(line.text):
            pieces.append((line.text[at:], None))
    return _merge(pieces)


def _merge(pieces: list[Piece]) -> list[Piece]:
    """Join neighbouring pieces with the same link, and white space between them."""
    result: list[Piece] = []
    for index, (text, target) in enumerate(pieces):
        url = target
        following = pieces[index + 1][1] if index + 1 < len(pieces) else None
        if result and result[-1][1] and text == " " and following == result[-1][1]:
            url = following
        if result and result[-1][1] == url:
            result[-1] = (result[-1][0] + text, url)
        else:
            result.append((text, url))
    return result


def _code(block: Block) -> list[Piece]:
    """Return lines of a fixed-width font with their indents as spaces."""
    lines = block.lines
    width = sum(line.x1 - line.x0 for line in lines) / sum(len(x.text) for x in lines)
    indents = [round((x.x0 - block.margin) / max(width, 1.0)) for x in lines]
    texts = (f"{' ' * min(n, 80)}{x.text}" for n, x in zip(indents, lines, strict=True))
    return [(text, None) for text in texts]


def continues(last: Part, first: Part) -> bool:
    """Return True if the paragraph ``last`` continues in ``first``."""
    if last.kind not in {"paragraph", "list"} or first.kind != "paragraph":
        return False
    return not _ENDS.search(last.text.rstrip()) and first.text[:1].islower()


def join_parts(last: Part, first: Part, hyphens: Hyphens | None = None) -> Part:
    """Join a paragraph that a page break or column break has split."""
    pieces = list(last.pieces)
    text, url = pieces[-1]
    ends, link = (hyphens or Hyphens()).joint(text, first.text)
    pieces[-1] = (text[:ends], url)
    if link:
        pieces.append((link, None))
    return Part(last.kind, _merge([*pieces, *first.pieces]), last.level, box=last.box)


def join_pages(pages: list[list[Part]], *, markers: bool) -> str:
    """Return the Markdown of a file; with ``markers``, mark where pages begin."""
    if markers:
        texts = [markdown_of(parts) for parts in pages]
        marked = [
            f"---\n\n<!-- page {number} -->\n\n{text}"
            for number, text in enumerate(texts[1:], 2)
        ]
        return "\n\n".join(part.strip() for part in (texts[0], *marked)).strip()
    flow: list[Part] = []
    for parts in pages:
        if flow and parts and continues(flow[-1], parts[0]):
            flow[-1] = join_parts(flow[-1], parts[0])
            flow += parts[1:]
        else:
            flow += parts
    return markdown_of(flow)


def by_page(pages: list[list[Part]]) -> list[dict[str, Any]]:
    """Return the Markdown of each page with its number, counted from 1."""
    return [
        {"pageNumber": number, "markdown": markdown_of(parts)}
        for number, parts in enumerate(pages, 1)
    ]


def list_blocks(pages: list[list[Part]]) -> list[dict[str, Any]]:
    """Return the parts with kind, text and position: left, bottom, right, top."""
    return [
        {
            "pageNumber": number,
            "type": part.kind,
            "text": clean_text(part_markdown(part)),
            "bbox": [round(value, 1) for value in part.box],
        }
        for number, parts in enumerate(pages, 1)
        for part in parts
    ]


def markdown_of(parts: Iterable[Part]) -> str:
    """Return the Markdown of parts, without a newline at the end."""
    texts = [text for part in parts if (text := part_markdown(part))]
    joined = "\n\n".join(texts)
    return clean_text(
        _LOOSE_ITEMS.sub(r"\1\n", joined) if "\n\n- " in joined else joined
    )


def part_markdown(part: Part) -> str:
    """Return the Markdown of one part; empty if the part has no text."""
    if part.kind == "code":
        text = part.text
        fence = "```"
        while fence in text:
            fence += "`"
        return f"{fence}\n{text}\n{fence}"
    if part.kind == "table":
        return _table(part.rows)
    text = "".join(map(_piece, part.pieces)).strip()
    if not text:
        return ""
    if part.kind == "heading":
        return f"{'#' * part.level} {text}"
    if part.kind == "list":
        return f"- {text}"
    return _LINE_START.sub(r"\\", text)


def html_of(pages: Iterable[Iterable[Part]], title: str) -> str:
    """Return an HTML document with a section for each page."""
    name = html.escape(title, quote=False)
    head = f"<head><title>{name}</title></head>" if title else ""
    body = "\n".join(f"<section>\n{_section(parts)}</section>" for parts in pages)
    return clean_text(f"<html>{head}<body>\n{body}\n</body></html>")


def _piece(piece: Piece) -> str:
    text, url = piece
    if url is None:
        return escape_text(plain(text))
    return f"[{escape_text(plain(text), label=True)}]({destination(url)})"


def _table(rows: list[list[str]]) -> str:
    lines = []
    for row in rows:
        cells = (escape_text(plain(cell)).replace("|", "\\|") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    lines.insert(1, "|".join(["", *(" --- " for _ in rows[0]), ""]))
    return "\n".join(lines)


def _section(parts: Iterable[Part]) -> str:
    written = []
    in_list = False
    for part in parts:
        if (part.kind == "list") != in_list:
            written.append("</ul>\n" if in_list else "<ul>\n")
            in_list = not in_list
        written.append(_element(part))
    return "".join(written) + ("</ul>\n" if in_list else "")


def _element(part: Part) -> str:
    if part.kind == "table":
        rows = (
            "".join(f"<td>{html.escape(cell, quote=False)}</td>" for cell in row)
            for row in part.rows
        )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>\n"
    if part.kind == "code":
        return f"<pre>{html.escape(part.text, quote=False)}</pre>\n"
    tag = {"heading": f"h{part.level}", "list": "li"}.get(part.kind, "p")
    return f"<{tag}>{''.join(map(_anchor, part.pieces))}</{tag}>\n"


def _anchor(piece: Piece) -> str:
    text, url = html.escape(piece[0], quote=False), piece[1]
    return f'<a href="{html.escape(url)}">{text}</a>' if url else text


# -- headers and footers -----------------------------------------------------------------

MIN_REPEATED = 3  # pages with the same header or footer text
MIN_NUMBERED = 0.6  # minimum share of pages with a consecutive page number
MIN_SHARE = 0.4  # minimum share of pages with a repeated text at the same height

_DIGITS = re.compile(r"\d+|\b[ivxlc]+\b")
_WORD = re.compile(r"[^\W\d_]{2}")
# The page number begins or ends a cell, as in "Page 3 of 10" and "Tides | 3/10".
_TOTAL = r"(?:\s*(?:/|\b[^\W\d_]{1,3}\b)\s*\d+)?"
_FIRST_NUMBER = re.compile(
    r"(?:^|[|\xb7\u2022])\W{0,5}(?:(?:p[a\xe1]g\w*|p\.|seite)\W{0,5})?(\d{1,5})"
    rf"{_TOTAL}(?![\w.,)])",
    re.IGNORECASE,
)
_END_NUMBER = re.compile(
    rf"{_FIRST_NUMBER.pattern}|(?<![\w.,])(\d{{1,5}}){_TOTAL}\W*$", re.IGNORECASE
)


def drop_repeated(pages: list[PageText]) -> None:
    """Remove headers, footers and page numbers that stand on many pages.

    They differ by no more than the page number, and a header is not in larger print.
    """
    if len(pages) <= 3:
        return
    edges, text_size = _edges(pages)
    offsets = Counter(
        offset
        for number, edge in enumerate(edges)
        for offset in {n - number for line, _ in edge for n in _numbers(line.text)}
    )
    numbered = {n for n, count in offsets.items() if count >= MIN_NUMBERED * len(pages)}
    running = []
    for number, edge in enumerate(edges):
        numbers = {number + n for n in numbered}
        texts = (_words(x, numbers, x.size < text_size, is_top=top) for x, top in edge)
        running.append([(x, *words) for (x, _), words in zip(edge, texts, strict=True)])
    counts = Counter(
        key
        for found in running
        for key in {(text, _height(line)) for line, text, _ in found}
    )
    shares = Counter[int]()
    for (_, height), count in counts.items():
        shares[height] += count if count >= MIN_REPEATED else 0
    # The same text on most pages, or chapter names that each stand on some pages.
    heights = {height for height, n in shares.items() if n >= MIN_SHARE * len(pages)}
    for page, found in zip(pages, running, strict=True):
        unwanted = {
            id(line)
            for line, text, is_numbered in found
            if is_numbered
            or (_height(line) in heights and counts[text, _height(line)] > 1)
        }
        if unwanted and len(unwanted) < len(page.lines):
            page.lines = [line for line in page.lines if id(line) not in unwanted]


def _height(line: Line) -> int:
    return round(line.y0 / 4)


def _numbers(text: str) -> set[int]:
    """Return the numbers at both ends of a text: candidates for the page number."""
    return {int(first or last) for first, last in _END_NUMBER.findall(text)}


def _words(
    line: Line, numbers: set[int], is_small: bool, *, is_top: bool
) -> tuple[str, bool]:
    """Return the text with a sign for the page number, which is one of ``numbers``.

    Also return whether the page number stands apart from other words.
    """

    def mask(match: re.Match[str]) -> str:
        return "#" if int(match[match.lastindex or 1]) in numbers else match[0]

    bare = _DIGITS.sub("#", line.text)
    if not _WORD.search(bare):
        return bare, bool(_numbers(line.text) & numbers)
    texts = []
    is_apart = False
    for text in [cell.text for cell in line.cells] or [line.text]:
        bare = _DIGITS.sub("#", text)
        is_bare = not _WORD.search(bare)
        # "Chapter 3" at the top of a page may be a heading.
        may_end = is_bare or is_small or not is_top
        words = (_END_NUMBER if may_end else _FIRST_NUMBER).sub(mask, text)
        is_apart |= is_bare and words != text
        texts.append(bare if is_bare and is_small else words)
    return " ".join(texts), is_apart and not (is_top and line.is_bold)


def _edges(pages: list[PageText]) -> tuple[list[list[tuple[Line, bool]]], float]:
    """Return the lines that a gap separates from the text, and the text's size.

    True marks lines at the top, where large ones are headings and left out.
    """
    found = []
    texts: dict[str, Line] = {}
    for page in pages:
        lines = [line for line in page.lines if not line.is_rotated]
        lines.sort(key=lambda line: -line.y1)
        top = _apart(lines)
        found.append((top, _apart(lines[::-1])))
        texts |= {line.text: line for line in lines[len(top) :]}
    sizes = Counter[float]()
    for text, line in texts.items():
        sizes[line.size] += len(text)
    size = max(sizes, key=sizes.__getitem__, default=0.0)
    edges = [
        [(line, True) for line in top if line.size < HEADING_RATIO * size]
        + [(line, False) for line in bottom]
        for top, bottom in found
    ]
    return edges, size


def _apart(lines: list[Line]) -> list[Line]:
    """Return the first lines up to a gap; no lines if there is no gap."""
    for index, (line, following) in enumerate(itertools.pairwise(lines)):
        gap = max(line.y0 - following.y1, following.y0 - line.y1)
        if gap > 0.6 * line.size:
            return lines[: index + 1]
    return []
