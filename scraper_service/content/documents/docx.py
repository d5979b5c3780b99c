"""Converts Word documents (.docx) with mammoth."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, Any

import mammoth

from scraper_service.content.documents.archive import Archive
from scraper_service.content.documents.markup import (
    ConvertedDocument,
    html_body,
    inner_html,
    properties,
)
from scraper_service.content.documents.word_xml import MARK_STYLES, WordXml
from scraper_service.content.losses import Losses

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "Word"
MAX_IMAGE_BYTES = 5 * 2**20
LARGE = "Pictures of over 5 MiB are not embedded in the page."
# Styles of titles, quotations and code, in addition to mammoth's own.
STYLES = f"""
{MARK_STYLES}
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='Quote'] => blockquote:fresh > p:fresh
p[style-name='Intense Quote'] => blockquote:fresh > p:fresh
p[style-name^='HTML Preformatted'] => pre:separator('\\n')
p[style-name^='Code'] => pre:separator('\\n')
p[style-name^='Source'] => pre:separator('\\n')
r[style-name^='HTML Code'] => code
r[style-name^='Code'] => code
u => em
strike => s
comment-reference =>
"""
_NOTE_BACK = re.compile(r'\s*<a href="#(?:footnote|endnote|comment)-ref-\d+">↑</a>')


def read_docx(body: bytes, *, embed_images: bool) -> ConvertedDocument:
    """Convert a document; images become data URIs, empty without ``embed_images``.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    archive.check_parts()
    known, other = properties(archive)
    losses = Losses()
    xml = WordXml(archive, losses)

    @mammoth.images.img_element  # type: ignore[untyped-decorator]
    def image(found: Any) -> dict[str, str]:
        data = b""
        if embed_images:
            with found.open() as stream:
                data = stream.read(MAX_IMAGE_BYTES + 1)
        if len(data) > MAX_IMAGE_BYTES:
            data = b""
            losses.add("image", LARGE, text=found.alt_text)
        encoded = base64.b64encode(data).decode()
        return {"src": f"data:{found.content_type or 'image/png'};base64,{encoded}"}

    try:
        result = mammoth.convert_to_html(
            io.BytesIO(xml.prepare(body)), style_map=STYLES, convert_image=image
        )
    except RecursionError as exc:
        raise archive.unreadable("its structure is nested too deeply") from exc
    except (
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        OSError,
        IndexError,
    ) as exc:
        raise archive.unreadable("it is damaged") from exc
    for message in result.messages:
        if "w:sym" in message.message:
            losses.add(
                "unreadableText", "A sign of a symbol font has no known meaning."
            )
    return ConvertedDocument(
        body=_with_headers(xml.fill(_NOTE_BACK.sub("", result.value))),
        known=known,
        other=other,
        warnings=list(_warnings(archive)),
        losses=losses,
    )


def _with_headers(body: str) -> str:
    """Make the first row of each table its header, as few documents mark headers."""
    root = html_body(body)
    if root is None:
        return body
    for table in root.iter("table"):
        rows = table.xpath("./tr | ./tbody/tr")
        if len(rows) > 1 and not table.xpath("./thead"):
            for cell in rows[0].iterchildren("td"):
                cell.tag = "th"
    return inner_html(root)


def _warnings(archive: Archive) -> Iterator[str]:
    if any(name.endswith("vbaProject.bin") for name in archive):
        yield "The macros of the document were left out."
