"""Converts presentations (.pptx): each slide becomes a section with its notes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from scraper_service.content.documents.drawings_and_formulas import (
    Graphics,
    Relations,
    formula,
    record_object,
)
from scraper_service.content.documents.files import (
    FILM,
    HIDDEN_SLIDES,
    MAX_CELLS,
    Archive,
    ConvertedDocument,
    anchor,
    attribute,
    element,
    emphasis,
    escape,
    local,
    nested_list,
    ooxml_document,
    parse_digits,
    picture,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scraper_service.content.losses import Losses

KIND = "PowerPoint"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
MAX_SLIDES = 2000
TITLES = frozenset({"title", "ctrTitle"})
# Placeholders in the frame of a slide: date, footer, slide number, header, slide image.
FRAME = frozenset({"dt", "ftr", "sldNum", "hdr", "sldImg"})

# Names of elements in pictures of films and sounds, and the kinds of losses.
_FILMS = {"videoFile": "video", "audioFile": "audio", "wavAudioFile": "audio"}
PICTURE = "A picture of a presentation has no description, which would stand for it."
COMMENT = "Comments of a presentation are no part of its text."


def read_pptx(body: bytes) -> ConvertedDocument:
    """Convert a presentation; hidden slides are left out.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    path = archive.main_part("ppt/presentation.xml")
    relations = archive.relations(path)
    slides = dict.fromkeys(  # each once, however often the list repeats it
        relations[name][1]
        for item in archive.xml(path).iterfind("{*}sldIdLst/{*}sldId")
        if (name := item.get(_RELATION) or "") in relations
    )
    document = ooxml_document(archive)
    reader = _Reader(archive, document.losses)
    if len(slides) > MAX_SLIDES:
        document.record_cut("presentation", MAX_SLIDES, len(slides), "slides")
    parts = []
    hidden = 0
    for number, name in enumerate(islice(slides, MAX_SLIDES), 1):
        root = archive.xml(name)
        if root.get("show") == "0":
            hidden += 1
            continue
        parts.append(reader.html(name, root, number))
    if hidden:
        document.warn("hiddenPart", HIDDEN_SLIDES.format(hidden), count=hidden)
    document.body = "\n".join(parts)
    return document


