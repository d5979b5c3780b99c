"""Pages as the database stores them, made before others have to wait for the transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.content.stored_pages import StoredResponse, compress, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.storage.job_records import Outcome


@frozen
class PackedPage:
    """A page, compressed."""

    #: Bytes of its JSON.
    size: int
    body: bytes
    #: The page with its whole Markdown, if ``body`` has a part of it.
    whole: bytes | None

    @property
    def stored_size(self) -> int:
        """The bytes that it takes."""
        return len(self.body) + len(self.whole or b"")


@frozen
class Packed:
    """What outcomes store, by their rows."""

    pages: Mapping[int, PackedPage]
    #: The responses that jobs keep, of pages and sitemap files.
    responses: Mapping[int, StoredResponse]


def pack_all(outcomes: Sequence[Outcome]) -> Packed:
    """Return the pages and responses of outcomes that have one."""
    return Packed(
        pages={
            each.row_id: PackedPage(
                len(each.page),
                compress(each.page),
                None if each.whole is None else compress(each.whole),
            )
            for each in outcomes
            if each.page is not None
        },
        responses={
            each.row_id: kept if isinstance(kept, StoredResponse) else pack(kept)
            for each in outcomes
            if (kept := each.kept) is not None
        },
    )
