"""What a check remembers of each target, and the rows of its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field

if TYPE_CHECKING:
    from scraper_service.content.change_tracking.monitored_pages import ComparedPage
    from scraper_service.storage.monitors.snapshots import PageSnapshot


@define
class TargetProgress:
    """The position of one target, stored in the memory of the operation."""

    #: Pages of its job that were compared.
    skip: int = 0
    #: Pages that could not be fetched and were added.
    failures: int = 0
    is_done: bool = False
    #: Why the target failed.
    error: str | None = None
    warning: str | None = None
    #: True if the time of the check was over.
    is_late: bool = False
    #: Credits of its pages or searches, which the check charges.
    price: int = 0
    #: Credits of its crawl, which charges itself.
    crawl_credits: int = 0
    #: Credits of judgments.
    judge_credits: int = 0
    #: Changes that were judged not meaningful.
    ignored: int = 0
    degraded: str | None = None
    #: Pages of which the selectors of the comparison leave nothing.
    bare: int = 0
    #: Facts of a search.
    search: dict[str, Any] = field(factory=dict)
    #: Pages that its crawl delivered.
    pages: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the progress as JSON values, which the constructor takes as names."""
        return asdict(self)


def page_row(
    url: str, page: ComparedPage, former: PageSnapshot | None
) -> dict[str, Any]:
    """Return a page of a check as JSON values, by the names inside of the service."""
    return {
        "url": url,
        "status": page.status,
        "previous": former and former.scrape_id,
        "current": page.scrape_id,
        "status_code": page.status_code,
        "error": page.error,
        "title": page.title,
        "credits": page.credits,
        "verdict": page.verdict,
    }
