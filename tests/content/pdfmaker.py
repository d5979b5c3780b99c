"""PDF files for tests, written by hand: text at places, links, info, encryption."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from tools.bench.pdf_file import pdf_file

if TYPE_CHECKING:
    from collections.abc import Sequence

Text = tuple[float, float, float, str] | bytes  # x, y, size, text; or PDF operators

ENCRYPTED = b"/Encrypt << /Filter /Unknown /V 9 >>"


def pdf(
    pages: Sequence[Sequence[Text]],
    *,
    title: str = "",
    author: str = "",
    link: str = "",
    trailer: bytes = b"",
    count: int | None = None,
) -> bytes:
    """Return a file with one Helvetica page per element of ``pages``."""
    total = len(pages)
    kids = " ".join(f"{4 + 3 * n} 0 R" for n in range(total))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count or total} >>".encode(),
        (
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica "
            b"/Encoding /WinAnsiEncoding >>"
        ),
    ]
    for number, texts in enumerate(pages):
        stream = zlib.compress(b"\n".join(map(_shown, texts)))
        note = 6 + 3 * number
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources "
            b"<< /Font << /F1 3 0 R >> >> /Contents %d 0 R /Annots [%d 0 R] >>"
            % (5 + 3 * number, note),
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream"
            % (len(stream), stream),
            b"<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI (%s) >> >>"
            % link.encode(),
        ]
    objects.append(f"<< /Title ({title}) /Author ({author}) >>".encode())
    return pdf_file(objects, b"/Info %d 0 R %s " % (len(objects), trailer))


def _shown(text: Text) -> bytes:
    if isinstance(text, bytes):
        return text
    x, y, size, words = text
    escaped = words.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /F1 {size} Tf {x} {y} Td ({escaped}) Tj ET".encode("cp1252")


def annotated(
    texts: Sequence[Text],
    *annotations: str | bytes,
    catalogue: str = "",
    objects: Sequence[bytes] = (),
) -> bytes:
    """Return a file of one page with annotations, given without their brackets.

    Annotations with a field name (``/T``) are fields of a form. ``objects`` have the
    numbers from 90.
    """
    rows = [a.encode("latin-1") if isinstance(a, str) else a for a in annotations]
    numbers = range(6, 6 + len(rows))
    fields = " ".join(
        f"{n} 0 R" for n, row in zip(numbers, rows, strict=True) if b"/T (" in row
    )
    form = f"/AcroForm << /Fields [{fields}] /NeedAppearances true >>" if fields else ""
    stream = b"\n".join(map(_shown, texts))
    found = [
        f"<< /Type /Catalog /Pages 2 0 R {form} {catalogue} >>".encode(),
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        (
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica "
            b"/Encoding /WinAnsiEncoding >>"
        ),
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources "
            b"<< /Font << /F1 3 0 R >> /XObject << /I1 90 0 R >> >> /Contents 5 0 R "
            b"/Annots [%s] >>" % b" ".join(b"%d 0 R" % n for n in numbers)
        ),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        *(b"<< /Type /Annot %s >>" % row for row in rows),
    ]
    found += [b"null"] * (89 - len(found))
    return pdf_file([*found, *objects])


def widget(kind: str, name: str, box: tuple[int, int, int, int], more: str = "") -> str:
    """Return a field of a form, which is ``Tx``, ``Ch``, ``Btn`` or ``Sig``."""
    left, bottom, right, top = box
    return (
        f"/Subtype /Widget /FT /{kind} /T ({name}) "
        f"/Rect [{left} {bottom} {right} {top}] {more}"
    )
