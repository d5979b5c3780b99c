"""A process that sends one message through Apprise, under the egress rule.

The services of Apprise open their connections with various libraries. So the rule is an
audit hook of the interpreter (PEP 578), which sees the address of each connection and cannot
be removed; the process may also start no other program. It reads a request as JSON from
its standard input and writes the outcome to its standard output. The environment has no
settings of the service, and no proxy that would hide the address.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from scraper_service.crawling.egress import (
    EgressPolicy,
    ForbiddenDestination,
)

CONNECTIONS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
#: What reaches other programs of this machine.
PROGRAMS = frozenset(
    {
        *("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
        *("os.system", "pty.spawn", "subprocess.Popen", "syslog.openlog"),
        "syslog.syslog",
    }
)
SENT = "sent"
REFUSED = "refused"
FAILED = "failed"
INVALID = "invalid"


def guard(policy: EgressPolicy) -> list[str]:
    """Apply ``policy`` to every connection of this process from now on.

    Returns a list that gets the refusals.
    """
    refusals: list[str] = []

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in PROGRAMS:
            refusals.append(f"{event} is refused")
            raise PermissionError(refusals[-1])
        if event in CONNECTIONS and args[1] is not None:
            try:
                _check(policy, args[1])
            except OSError as error:
                refusals.append(str(error))
                raise

    sys.addaudithook(hook)
    return refusals


def _check(policy: EgressPolicy, address: Any) -> None:
    """Raise :exc:`ForbiddenDestination` for an address that is no allowed IP address."""
    if not isinstance(address, tuple) or len(address) < 2:
        raise ForbiddenDestination(f"{address!r} is refused: it is no IP address")
    try:
        policy.check(str(address[0]), int(address[1]))
    except ValueError:  # a host name, which the system would resolve unseen
        text = f"{address[0]!r} is refused: it is no IP address"
        raise ForbiddenDestination(text) from None


def main() -> None:
    """Send the message of a request, or only check URLs.

    The keys of a message are ``url``, ``title``, ``body`` and ``allow``, the entries of
    ``EGRESS_ALLOW``. Its outcome has ``state``: ``sent``, ``refused``, ``failed``, or ``invalid``
    for a URL that Apprise does not know; and ``refusals``. With ``urls`` instead of a message
    the outcome has the state of each.
    """
    request = json.load(sys.stdin)
    import apprise  # noqa: PLC0415  # an optional library

    logging.disable()  # it logs URLs, which are secrets
    refusals = guard(EgressPolicy(request["allow"]))
    asset = apprise.AppriseAsset(async_mode=False)

    def open_sender(url: str) -> Any:
        sender = apprise.Apprise(asset=asset)
        return sender if sender.add(url) else None

    if "urls" in request:
        states = []
        for url in request["urls"]:
            refusals.clear()
            is_known = open_sender(url) is not None
            states.append(SENT if is_known else REFUSED if refusals else INVALID)
        print(json.dumps({"states": states, "refusals": []}))
        return
    sender, state = open_sender(request["url"]), INVALID
    if sender is not None:
        is_sent = sender.notify(
            body=request["body"],
            title=request["title"],
            body_format=apprise.NotifyFormat.TEXT,
        )
        state = SENT if is_sent else REFUSED if refusals else FAILED
    print(json.dumps({"state": state, "refusals": refusals}))


if __name__ == "__main__":
    main()
