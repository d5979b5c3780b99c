"""Signatures of what is delivered to webhooks; the secrets stay in here."""

from __future__ import annotations

import hmac
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Signer:
    """Signs for teams. ``entries`` are secrets of all, or ``<team id>:<secret>``.

    A team with secrets of its own uses no others. The first one counts, further ones
    let receivers change from one to the next. Raises :exc:`ValueError`.
    """

    def __init__(self, entries: Iterable[str]):
        self._secrets: dict[str, list[bytes]] = {}
        for entry in entries:
            if not entry.strip():
                continue
            team_id, secret = _read(entry.strip())
            if not secret:
                raise ValueError("SCRAPER_WEBHOOK_SECRETS: a secret must not be empty")
            self._secrets.setdefault(team_id, []).append(secret.encode())

    def __repr__(self) -> str:
        return "<Signer>"

    def headers(self, team_id: str, timestamp: int, body: bytes) -> dict[str, str]:
        """Return the headers that sign ``body``; none without a secret.

        ``X-Firecrawl-Signature`` is over the body (interface document, 18.4), ours over
        the timestamp too, so that an old delivery cannot be sent again as a new one.
        """
        secrets = self._secrets.get(team_id) or self._secrets.get("")
        if not secrets:
            return {}
        signed = [_digest(secret, b"%d." % timestamp, body) for secret in secrets]
        versions = ",".join(f"v1={digest}" for digest in signed)
        return {
            "X-Firecrawl-Signature": f"sha256={_digest(secrets[0], body)}",
            "X-Scraper-Signature": f"t={timestamp},{versions}",
        }


def _read(entry: str) -> tuple[str, str]:
    front, colon, secret = entry.partition(":")
    try:
        return (str(uuid.UUID(front)), secret) if colon else ("", entry)
    except ValueError:
        return "", entry  # a secret with a colon in it


def _digest(secret: bytes, *parts: bytes) -> str:
    signature = hmac.new(secret, digestmod="sha256")
    for part in parts:
        signature.update(part)
    return signature.hexdigest()