class _Reader:
    """Writes the shapes of slides, and records what it cannot write."""

    def __init__(self, archive: Archive, losses: Losses):
        self._archive = archive
        self._losses = losses
        self._graphics = Graphics(archive, losses)
        #: The parts with notes that slides before have written.
        self._noted: set[str] = set()
        #: The relations of the slide or the notes that are read.
        self._relations: Relations = {}

    def html(self, name: str, root: Any, number: int) -> str:
        """Return the slide in a part with its notes as a section."""
        self._relations = self._archive.relations(name)
        shapes = list(_shapes(root))
        titles = (s for s in shapes if _placeholder(s) in TITLES and _words(s))
        title = next(titles, None)
        heading = escape(_words(title)) if title is not None else f"Slide {number}"
        parts = [element("h2", heading)]
        parts += [self._shape(s) for s in shapes if s is not title]
        related = list(self._relations.values())
        notes = next((t for k, t, _ in related if k == "notesSlide"), None)
        if notes and notes in self._archive and notes not in self._noted:
            self._noted.add(notes)
            self._relations = self._archive.relations(notes)
            shapes = list(_shapes(self._archive.xml(notes)))
            texts = [self._shape(shape, is_list=False) for shape in shapes]
            if any(texts):
                parts.append(element("blockquote", f"<p>Notes:</p>{''.join(texts)}"))
        for kind, target, _ in related:
            if kind == "comments" and target in self._archive:
                for text in self._archive.xml(target).iter("{*}text", "{*}txBody"):
                    words = "".join(text.itertext())
                    self._losses.add("annotation", COMMENT, text=words)
        return element("section", "\n".join(filter(None, parts)))

    def _shape(self, shape: Any, *, is_list: bool = True) -> str:
        kind = local(shape)
        if kind == "graphicFrame":
            return self._frame(shape)
        if kind == "pic":
            return self._picture(shape)
        text = shape.find("{*}txBody")
        if text is None:
            return ""
        is_list = is_list and _placeholder(shape) in {"body", "obj"}
        items: list[tuple[int, str]] = []
        parts: list[str] = []
        for paragraph in text.iterfind("{*}p"):
            content = self._paragraph(paragraph)
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
        return "\n".join(filter(None, parts))

    def _frame(self, frame: Any) -> str:
        """Return a table, chart or SmartArt; record another object."""
        grid = frame.find(".//{*}tbl")
        if grid is not None:
            return self._table(grid)
        data = next(frame.iter("{*}graphicData"), None)
        if data is None:
            return ""
        html = self._graphics.html(data, self._relations)
        if html is None and (thing := next(data.iter("{*}oleObj"), None)) is not None:
            record_object(thing.get("progId") or thing.get("name", ""), self._losses)
        return html or ""

    def _picture(self, shape: Any) -> str:
        facts = shape.find("{*}nvPicPr/{*}cNvPr")
        alt = facts.get("descr", "") if facts is not None else ""
        for name, kind in _FILMS.items():
            if next(shape.iter(f"{{*}}{name}"), None) is not None:
                label = alt or (facts.get("name", "") if facts is not None else "")
                self._losses.add(kind, FILM, text=label)
                return ""
        if next(shape.iterancestors("{*}oleObj"), None) is not None:
            return ""
        image = picture(alt, self._losses, PICTURE)
        return element("p", image) if image else ""

    def _paragraph(self, paragraph: Any) -> str:
        parts = []
        for run in paragraph:
            kind = local(run)
            if kind == "AlternateContent":
                choice = run.find("{*}Choice")
                parts.append(self._paragraph(choice) if choice is not None else "")
            elif kind == "m":
                parts += [formula(item, self._losses) for item in run]
            elif kind == "br":
                parts.append("<br>")
            elif kind in {"r", "fld"}:
                parts.append(_run(run, self._relations))
        return "".join(parts)

    def _table(self, grid: Any) -> str:
        rows: list[list[str]] = []
        found = list(grid.iterfind("{*}tr"))
        left = MAX_CELLS
        for row in found:
            cells = [
                "<br>".join(filter(None, map(self._paragraph, cell.iter("{*}p"))))
                for cell in row.iterfind("{*}tc")
            ]
            left -= len(cells)
            if left < 0:
                self._losses.add(
                    "truncated",
                    f"At most {MAX_CELLS} cells of a table are converted: {len(rows)} of "
                    f"its {len(found)} rows.",
                )
                break
            rows.append(cells)
        facts = grid.find("{*}tblPr")
        header = facts is not None and facts.get("firstRow") in {"1", "true"}
        return table(rows, headers=int(header))


def _shapes(root: Any) -> Iterator[Any]:
    """Yield shapes, tables and pictures in their order, also from groups."""
    for item in root.iter("{*}sp", "{*}graphicFrame", "{*}pic"):
        is_duplicate = next(item.iterancestors("{*}Fallback"), None) is not None
        if _placeholder(item) not in FRAME and not is_duplicate:
            yield item


def _placeholder(shape: Any) -> str | None:
    for path in ("{*}nvSpPr", "{*}nvPicPr", "{*}nvGraphicFramePr"):
        found = shape.find(f"{path}/{{*}}nvPr/{{*}}ph")
        if found is not None:
            return str(found.get("type", "obj"))
    return None


def _words(shape: Any) -> str:
    return " ".join("".join(p.itertext()).strip() for p in shape.iter("{*}p")).strip()


def _is_item(facts: Any, default: bool) -> bool:
    if facts is None:
        return default
    if facts.find("{*}buNone") is not None:
        return False
    marks = ("{*}buChar", "{*}buAutoNum")
    return any(facts.find(name) is not None for name in marks) or default


def _level(facts: Any) -> int:
    return min(parse_digits(facts.get("lvl", "0")), 8) if facts is not None else 0


def _run(run: Any, relations: Relations) -> str:
    content = escape(run.findtext("{*}t") or "")
    facts = run.find("{*}rPr")
    if facts is None or not content.strip():
        return content
    bold, italic = (facts.get(name) in {"1", "true"} for name in "bi")
    content = emphasis(content, bold, italic)
    link = facts.find("{*}hlinkClick")
    target = relations.get(attribute(link, "id") or "") if link is not None else None
    return anchor(content, target[1]) if target and target[2] else content
