"""Notifications about checks of monitors: mail, and messages to channels.

Mail goes through the server of the setting ``SMTP_URL``. A channel of the setting
``NOTIFICATION_CHANNELS`` is a name and a URL of Apprise (https://github.com/caronc/apprise). Its
messages are sent at least once, each by a process of its own
(:mod:`scraper_service.services.monitoring.channel_process`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import smtplib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from email.headerregistry import Address
from email.message import EmailMessage
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias
from urllib.parse import parse_qs, unquote

from attrs import Factory, define, field, frozen

from scraper_service.errors import variable
from scraper_service.options.urls import url_parts
from scraper_service.services.monitoring.channel_process import INVALID, REFUSED, SENT
from scraper_service.shared_objects import Poller
from scraper_service.storage.monitors import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scraper_service.storage.database import Database
    from scraper_service.storage.monitors.messages import CheckMessage


logger = logging.getLogger(__name__)

AT_ONCE = 4  # mails, or messages of channels
SEND_S = 30.0  # for each step of a conversation with the server
TALK_S = 100.0  # for a conversation, so that no other process has tried again
RETRIES_S = (60.0, 300.0, 900.0)
MAX_DIFF = 20_000  # characters of a diff in a mail
PORTS = {"smtp": 587, "smtps": 465}
MAX_REASON = 200  # characters of a server's reply
MOST_BEGUN = 1000  # mails with recipients left
BAD_ADDRESS = "the address cannot be written"
BROKEN_OFF = "the mail server ended the conversation"


#: The server's reply for each refused recipient: a status and a text.
RefusalsT: TypeAlias = Mapping[str, tuple[int, bytes]]


@frozen
class MailServer:
    """The server that mail is sent through: ``smtp(s)://user:password@host:port/?from=...``.

    With ``smtp`` the connection is encrypted if the server offers STARTTLS; a user is sent
    only then.
    """

    scheme: str
    host: str
    port: int
    sender: str
    user: str | None = None
    password: str = ""

    def __repr__(self) -> str:
        return f"<MailServer {self.host}:{self.port}>"  # without the password

    @classmethod
    def parse(cls, url: str) -> MailServer:
        """Return the server of a setting. Raises :exc:`ValueError`."""
        parts = url_parts(url)
        sender = parse_qs(parts.query).get("from", [""])[0]
        if parts.scheme not in PORTS or not parts.hostname or "@" not in sender:
            raise ValueError(
                f"{variable('SMTP_URL')} must be"
                " smtp://USER:PASSWORD@HOST:PORT/?from=ADDRESS, or smtps://"
            )
        return cls(
            parts.scheme,
            parts.hostname,
            parts.port or PORTS[parts.scheme],
            sender,
            None if parts.username is None else unquote(parts.username),
            unquote(parts.password or ""),
        )

    def send(
        self, message: EmailMessage, recipients: Sequence[str] | None = None
    ) -> RefusalsT:
        """Send a message. Return the refused recipients, if others were taken.

        Without ``recipients`` it is sent to those of its headers.

        Blocks; raises :exc:`OSError` and :exc:`smtplib.SMTPException`.
        """
        context = ssl.create_default_context()
        server = smtplib.SMTP(timeout=SEND_S)
        if self.scheme == "smtps":
            server = smtplib.SMTP_SSL(timeout=SEND_S, context=context)
        # The name of the certificate. With it as an argument, the constructor would connect,
        # before the limit on the time of the conversation begins.
        server._host = self.host  # type: ignore[attr-defined]
        ended = threading.Event()
        threading.Thread(target=_cut_off, args=(server, ended), daemon=True).start()
        try:
            server.connect(self.host, self.port)
            server.ehlo()
            if self.scheme == "smtp" and server.has_extn("starttls"):
                server.starttls(context=context)
                server.ehlo()
            elif self.scheme == "smtp" and self.user is not None:
                text = (
                    "the server offers no STARTTLS, and a password is never sent openly"
                )
                raise smtplib.SMTPException(text)
            if self.user is not None:
                server.login(self.user, self.password)
            return server.send_message(message, to_addrs=recipients)
        finally:
            # The message was taken, whatever the server says to the goodbye.
            with suppress(OSError, smtplib.SMTPException):
                server.quit()
            server.close()
            ended.set()


def _cut_off(server: smtplib.SMTP, ended: threading.Event) -> None:
    """End a conversation that exceeds :data:`TALK_S`.

    A server that drips bytes keeps within the limit of each step. Cuts each second: the
    socket may be made, or replaced by that of TLS, after the limit.
    """
    wait_s = TALK_S
    while not ended.wait(wait_s):
        wait_s = 1.0
        with suppress(OSError):
            if (sock := server.sock) is not None:
                sock.shutdown(socket.SHUT_RDWR)


@define
class MailOutcome:
    """The recipients that a mail was not sent to, each with the reason."""

    #: Those that the server refuses for good (5xx), or that cannot be written.
    refused: dict[str, str] = Factory(dict)
    #: Those that another attempt may reach.
    put_off: dict[str, str] = Factory(dict)

    def __str__(self) -> str:
        reasons = {**self.refused, **self.put_off}
        return "; ".join(f"{each}: {why}" for each, why in reasons.items())

    def add(self, recipients: Mapping[str, str], error: Exception) -> None:
        """Note the failure of one message."""
        if isinstance(error, smtplib.SMTPRecipientsRefused):
            self.add_refusals(recipients, error.recipients)
            untried = recipients.keys() - error.recipients.keys()
            self.put_off |= dict.fromkeys(
                (recipients[each] for each in untried), BROKEN_OFF
            )
        elif isinstance(error, smtplib.SMTPSenderRefused | smtplib.SMTPDataError):
            reply = error.smtp_code, _bytes(error.smtp_error)
            self.add_refusals(recipients, dict.fromkeys(recipients, reply))
        elif isinstance(error, OSError | smtplib.SMTPException):
            self.put_off |= dict.fromkeys(recipients.values(), repr(error))
        else:
            # The email package raises errors of any kind for what it cannot write.
            logger.error("a mail could not be made", exc_info=error)
            self.refused |= dict.fromkeys(recipients.values(), repr(error))

    def add_refusals(self, recipients: Mapping[str, str], refusals: RefusalsT) -> None:
        """Note recipients that the server refused, by its replies."""
        for address, (code, text) in refusals.items():
            found = self.refused if 500 <= code < 600 else self.put_off
            reply = f"{code} {_bytes(text).decode(errors='replace')}"
            found[recipients[address]] = reply[:MAX_REASON]


class _Sender(Poller):
    """Sends messages of checks, and tries those again that were not taken."""

    _is_mail: ClassVar[bool]

    async def do_due(self) -> None:
        due = await self._database.read(
            messages.due_messages, AT_ONCE, is_mail=self._is_mail
        )
        if self._is_mail:
            for each in due:  # in their order
                await self._attempt(*each)
        else:
            await asyncio.gather(*(self._attempt(*each) for each in due))

    async def _attempt(self, check_id: str, channel: str) -> None:
        found = await self._database.write(messages.take_message, channel, check_id)
        if found is None:
            return
        error = await self._deliver(channel, found)
        call = messages.end_attempt, check_id, channel, RETRIES_S
        goes_on = await self._database.write(*call, is_sent=error is None)
        if error is not None:
            what = f"{channel} is {'tried again' if goes_on else 'given up'}"
            logger.warning("the message of check %s to %s: %s", check_id, what, error)

    async def _deliver(self, channel: str, found: CheckMessage) -> str | None:
        """Send a message. Return the error for another attempt, None without one."""
        raise NotImplementedError


class Mailer(_Sender):
    """Sends the mail of checks. Without a server it does nothing."""

    failure = "mail of monitors could not be sent"
    _is_mail = True

    def __init__(self, database: Database, server: MailServer | None):
        self._database = database
        self._server = server
        # Recipients that a mail with others left was sent to, or that refuse it, by check.
        # A later process that does not know them sends to all.
        self._done: dict[str, frozenset[str]] = {}

    @property
    def is_used(self) -> bool:
        return self._server is not None

    async def send(
        self, mail: CheckMessage, recipients: Sequence[str] | None = None
    ) -> MailOutcome:
        """Send mail now, to all or some of its recipients."""
        chosen = mail.recipients if recipients is None else recipients
        return await asyncio.to_thread(self._send, mail, chosen)

    def _send(self, mail: CheckMessage, recipients: Sequence[str]) -> MailOutcome:
        """Send mail. Blocks."""
        assert self._server is not None
        outcome = MailOutcome()
        written: dict[str, str] = {}
        for recipient in recipients:
            if (address := encode_address(recipient)) is None:
                outcome.refused[recipient] = BAD_ADDRESS
            else:
                written[address] = recipient
        if not written:
            return outcome
        try:
            message = message_of(mail, self._server.sender, tuple(written))
            outcome.add_refusals(written, self._server.send(message, tuple(written)))
        except Exception as error:  # mail of others must not wait
            outcome.add(written, error)
        return outcome

    async def _deliver(self, channel: str, found: CheckMessage) -> str | None:
        check_id = found.check_id
        done = self._done.pop(check_id, frozenset())
        recipients = [each for each in found.recipients if each not in done]
        outcome = await self.send(found, recipients)
        if outcome.refused:
            refused = MailOutcome(outcome.refused)
            logger.warning("mail of check %s is refused: %s", check_id, refused)
        if not outcome.put_off:
            return None
        if len(self._done) >= MOST_BEGUN:
            self._done.clear()
        self._done[check_id] = done | (set(recipients) - outcome.put_off.keys())
        return str(MailOutcome(put_off=outcome.put_off))


def encode_address(recipient: str) -> str | None:
    """Return an address as mail servers take it, None if it cannot be written.

    A host beyond ASCII is written in Punycode, which every server takes.
    """
    user, _, host = recipient.rpartition("@")
    try:
        address = f"{user}@{host.encode('idna').decode()}"
        Address(addr_spec=address)  # it refuses letters beyond ASCII
    except Exception:  # the email package raises errors of any kind
        return None
    return address


def message_of(
    mail: CheckMessage, sender: str, recipients: Sequence[str]
) -> EmailMessage:
    """Return the message about a check, in plain text."""
    message = EmailMessage()
    message["Subject"] = title_of(mail)
    message["From"] = sender
    message["To"] = ", ".join(recipients)
    message["Message-ID"] = f"<{mail.check_id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("\n".join(lines_of(mail, has_diffs=mail.has_diffs)) + "\n")
    return message


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def title_of(mail: CheckMessage) -> str:
    """Return what has happened in one line: the monitor, and pages by state."""
    counts = ", ".join(
        f"{count} {state}" for state, count in mail.counts.items() if count
    )
    return f"{_name(mail)}: {counts or mail.status}"


def lines_of(mail: CheckMessage, *, has_diffs: bool = False) -> list[str]:
    """Return the lines about a check: its id, and its first pages that are not the same."""
    lines = [f"Monitor {_name(mail)}", f"Check {mail.check_id}: {mail.status}", ""]
    if mail.error:
        lines += [mail.error, ""]
    for page in mail.pages:
        facts = page.facts
        lines.append(f"{facts['status']}: {facts['url']}")
        if facts.get("error"):
            lines.append(f"    {facts['error']}")
        if has_diffs and page.diff is not None:
            diff = json.loads(page.diff)
            text = diff.get("text") or json.dumps(diff["json"], indent=1)
            lines += ["", text[:MAX_DIFF], ""]
    if (more := sum(mail.counts.values()) - mail.counts["same"] - len(mail.pages)) > 0:
        lines.append(f"and {more} more")
    return lines


def _name(mail: CheckMessage) -> str:
    return " ".join(mail.name.split())  # a line break would end the header


# -- channels --------------------------------------------------------------------------

SETTING = variable("NOTIFICATION_CHANNELS")
CHANNEL_S = 60.0  # then the process is killed
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
                timeout=CHANNEL_S,
                check=True,
            )
            found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
            # Not its text, which may have the URL.
            logger.warning("a process of channels ended: %s", type(error).__name__)
            return {}
        return found


class ChannelSender(_Sender):
    """Sends the messages of checks to channels."""

    failure = "messages of monitors could not be sent"
    _is_mail = False

    def __init__(self, database: Database, channels: Channels):
        self._database = database
        self._channels = channels

    @property
    def is_used(self) -> bool:
        return bool(self._channels.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the channels."""
        return self._channels.names

    async def send(self, channel: str, found: CheckMessage) -> str | None:
        """Send a message now. Return None, or the error for callers."""
        call = channel, title_of(found), "\n".join(lines_of(found))
        return await asyncio.to_thread(self._channels.send, *call)

    _deliver = send
