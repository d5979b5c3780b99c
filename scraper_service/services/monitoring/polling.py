"""What monitors do again and again: start checks, send mail and messages."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from scraper_service.errors import ServiceUnavailable

logger = logging.getLogger(__name__)

POLL_S = 2.0


class Poller:
    """Does what is due every :data:`POLL_S`, together with other processes.

    A subclass does it in :meth:`do_due`. Nothing is done unless :attr:`is_used`.
    """

    #: The failure of a turn, for the log.
    failure: ClassVar[str]

    _loop: asyncio.Task[None] | None = None

    @property
    def is_used(self) -> bool:
        """Whether anything can be due."""
        return True

    async def do_due(self) -> object:
        """Do some of what is due."""
        raise NotImplementedError

    def open(self) -> None:
        """Start to look."""
        if self.is_used:
            self._loop = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop to look. Other processes or a restart go on."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])

    async def _run(self) -> None:
        while True:
            try:
                await self.do_due()
            except ServiceUnavailable:
                pass  # logged where it was raised; the next turn tries again
            except Exception:
                logger.exception(self.failure)
            await asyncio.sleep(POLL_S)
