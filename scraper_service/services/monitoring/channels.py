"""Messages about checks of monitors to the channels of the setting ``NOTIFICATION_CHANNELS``.

A channel is a name and a URL of Apprise (https://github.com/caronc/apprise), which the
operator sets. Messages are sent at least once, each by a process of its own
(:mod:`scraper_service.services.monitoring.channel_process`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from attrs import field, frozen

from scraper_service.errors import variable
from scraper_service.services.monitoring.channel_process import (
    INVALID,
    REFUSED,
    SENT,
)
from scraper_service.services.monitoring.mail import lines_of, title_of
from scraper_service.shared_objects import Poller
from scraper_service.storage.monitors import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.storage.database import Database
    from scraper_service.storage.monitors.messages import Mail

logger = logging.getLogger(__name__)

SETTING = variable("NOTIFICATION_CHANNELS")
AT_ONCE = 4  # messages in one look
SEND_S = 60.0  # then the process is killed
RETRIES_S = (60.0, 300.0, 900.0)
#: Errors for the callers of a team, who know neither the URL nor the network.
TEXTS = {
    REFUSED: "The address of the channel is refused by the egress rule of this service.",
    INVALID: "The channel has a URL that is not known any more.",
}
FAILURE = "The service behind the channel did not take the message."
_ENTRY = re.compile(r"\s*([A-Za-z0-9_-]{1,64})=([a-z][a-z0-9+.-]*://(?:.*\S)?)\s*")
# Variables of Python, certificates and languages; none of the service, and no proxies.
_KEPT = re.compile(
    r"(HOME|LANG|LC_.*|PATH|PYTHON.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|TZ)$"
)


@frozen
class Channels:
    """The channels of the operator. Sending needs the extra ``notifications``."""

    #: URLs by name; secrets.
    urls: Mapping[str, str] = field(repr=False)
    #: Entries of ``EGRESS_ALLOW``.
    allow: tuple[str, ...]

    @classmethod
    def parse(cls, entries: Sequence[str], allow: Sequence[str]) -> Self:
        """Return the channels of a setting.

        A URL may have commas, which separate the entries as well. Raises :exc:`ValueError`
        without a URL in it.
        """
        found: dict[str, str] = {}
        name = ""
        for entry in entries:
            if match := _ENTRY.fullmatch(entry):
                name = match[1]
                if name in found:
                    raise ValueError(f"{SETTING} has two channels {name!r}")
                found[name] = match[2]
            elif name:
                found[name] += f",{entry}"
            elif entry.strip():
                raise ValueError(
                    f"{SETTING} must be NAME=URL,NAME=URL, URLs of Apprise"
                )
        channels = cls(found, tuple(allow))
        if found and find_spec("apprise") is None:
            raise ValueError(
                f"{SETTING} needs Apprise: pip install 'scraper-service[notifications]'"
            )
        if found:
            channels._check()
        return channels

    def _check(self) -> None:
        """Raise :exc:`ValueError` for a URL that Apprise does not know or may not use."""
        outcome = self._run({"urls": list(self.urls.values())})
        for name, state in zip(self.urls, outcome.get("states", ()), strict=False):
            if state == INVALID:
                text = f"{SETTING}: Apprise does not know the URL of {name!r}"
                raise ValueError(text)
            if state == REFUSED:
                raise ValueError(
                    f"{SETTING}: the channel {name!r} would use other programs of this"
                    " machine, which the egress rule cannot check"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names in their order."""
        return tuple(self.urls)

    def send(self, name: str, title: str, body: str) -> str | None:
        """Send a message. Blocks. Return None, or the error for callers."""
        if name not in self.urls:
            return "The operator has removed the channel."
        outcome = self._run({"url": self.urls[name], "title": title, "body": body})
        for refusal in outcome.get("refusals", ()):
            logger.warning("the channel %s: %s", name, refusal)
        state = outcome.get("state", "")
        return None if state == SENT else TEXTS.get(state, FAILURE)

    def _run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outcome of a process, empty if it broke."""
        module = "scraper_service.services.monitoring.channel_process"
        environment = {k: v for k, v in os.environ.items() if _KEPT.match(k)}
        try:
            ended = subprocess.run(  # noqa: S603  # our own module
                [sys.executable, "-m", module],
                input=json.dumps({**request, "allow": self.allow}).encode(),
                env=environment,
                capture_output=True,
                timeout=SEND_S,
                check=True,
            )
            found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
            # Not its text, which may have the URL.
            logger.warning("a process of channels ended: %s", type(error).__name__)
            return {}
        return found


class ChannelSender(Poller):
    """Sends the messages of checks to channels."""

    failure = "messages of monitors could not be sent"

    def __init__(self, database: Database, channels: Channels):
        self._database = database
        self._channels = channels

    @property
    def is_used(self) -> bool:
        return bool(self._channels.names)

    async def do_due(self) -> None:
        due = await self._database.read(messages.due_messages, AT_ONCE)
        await asyncio.gather(*(self._attempt(*each) for each in due))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""
        return self._channels.names

    async def send(self, channel: str, mail: Mail) -> str | None:
        """Send a message now. Return None, or the error for callers."""
        text = "\n".join(lines_of(mail))
        return await asyncio.to_thread(
            self._channels.send, channel, title_of(mail), text
        )

    async def _attempt(self, check_id: str, channel: str) -> None:
        found = await self._database.write(messages.take_message, channel, check_id)
        if found is None:
            return
        error = await self.send(channel, found)
        if error is None:
            await self._database.write(messages.note_sent, check_id, channel)
            return
        goes_on = await self._database.write(
            messages.put_off, check_id, channel, RETRIES_S
        )
        what = "is tried again" if goes_on else "is given up"
        logger.warning(
            "the message of check %s to %s %s: %s", check_id, channel, what, error
        )
