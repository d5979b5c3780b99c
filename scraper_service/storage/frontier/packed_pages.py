"""Pages as the database stores them, made before others have to wait for the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.content.text.compression import compress
from scraper_service.content.text.kept_responses import StoredResponse, pack

if TYPE_CHECKING:
    from scraper_service.storage.jobs.job_records import Outcome


@frozen
class PackedPage:
    """A page of an outcome, compressed."""

    #: Bytes of its JSON.
    size: int
    body: bytes
    #: The page with its whole Markdown, if ``body`` has a part of it.
    whole: bytes | None
    #: The response that the page was made of, if the job keeps it.
    response: StoredResponse | None

    @property
    def stored_size(self) -> int:
        """The bytes that it takes."""
        found = self.response
        response = 0 if found is None else len(found.head) + len(found.body)
        return len(self.body) + len(self.whole or b"") + response


def packed(outcome: Outcome) -> PackedPage:
    """Return the page of an outcome that has one."""
    assert outcome.page is not None
    return PackedPage(
        size=len(outcome.page),
        body=compress(outcome.page),
        whole=None if outcome.whole is None else compress(outcome.whole),
        response=None if outcome.kept is None else pack(outcome.kept),
    )
