"""The third part of the Markdown writer: images, media and formulas."""

from __future__ import annotations

import re
from typing import Any

from scraper_service.content.html.elements import KATEX, MATHJAX, MATHS_RENDERED, role
from scraper_service.content.html.lazy_images import record_image
from scraper_service.content.html.page_urls import is_placeholder
from scraper_service.content.markdown import inline, maths
from scraper_service.content.markdown.inline import APART, PAD
from scraper_service.content.markdown.spans import Spans

REMOVED_IMAGE = "<Base64-Image-Removed>"
MAX_EMOJI = 16  # characters: a family, a flag of letters
_EMOJI_NAMES = re.compile(r"emoji|smil", re.IGNORECASE)


class Pictures(Spans):
    """Writes images and media, and formulas as TeX."""

    def image(self, element: Any) -> None:
        """Write an image, without tracking pixels and repeated images."""
        attributes = element.attrib
        source = (attributes.get("src") or "").strip()
        if "class" in attributes and _is_emoji(attributes):
            self.run.append(attributes["alt"])
            return
        if attributes.get("width") == "1" and attributes.get("height") == "1":
            return
        if not source:
            record_image(self.document, element, is_removed=False)
            return
        alt = attributes.get("alt") or ""
        if alt:
            alt = inline.escaped(inline.plain(alt).strip(), label=True)
        if source[:5].lower() == "data:":
            if self.remove_base64:
                record_image(self.document, element, is_removed=True)
                if not alt:
                    return
            source = REMOVED_IMAGE if self.remove_base64 else "".join(source.split())
        elif self.is_main and not alt and is_placeholder(source):
            return
        else:
            source = inline.destination(source)
        image = f"![{alt}]({source})"
        if self.is_main and alt.count(" ") >= 2 and self.run[-2:] == [image, APART]:
            return  # a copy for another screen size; rating stars have shorter texts
        if not self.in_link:
            self.run.append(APART)
        self.run += [image, APART]

    def media(self, element: Any) -> None:
        """Write the links inside a film or sound; its text is for old browsers."""
        for link in element.iter("a"):
            self.run.append(APART)
            self.anchor(link)
            self.run.append(APART)

    def formula(self, element: Any) -> None:
        """Write MathML, or a formula that KaTeX or MathJax rendered, as TeX."""
        kind = role(element)
        following = element.getnext()
        role_of_next = None if following is None else role(following)
        if kind in MATHS_RENDERED and kind != KATEX:
            if following is not None and following.get("data-tex") is not None:
                return  # the formula's source follows
            if kind != MATHJAX and role_of_next == MATHJAX:
                return
        found = maths.tex_of(element)
        if found is None:
            self.content(element)
            return
        parent = element.getparent()
        around = parent.get("class") if kind == KATEX and parent is not None else None
        self._tex(found[0], found[1] or "katex-display" in (around or "").split())

    def _tex(self, source: str, displayed: bool) -> None:
        if not source:
            return
        if displayed and self.flat is None and not self.in_link:
            self.flush()
            self.layout.add(f"$${source}$$")
        else:
            source = source.replace("\n", " ").replace("  ", f"{PAD}{PAD}")
            self.run.append(f"${source}$")


def _is_emoji(attributes: Any) -> bool:
    """Return True for an image that stands for the emoji that is its text."""
    alt = attributes.get("alt") or ""
    return (
        0 < len(alt) <= MAX_EMOJI
        and not any(char.isascii() or char.isalpha() for char in alt)
        and _EMOJI_NAMES.search(attributes["class"]) is not None
    )
