"""Collects the parts of a page that none of its formats contains.

A part that cannot be converted is recorded where it is dropped, with a reason. Parts of
dropped boilerplate are no losses: each is recorded near an element, and
:meth:`Losses.settle` forgets the parts whose element has left the tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from scraper_service.content.passes import visible_text
from scraper_service.items import LOSS_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_URLS = 20
MAX_TEXTS = 5
MAX_TEXT = 200  # characters
MAX_REASONS = 3
MAX_LOSSES = 10_000  # recorded parts of one page; later ones are only counted
_NO_TEXT = frozenset({"script", "style", "noscript", "template", "head"})
MAX_LISTS = 20  # tables and lists whose rows are counted
MAX_DIGITS = 10  # of a number of rows
NOT_SHOWN = (
    "A list of the page declares more rows than it shows. The action scrollToEnd collects"
    " rows that appear while scrolling."
)
_ROWS = ".//tr[normalize-space()] | .//*[@role='row'][normalize-space()]"


@frozen(slots=True)
class _Loss:
    kind: str
    reason: str
    count: int
    urls: tuple[str, ...]
    texts: tuple[str, ...]
    #: The element that stays in the tree as long as the part is content; None for files.
    anchor: Any


@define
class Losses:
    """The lost parts of one page, in the order in which they were recorded."""

    _found: list[_Loss] = field(factory=list)

    def add(
        self,
        kind: str,
        reason: str,
        *,
        count: int = 1,
        url: str | None = None,
        text: str | None = None,
        near: Any = None,
        around: Any = None,
    ) -> None:
        """Record ``count`` lost parts of a kind of :data:`scraper_service.items.LOSS_KINDS`.

        ``reason`` is a sentence: why the part is lost, and the option that would bring it.
        ``url`` is absolute. ``text`` is a label or caption of the part. ``near`` is the
        part's element while it is still in the tree; None outside of HTML. ``around`` is
        instead the element that contained the part.
        """
        shown = " ".join((text or "").split())[:MAX_TEXT]
        if len(self._found) < MAX_LOSSES:
            urls, texts = (url,) if url else (), (shown,) if shown else ()
            anchor = None if near is None else anchor_of(near)
            if around is not None:
                anchor = around if has_text(around) else anchor_of(around)
            self._found.append(_Loss(kind, reason, count, urls, texts, anchor))

    def extend(self, others: Losses) -> None:
        """Add the losses of a part of the page that was converted separately."""
        self._found += others._found

    def settle(self, root: Any) -> None:
        """Forget the parts that stood in elements which are no longer below ``root``."""
        self._found = [
            loss
            for loss in self._found
            if loss.anchor is None or is_in(loss.anchor, root)
        ]

    def as_rows(self) -> tuple[dict[str, Any], ...]:
        """Return ``metadata.losses``: an object for each kind, sorted by kind."""
        by_kind: dict[str, list[_Loss]] = {}
        for loss in self._found:
            by_kind.setdefault(loss.kind, []).append(loss)
        return tuple(_row(kind, by_kind[kind]) for kind in sorted(by_kind))

    def has(self, kind: str) -> bool:
        """Return True if a part of the kind is lost."""
        return any(loss.kind == kind for loss in self._found)

    def __len__(self) -> int:
        return len(self._found)


def _row(kind: str, losses: list[_Loss]) -> dict[str, Any]:
    reasons = tuple(dict.fromkeys(loss.reason for loss in losses))
    row: dict[str, Any] = {
        "kind": kind,
        "count": sum(loss.count for loss in losses),
        "reason": " ".join(reasons[:MAX_REASONS]),
    }
    for name, found, most in (
        ("urls", (url for loss in losses for url in loss.urls), MAX_URLS),
        ("texts", (text for loss in losses for text in loss.texts), MAX_TEXTS),
    ):
        if values := list(dict.fromkeys(found))[:most]:
            row[name] = values
    return row


def anchor_of(element: Any, known: dict[Any, bool] | None = None) -> Any:
    """Return the nearest element above ``element`` that contains text.

    Main content drops wrappers without text, and keeps or drops the text around them.
    Calls for many elements of one tree share ``known``: whether elements contain text.
    """
    known = {} if known is None else known
    above = element
    for above in element.iterancestors():
        if above not in known:
            known[above] = has_text(above)
        if known[above]:
            break
    return above


def has_text(element: Any) -> bool:
    """Return True if an element contains text that readers see."""
    return bool(visible_text(element, _NO_TEXT, 1))


def is_in(element: Any, root: Any) -> bool:
    """Return True if ``element`` is ``root`` or inside it."""
    return element is root or any(above is root for above in element.iterancestors())


def join_rows(
    rows: Iterable[Mapping[str, Any]], others: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Return the losses of a page and of a document that it embeds, sorted by kind."""
    found: dict[str, dict[str, Any]] = {row["kind"]: dict(row) for row in rows}
    for row in others:
        known = found.setdefault(row["kind"], {"kind": row["kind"], "count": 0})
        reasons = dict.fromkeys(filter(None, (known.get("reason"), row["reason"])))
        known |= {"count": known["count"] + row["count"], "reason": " ".join(reasons)}
        for name, most in (("urls", MAX_URLS), ("texts", MAX_TEXTS)):
            values = (*known.get(name, ()), *row.get(name, ()))
            if values:
                known[name] = list(dict.fromkeys(values))[:most]
    return tuple(found[kind] for kind in sorted(found))


def without_document(
    rows: Iterable[Mapping[str, Any]], url: str
) -> tuple[Mapping[str, Any], ...]:
    """Return the losses of a page without the embedded document at ``url``."""
    kept: list[Mapping[str, Any]] = []
    for row in rows:
        if row["kind"] == "embeddedDocument" and url in row.get("urls", ()):
            if row["count"] == 1:
                continue
            urls = [each for each in row["urls"] if each != url]
            kept.append({**row, "count": row["count"] - 1, "urls": urls})
        else:
            kept.append(row)
    return tuple(kept)


def describe(rows: Iterable[dict[str, Any]]) -> str:
    """Return ``2 formulas, 1 embedded document`` for ``metadata.losses``."""
    return ", ".join(
        f"{row['count']} {LOSS_KINDS[row['kind']]}{'s' * (row['count'] != 1)}"
        for row in rows
    )


def record_missing_rows(losses: Losses, tables: Sequence[Any]) -> None:
    """Record the rows that tables and lists declare and do not have (WAI-ARIA 1.2).

    ``tables`` are the elements with ``aria-rowcount``.
    """
    for element in tables[:MAX_LISTS]:
        declared = element.get("aria-rowcount").strip()
        if not (
            declared.isascii() and declared.isdigit() and len(declared) < MAX_DIGITS
        ):
            continue  # -1 for an unknown number
        rows = element.xpath(_ROWS) or element.getchildren()
        if (missing := int(declared) - len(rows)) > 0:
            losses.add("recycledRows", NOT_SHOWN, count=missing, near=element)
