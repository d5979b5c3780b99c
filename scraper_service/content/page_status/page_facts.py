"""The facts for the verdict on a page, from its tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.content.page_status.verdicts import (
    LITTLE,
    MUCH,
    OK,
    PageFacts,
    verdict,
)

if TYPE_CHECKING:
    from scraper_service.content.metadata import Evidence

MAX_NOTE = 500  # characters that only say that scripts are needed
_UNSEEN = frozenset({"script", "style", "template", "noscript", "title"})
_RICH = ("img", "video", "audio", "iframe", "embed", "object", "canvas", "picture")


def judged(html: bytes, status: int, evidence: Evidence, text: str) -> dict[str, str]:
    """Return ``verdict`` and ``verdict_evidence`` as metadata; nothing for an error page.

    ``text`` is that of :func:`scraper_service.content.text.words.main_words`. The page must
    not be cleaned yet.
    """
    name, why = verdict(_facts(html, status, evidence, text))
    if name == OK:
        return {} if status >= 400 else {"verdict": OK}
    return {"verdict": name, "verdict_evidence": f"{why[:1].upper()}{why[1:]}."}


def remark(facts: dict[str, str]) -> str | None:
    """Return the warning for a verdict, None for a good one."""
    if "verdict_evidence" not in facts:
        return None
    name, why = facts["verdict"], facts["verdict_evidence"]
    article = "an" if name[0] in "aeiou" else "a"
    return f"The page may not be what was asked for, but {article} {name}: {why}"


def count_of(text: str) -> int:
    """Return the words of a text; of one without spaces, half of its letters.

    It counts no further than verdicts look.
    """
    words = len(text.split(None, MUCH))
    if words > MUCH or text.isascii():
        return words
    return words + sum(character >= "\u3040" for character in text[:2000]) // 2


def _facts(html: bytes, status: int, evidence: Evidence, text: str) -> PageFacts:
    root = evidence.root
    words = count_of(_without_title(text, evidence.title))
    unscripted = _unscripted(root) if words < LITTLE else ""
    if len(unscripted) > MAX_NOTE:  # forums write their pages there, for robots
        words += len(unscripted.split())
    headings = " ".join((evidence.title, *evidence.headings[:1]))
    fields = root.iter("input") if words < LITTLE else ()
    return PageFacts(
        status=status,
        html=html,
        headings=headings[:500],
        text=text,
        words=words,
        has_password=any(_is_password(element) for element in fields),
        has_scripts=bool(evidence.scripts) or any(map(_loads_script, evidence.links)),
        is_rich=next(evidence.document.body.iter(*_RICH), None) is not None,
        is_free=_is_free(evidence),
        unscripted=unscripted[:MAX_NOTE],
        words_in_all=_words_in_all(root) if words < LITTLE else words,
    )


def _loads_script(link: Any) -> bool:
    relation = link.get("rel")
    is_preload = bool(relation == "preload" and link.get("as") == "script")
    return is_preload or bool(relation == "modulepreload")


def _without_title(text: str, title: str) -> str:
    """Return the text of the body: that of the page begins with its ``<title>``.

    An empty page with a long title has no words to read.
    """
    words = text.split(None, MUCH)
    named = title.split()
    return " ".join(words[len(named) :]) if words[: len(named)] == named else text


def _is_password(element: Any) -> bool:
    kind: str = element.get("type") or ""
    return kind.lower() == "password" and not any(
        "hidden" in above.attrib
        or "display:none" in above.get("style", "").replace(" ", "")
        for above in element.iterancestors()
    )


def _is_free(evidence: Evidence) -> bool | None:
    said = evidence.linked.first_said("isAccessibleForFree")
    return None if said is None else str(said).lower() not in {"false", "no", "0"}


def _unscripted(root: Any) -> str:
    texts = ("".join(element.itertext()) for element in root.iter("noscript"))
    return " ".join(" ".join(texts).split())


def _words_in_all(root: Any) -> int:
    """Return how many words the page has, menus and forms among them."""
    texts = (
        text
        for element in root.iter()
        for text in (element.text if element.tag not in _UNSEEN else None, element.tail)
        if text
    )
    return sum(len(text.split()) for text in texts)
