"""The accessibility tree of a page as text, with ids of its elements for commands.

Playwright makes the tree. Here it gets shorter: a language model pays for each token.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page

MAX_TREE = 2**20  # characters of Playwright's tree
MAX_SNAPSHOT = 200_000  # characters
CUT = "\n[the rest is left out: the page has more than {} characters]"
# Roles of WAI-ARIA 1.2 whose elements a visitor operates.
_INTERACTIVE = frozenset(
    "button checkbox combobox link listbox menuitem menuitemcheckbox menuitemradio option"
    " radio searchbox slider spinbutton switch tab textbox treeitem".split()
)
_LINE = re.compile(r"^\s*- (?P<role>[a-z]+)\b(?P<rest>.*?):?$")
_NOISE = re.compile(r" \[(?:cursor=\w+|active)\]")
_ID = re.compile(r"\[ref=(\w+)\]")


async def snapshot(page: Page, *, only_interactive: bool, timeout_ms: float) -> str:
    """Return the tree, one line for each element, with ids as ``@e1``.

    ``only_interactive`` leaves all out that a visitor does not operate. An id is valid
    until the next snapshot, or the next page.
    """
    tree = await page.aria_snapshot(mode="ai", timeout=timeout_ms)
    # In a thread: the lines of a large page take longer than the event loop may wait.
    text = await asyncio.to_thread(
        shortened, tree[:MAX_TREE], only_interactive=only_interactive
    )
    if len(text) <= MAX_SNAPSHOT:
        return text
    return text[:MAX_SNAPSHOT].rpartition("\n")[0] + CUT.format(MAX_SNAPSHOT)


def shortened(tree: str, *, only_interactive: bool) -> str:
    """Return Playwright's tree without what commands do not need."""
    lines = (_ID.sub(r"@\1", _NOISE.sub("", line)) for line in tree.splitlines())
    if not only_interactive:
        return "\n".join(lines)
    return "\n".join(
        line.strip().removesuffix(":") for line in lines if _is_interactive(line)
    )


def _is_interactive(line: str) -> bool:
    found = _LINE.match(line)
    return found is not None and found["role"] in _INTERACTIVE and "@" in found["rest"]
