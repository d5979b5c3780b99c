"""Word documents (.docx), read by mammoth."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, Any

import mammoth

from scraper_service.content.documents.archive import MAX_XML_BYTES, Archive
from scraper_service.content.documents.markup import Draft, html_body, inner_html
from scraper_service.content.documents.properties import properties

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "Word"
MAX_IMAGE_BYTES = 5 * 2**20
# Beyond what mammoth knows: styles of titles, quotations and code.
STYLES = """
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
_NOTE_BACK = re.compile(r'\s*<a href="#(?:footnote|endnote)-ref-\d+">↑</a>')
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)")


def read_docx(body: bytes, *, embed_images: bool) -> Draft:
    """Convert a document. Images become data URIs, empty unless ``embed_images``.

    :raises Unreadable: for a damaged, encrypted or hostile file.
    """
    archive = Archive(body, KIND)
    _check(archive)
    known, other = properties(archive)

    @mammoth.images.img_element  # type: ignore[untyped-decorator]
    def image(found: Any) -> dict[str, str]:
        data = b""
        if embed_images:
            with found.open() as stream:
                data = stream.read(MAX_IMAGE_BYTES + 1)
        data = data if len(data) <= MAX_IMAGE_BYTES else b""
        encoded = base64.b64encode(data).decode()
        return {"src": f"data:{found.content_type or 'image/png'};base64,{encoded}"}

    try:
        result = mammoth.convert_to_html(
            io.BytesIO(body), style_map=STYLES, convert_image=image
        )
    except RecursionError as exc:
        raise archive.refused("its structure is nested too deeply") from exc
    except (
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        OSError,
        IndexError,
    ) as exc:
        raise archive.refused("it is damaged") from exc
    return Draft(
        body=_with_headers(_NOTE_BACK.sub("", result.value)),
        known=known,
        other=other,
        warnings=list(_warnings(archive)),
    )


def _with_headers(body: str) -> str:
    """Make the first row of a table its header: few documents mark it as one."""
    root = html_body(body)
    if root is None:
        return body
    for table in root.iter("table"):
        rows = table.xpath("./tr | ./tbody/tr")
        if len(rows) > 1 and not table.xpath("./thead"):
            for cell in rows[0].iterchildren("td"):
                cell.tag = "th"
    return inner_html(root)


def _check(archive: Archive) -> None:
    """Read all XML once, within the limits, before mammoth does so without any."""
    for name in archive:
        if name.endswith((".xml", ".rels")):
            start = archive.read(name, MAX_XML_BYTES)
            if _DOCTYPE.search(start):
                raise archive.refused("it declares entities, which such files never do")


def _warnings(archive: Archive) -> Iterator[str]:
    if any(name.endswith("vbaProject.bin") for name in archive):
        yield "The macros of the document were left out."
