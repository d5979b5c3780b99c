"""Writes the parts of a PDF file as Markdown and HTML."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

from scraper_service.content.decode import clean_text
from scraper_service.content.markdown.inline import destination, escaped, plain
from scraper_service.content.pdf.blocks import continues, join_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scraper_service.content.pdf.blocks import Part, Piece

_LINE_START = re.compile(r"^(?=#{1,6}\s|[-+]\s|>|=+$|-+$|~~~)")
_LOOSE_ITEMS = re.compile(r"(?m)^(- .*)\n\n(?=- )")


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
        return escaped(plain(text))
    return f"[{escaped(plain(text), label=True)}]({destination(url)})"


def _table(rows: list[list[str]]) -> str:
    lines = []
    for row in rows:
        cells = (escaped(plain(cell)).replace("|", "\\|") for cell in row)
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
