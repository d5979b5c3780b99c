"""Previews of pages as HTML that loads and runs nothing. Runs in converter processes."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from lxml import etree, html
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

#: Elements of which nothing is left.
_DROPPED = (
    "script style link meta base template noscript title iframe frame frameset object embed"
    " applet portal svg math canvas xmp noembed noframes audio video source track head"
).split()
_KEPT_ATTRIBUTES = frozenset(
    ("alt", "colspan", "rowspan", "headers", "scope", "lang", "dir", "title", "start")
)
_SAFE_SCHEMES = ("http://", "https://", "mailto:")


def markdown_preview(text: str) -> str:
    """Return Markdown as HTML. HTML in the Markdown is shown as text."""
    rendered: str = _parser().render(text)
    return rendered


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    return parser


def _image(
    renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    """Show an image as its text: the preview loads nothing."""
    token = tokens[index]
    text = renderer.renderInlineAsText(token.children or [], options, env)
    return f'<span class="image">{escape(text) if text else "image"}</span>'


def _link(
    renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    token = tokens[index]
    token.attrs = {
        name: value for name, value in token.attrs.items() if name != "href"
    } | _link_attributes(str(token.attrs.get("href", "")))
    shown: str = renderer.renderToken(tokens, index, options, env)
    return shown


def _link_attributes(url: str) -> dict[str, str | int | float]:
    if not url.strip().lower().startswith(_SAFE_SCHEMES):
        return {}
    return {"href": url, "target": "_blank", "rel": "noopener noreferrer nofollow"}


def html_preview(text: str) -> str:
    """Return the HTML of a page without scripts, styles, images and forms that work."""
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(text.encode(), parser)
    except etree.ParserError:  # there is no element and no text
        return ""
    etree.strip_elements(tree, *_DROPPED, with_tail=False)
    for element in tree.iter():
        if element.tag == "img":
            element.tag = "span"
            element.text = element.get("alt") or "image"
            element.attrib.clear()
            element.set("class", "image")
            continue
        url = str(element.get("href") or "") if element.tag == "a" else ""
        for name in list(element.attrib):
            if name not in _KEPT_ATTRIBUTES:
                del element.attrib[name]
        for name, value in _link_attributes(url).items():
            element.set(name, str(value))
        if element.tag in {"input", "button", "select", "textarea"}:
            element.set("disabled", "")
    body = tree.find("body")
    shown: str = html.tostring(tree if body is None else body, encoding="unicode")
    return shown
