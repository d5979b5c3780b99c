"""Converts presentations (.pptx): each slide becomes a section with its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.documents.archive import Archive, attribute, local
from scraper_service.content.documents.markup import (
    MAX_CELLS,
    ConvertedDocument,
    anchor,
    element,
    escape,
    nested_list,
    picture,
    properties,
    table,
)
from scraper_service.content.text.digits import parse_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "PowerPoint"
MAX_SLIDES = 2000
TITLES = frozenset({"title", "ctrTitle"})
# Placeholders in the frame of a slide: date, footer, slide number, header, slide image.
FRAME = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})

Relations = dict[str, tuple[str, str, bool]]


def read_pptx(body: bytes) -> ConvertedDocument:
    """Convert a presentation; hidden slides are left out.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    path = archive.main_part("ppt/presentation.xml")
    relations = archive.relations(path)
    slides = [
        relations[name][1]
        for item in archive.xml(path).iterfind("{*}sldIdLst/{*}sldId")
        if (name := item.get(_RELATION) or "") in relations
    ]
    warnings = []
    if len(slides) > MAX_SLIDES:
        warnings.append(
            f"The presentation was truncated: {MAX_SLIDES} of its {len(slides)} slides "
            "were converted."
        )
    parts = []
    hidden = 0
    for number, name in enumerate(slides[:MAX_SLIDES], 1):
        root = archive.xml(name)
        if root.get("show") == "0":
            hidden += 1
            continue
        parts.append(_slide(archive, name, root, number))
    if hidden:
        warnings.append(f"Hidden slides were left out: {hidden}.")
    known, other = properties(archive)
    return ConvertedDocument(
        body="\n".join(parts), known=known, other=other, warnings=warnings
    )


_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def _slide(archive: Archive, name: str, root: Any, number: int) -> str:
    relations = archive.relations(name)
    shapes = list(_shapes(root))
    title = next(
        (shape for shape in shapes if _placeholder(shape) in TITLES and _words(shape)),
        None,
    )
    heading = escape(_words(title)) if title is not None else f"Slide {number}"
    parts = [element("h2", heading)]
    parts += [_shape(s, relations) for s in shapes if s is not title]
    notes = next((t for k, t, _ in relations.values() if k == "notesSlide"), None)
    if notes is not None and notes in archive:
        noted = [
            _shape(shape, {}, is_list=False)
            for shape in _shapes(archive.xml(notes))
            if _placeholder(shape) == "body"
        ]
        if any(noted):
            parts.append(element("blockquote", f"<p>Notes:</p>{''.join(noted)}"))
    return element("section", "\n".join(part for part in parts if part))


def _shapes(root: Any) -> Iterator[Any]:
    """Yield shapes, tables and pictures in their order, also from groups."""
    for item in root.iter("{*}sp", "{*}graphicFrame", "{*}pic"):
        is_duplicate = next(item.iterancestors("{*}Fallback"), None) is not None
        if _placeholder(item) not in FRAME and not is_duplicate:
            yield item


def _placeholder(shape: Any) -> str | None:
    if shape is None:
        return None
    for path in ("{*}nvSpPr", "{*}nvPicPr", "{*}nvGraphicFramePr"):
        found = shape.find(f"{path}/{{*}}nvPr/{{*}}ph")
        if found is not None:
            return str(found.get("type", "obj"))
    return None


def _words(shape: Any) -> str:
    return " ".join("".join(p.itertext()).strip() for p in shape.iter("{*}p")).strip()


def _shape(shape: Any, relations: Relations, *, is_list: bool = True) -> str:
    kind = local(shape)
    if kind == "graphicFrame":
        grid = shape.find(".//{*}tbl")
        return _table(grid, relations) if grid is not None else ""
    if kind == "pic":
        facts = shape.find("{*}nvPicPr/{*}cNvPr")
        alt = facts.get("descr", "") if facts is not None else ""
        return element("p", picture(alt)) if alt.strip() else ""
    text = shape.find("{*}txBody")
    if text is None:
        return ""
    is_list = is_list and _placeholder(shape) in {"body", "obj"}
    items: list[tuple[int, str]] = []
    parts: list[str] = []
    for paragraph in text.iterfind("{*}p"):
        content = _paragraph(paragraph, relations)
        if not content.strip():
            continue
        facts = paragraph.find("{*}pPr")
        level = _level(facts)
        if _is_item(facts, is_list):
            items.append((level, content))
            continue
        parts += [nested_list(items), element("p", content)]
        items = []
    parts.append(nested_list(items))
    return "\n".join(part for part in parts if part)


def _is_item(facts: Any, default: bool) -> bool:
    if facts is None:
        return default
    if facts.find("{*}buNone") is not None:
        return False
    marked = (
        facts.find("{*}buChar") is not None or facts.find("{*}buAutoNum") is not None
    )
    return marked or default


def _level(facts: Any) -> int:
    return min(parse_digits(facts.get("lvl", "0")), 8) if facts is not None else 0


def _paragraph(paragraph: Any, relations: Relations) -> str:
    parts = []
    for run in paragraph:
        kind = local(run)
        if kind == "br":
            parts.append("<br>")
        elif kind in {"r", "fld"}:
            parts.append(_run(run, relations))
    return "".join(parts)


def _run(run: Any, relations: Relations) -> str:
    content = escape(run.findtext("{*}t") or "")
    facts = run.find("{*}rPr")
    if facts is None or not content.strip():
        return content
    if facts.get("b") in {"1", "true"}:
        content = element("strong", content)
    if facts.get("i") in {"1", "true"}:
        content = element("em", content)
    link = facts.find("{*}hlinkClick")
    target = relations.get(attribute(link, "id") or "") if link is not None else None
    return anchor(content, target[1]) if target and target[2] else content


def _table(grid: Any, relations: Relations) -> str:
    rows = []
    left = MAX_CELLS
    for row in grid.iterfind("{*}tr"):
        cells = [
            "<br>".join(
                filter(None, (_paragraph(p, relations) for p in cell.iter("{*}p")))
            )
            for cell in row.iterfind("{*}tc")
        ]
        left -= len(cells)
        if left < 0:
            break
        rows.append(cells)
    facts = grid.find("{*}tblPr")
    header = facts is not None and facts.get("firstRow") in {"1", "true"}
    return table(rows, has_header=header)
