"""Request bodies that change running jobs."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from scraper_service.api.requests import pages
from scraper_service.options import catalogue
from scraper_service.options.crawl import CHANGEABLE
from scraper_service.options.parsing import NO_DEFAULT, Bool, Key, Object, Position
from scraper_service.storage.jobs.job_control import ChangeRequest

# Options that null switches off.
_NULLABLE = {"max_discovery_depth", "delay_s", "max_concurrency"}


@frozen(kw_only=True)
class JobChangeRequest:
    """A request that changes an active job."""

    change: ChangeRequest
    #: The caller, for the log only: client, platform and user.
    origin: str = "api"
    integration: str | None = None
    audit_username: str | None = None


def change_kind(kind: str) -> Object:
    """Return the kind of a body that changes a job: a crawl or a batch."""
    rows = catalogue.select(catalogue.CRAWL, *CHANGEABLE[kind])
    options = {
        name: evolve(key, nullable=key.to in _NULLABLE, default=NO_DEFAULT)
        for name, key in catalogue.keys(rows, "v2").items()
    }
    pause = "Pause the job (true), or let it go on (false)."
    keys = {"paused": Key(Bool(), "paused", help=pause, is_own=True), **options}

    def make(values: dict[str, Any], at: Position) -> Any:
        changed = {
            key.to: values.pop(key.to) for key in keys.values() if key.to in values
        }
        if not changed:
            text = f"{at.name} must have at least one of {', '.join(keys)}"
            return at.report("too_small", text, minimum=1)
        paused = changed.pop("paused", None)
        return JobChangeRequest(
            change=ChangeRequest(paused=paused, options=changed), **values
        )

    return Object({**keys, **pages.CALLER_KEYS}, make, pages.EXPERIMENTAL)
