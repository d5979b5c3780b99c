"""Documents on their way to HTML, which the emitters of pages turn into all formats."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field
from lxml import etree

from scraper_service.content.decode import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_CELLS = 100_000  # of all tables of a document; a page has at most 300,000 tags
MAX_FACT = 2000  # characters
LINKED = ("http://", "https://", "mailto:", "#", "data:image/")


@define(kw_only=True)
class Draft:
    """What a reader made of a file.

    ``body`` is HTML. ``known`` and ``other`` are metadata, as in
    :class:`~scraper_service.items.PageContent`. ``text`` is the Markdown of a file that
    is Markdown, or of one that has no other form; None where it follows from the body.
    ``raw`` is what ``rawHtml`` gives; None where that is the body.
    """

    body: str
    known: Mapping[str, str | list[str]] = field(factory=dict)
    other: Mapping[str, str | list[str]] = field(factory=dict)
    warnings: list[str] = field(factory=list)
    text: str | None = None
    raw: str | None = None

    @property
    def html(self) -> str:
        """The whole document."""
        title = self.known.get("title")
        language = self.known.get("language")
        lang = f' lang="{html.escape(str(language))}"' if language else ""
        head = f"<title>{escape(str(title))}</title>" if title else ""
        return clean_text(
            f'<!DOCTYPE html>\n<html{lang}><head><meta charset="utf-8">{head}</head>'
            f"<body>\n{self.body}\n</body></html>"
        )


def escape(text: str) -> str:
    """Return text as HTML."""
    return html.escape(text, quote=False)


def element(tag: str, content: str, **attributes: str) -> str:
    """Return an HTML element around ``content``, which is HTML."""
    named = "".join(f' {n}="{html.escape(v)}"' for n, v in attributes.items())
    return f"<{tag}{named}>{content}</{tag}>"


def anchor(content: str, address: str | None) -> str:
    """Return ``content`` as a link if the address is one that may be followed."""
    if not address or not content.strip() or not address.lower().startswith(LINKED):
        return content
    return element("a", content, href=address)


def picture(description: str) -> str:
    """Return the place of an image that has no address of its own."""
    said = " ".join(description.split())
    return f'<img alt="{html.escape(said)}" src="data:image/png;base64,">'


def table(rows: Iterable[Sequence[str]], *, has_header: bool) -> str:
    """Return a table; cells are HTML."""
    written = []
    for number, row in enumerate(rows):
        tag = "th" if has_header and not number else "td"
        cells = "".join(f"<{tag}>{cell}</{tag}>" for cell in row)
        written.append(f"<tr>{cells}</tr>\n")
    return f"<table>\n{''.join(written)}</table>\n"


def html_body(markup: str | bytes) -> Any:
    """Return the ``body`` element of HTML, None where there is none."""
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True
    )
    data = markup if isinstance(markup, bytes) else markup.encode(errors="ignore")
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root.find("body") if root is not None else None


def inner_html(parent: Any) -> str:
    """Return what is inside an element as HTML, all of its elements closed."""
    inner = (
        etree.tostring(child, encoding="unicode", method="html") for child in parent
    )
    return escape(parent.text or "") + "".join(inner)


def facts(values: Mapping[str, str | None]) -> dict[str, str]:
    """Return the facts that are said, on one line each."""
    found = {}
    for name, value in values.items():
        text = " ".join(clean_text(value or "").split())[:MAX_FACT]
        if text:
            found[name] = text
    return found
