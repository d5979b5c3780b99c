"""What stands beside a code block to handle it: its language, buttons to copy or run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.html.document import drop
from scraper_service.content.markdown.code_blocks import language_of
from scraper_service.content.passes import elements, texts_in

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WORDS = 12  # beside the code, in the element that holds both
MAX_LEVELS = 3  # of elements around the code
MAX_ELEMENTS = 60  # of those beside it
_HOLDERS = frozenset({"div", "figure", "section", "pre", "header", "span"})
_KEPT = frozenset(
    {"pre", "code", "h1", "h2", "h3", "h4", "h5", "h6", "p", "figcaption"}
)
_DEEDS = frozenset(
    (
        "copy|copied|copied!|copy code|copy code to clipboard|copy to clipboard|copy text|"
        "copy snippet|copy page|try|try it|try it out|try it yourself|try it yourself »|run|"
        "run code|edit|play|open|open in playground|wrap|toggle word wrap|wrap lines|"
        "download|expand|collapse|view raw|raw|ask ai|explain|fullscreen"
    ).split("|")
)
# As they are labelled, and as fences name them.
_LANGUAGES = {
    name: names.split()[0]
    for names in (
        "bash", "shell sh", "console terminal", "powershell", "python py", "python3",
        "javascript js", "jsx", "typescript ts", "tsx", "json", "jsonc", "yaml yml", "toml",
        "xml", "html", "css", "scss", "sass", "less", "java", "kotlin", "scala", "groovy",
        "swift", "objective-c", "c", "cpp c++", "csharp c#", "fsharp f#", "go golang", "rust",
        "ruby rb", "php", "perl", "lua", "r", "julia", "dart", "elixir", "erlang", "haskell",
        "clojure", "sql", "graphql", "dockerfile docker", "makefile", "nginx", "diff", "http",
        "ini", "vue", "svelte", "solidity", "markdown md", "mdx", "latex", "matlab", "text",
        "plaintext",
    )
    for name in names.split()
}  # fmt: skip


def drop_toolbars(body: Any) -> None:
    """Drop what is beside code and no part of it; a label there names its language.

    Only in an element that holds little besides the code.
    """
    for code in list(elements(body, "pre")):
        for button in list(code.iter("button")):
            drop(button)
        for element in [e for beside in _beside(code) for e in _leaves(beside)]:
            said = " ".join("".join(texts_in(element)).split()).lower()
            language = _LANGUAGES.get(said)
            if language and not language_of(code):
                code.set("data-lang", language)
            if language or said in _DEEDS:
                drop(element)


def _beside(code: Any) -> list[Any]:
    """Return the elements beside a ``pre`` and, in it, beside its ``code``."""
    inner = next((child for child in code if child.tag == "code"), None)
    found = [] if inner is None else [child for child in code if child is not inner]
    holder, words = code, 0
    for _ in range(MAX_LEVELS):
        above = holder.getparent()
        if above is None or above.tag not in _HOLDERS:
            break
        others = [child for child in above if child is not holder]
        if any(_holds_code(other) for other in others):
            break
        words += sum(_words(other) for other in others) + len(
            (above.text or "").split()
        )
        if words > MAX_WORDS:
            break
        found += others
        holder = above
    return found


def _holds_code(element: Any) -> bool:
    return next(element.iter("pre"), None) is not None


def _words(element: Any) -> int:
    count = len((element.tail or "").split())
    for text in texts_in(element):
        count += len(text.split())
        if count > MAX_WORDS:
            break
    return count


def _leaves(element: Any) -> Iterator[Any]:
    """Yield the outermost elements with one text each, headings and paragraphs not."""
    waiting = [element]
    for _ in range(MAX_ELEMENTS):
        if not waiting:
            return
        current = waiting.pop()
        if not isinstance(current.tag, str) or current.tag in _KEPT:
            continue
        texts = [text for text in texts_in(current) if not text.isspace()]
        if len(texts) == 1:
            yield current
        elif texts:
            waiting += current
