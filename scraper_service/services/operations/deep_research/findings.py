"""The stored state of a deep research job, and its result as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field

from scraper_service.content.text.w3c_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.text.page_notes import Note

MAX_ACTIVITIES = 1000


@define
class Findings:
    """The state of a deep research job, in JSON values."""

    #: Searches that were made.
    asked: list[str] = field(factory=list)
    #: The next searches; None before they are chosen.
    queries: list[str] | None = None
    #: The URLs that each round reads.
    rounds: list[list[str]] = field(factory=list)
    #: Steps shown to the caller.
    activities: list[dict[str, Any]] = field(factory=list)
    #: Sentences shown to the caller.
    warnings: list[str] = field(factory=list)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> Findings:
        """Return the stored state of an operation, or an empty one."""
        return cls(**memory.get("findings", {}))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def urls(self) -> set[str]:
        """The URLs of all rounds."""
        return {url for urls in self.rounds for url in urls}

    def note(self, kind: str, status: str, message: str) -> None:
        """Add an activity, for example of kind ``search`` and status ``complete``."""
        if len(self.activities) >= MAX_ACTIVITIES:
            return
        timestamp = utc_text(datetime.now(UTC))
        self.activities.append(
            {
                "type": kind,
                "status": status,
                "message": message,
                "timestamp": timestamp,
                "depth": len(self.rounds),
            }
        )

    def warn(self, text: str) -> None:
        """Add a sentence to the warnings, unless it is there."""
        if text not in self.warnings:
            self.warnings.append(text)

    def result(
        self, max_depth: int, pages: Sequence[Note], analysis: str = "", **data: Any
    ) -> bytes:
        """Return the members of the response as a JSON object.

        ``analysis`` is the text of the report, ``data`` has further members of it.
        """
        sources = [_source(page) for page in pages]
        lists = {"activities": self.activities, "sources": sources}
        members: dict[str, Any] = {
            "data": {"finalAnalysis": analysis, **lists, **data},
            "currentDepth": len(self.rounds),
            "maxDepth": max_depth,
            "totalUrls": len(sources),
            **lists,
        }
        if self.warnings:
            members["warning"] = " ".join(self.warnings)
        return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def _source(page: Note) -> dict[str, str]:
    """Return a page as it is listed in the response."""
    facts = {"url": page.url, "title": page.title, "description": page.description}
    return facts | ({"icon": page.icon} if page.icon else {})
