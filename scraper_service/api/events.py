"""What receivers of events are sent (interface document, 18.2), in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scraper_service.api.page_json import encode
from scraper_service.jobs.model import event_id

if TYPE_CHECKING:
    from scraper_service.jobs.model import Event
    from scraper_service.options.jobs import Webhook

FAMILIES = {"crawl": "crawl", "batch": "batch_scrape"}


def event_type(job_kind: str, kind: str) -> str:
    """Return the name of an event: ``crawl.page``."""
    return f"{FAMILIES[job_kind]}.{kind}"


def event_body(event: Event, hook: Webhook) -> bytes:
    """Return the body of a delivery; a page is put in as it is stored."""
    front: dict[str, Any] = {
        "success": event.error is None,
        "type": event_type(event.job_kind, event.kind),
        "id": event.job_id,
        "webhookId": event_id(event.job_id, event.seq),
    }
    back: dict[str, Any] = {"metadata": dict(hook.metadata)}
    if event.error is not None:
        back = {"error": event.error, **back}
    parts = (
        encode(front)[:-1],
        b',"data":[',
        event.page or b"",
        b"],",
        encode(back)[1:],
    )
    return b"".join(parts)
