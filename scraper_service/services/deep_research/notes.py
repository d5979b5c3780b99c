"""What a research has found so far, as its caller reads it and a restart goes on with."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scraper_service.content.text.digest import Note

MAX_ACTIVITIES = 1000


@define
class Findings:
    """The state of a research; made of JSON values.

    ``questions`` are the parts of the answer, ``asked`` the searches so far, ``queries``
    the next ones, None before they are chosen. ``rounds`` has the addresses of the pages
    that each round reads. ``activities`` and ``warnings`` are for the caller.
    """

    questions: list[str] = field(factory=list)
    asked: list[str] = field(factory=list)
    queries: list[str] | None = None
    rounds: list[list[str]] = field(factory=list)
    activities: list[dict[str, Any]] = field(factory=list)
    warnings: list[str] = field(factory=list)

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> Findings:
        """Return what an operation remembers, or a beginning."""
        return cls(**memory.get("findings", {}))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def urls(self) -> set[str]:
        """The pages that were chosen so far."""
        return {url for urls in self.rounds for url in urls}

    def note(self, kind: str, status: str, message: str) -> None:
        """Add to the activities, as ``search`` and ``complete``."""
        if len(self.activities) >= MAX_ACTIVITIES:
            return
        moment = datetime.fromtimestamp(time.time(), UTC)
        timestamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
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
        """Add a sentence to the warnings, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def result(
        self, max_depth: int, pages: Sequence[Note], analysis: str = "", **data: Any
    ) -> bytes:
        """Return the members of the answer as a JSON object.

        ``analysis`` is the text of the answer, ``data`` further members of it.
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
    """Return what the answer says of a page that was read."""
    facts = {"url": page.url, "title": page.title, "description": page.description}
    return facts | ({"icon": page.icon} if page.icon else {})
