"""Reports of unexpected errors to Sentry, or to a server with its interface.

A report has the traceback of an error that the log has too, and nothing of the request: no
body, header, URL or local variable.
"""

from __future__ import annotations

import asyncio
import logging
import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

EXTRA = "sentry"
CLOSE_S = 2.0  # for the last reports
QUEUE = 50  # reports that wait to be sent; further ones are dropped
HIDDEN = "[hidden]"

# Texts of exceptions may quote URLs with their queries, and keys.
_SECRETS = (
    (re.compile(r"(\w://)[^\s/@'\"]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(\w://[^\s?#'\"<>]*)[?#][^\s'\"<>]*"), rf"\1?{HIDDEN}"),
    (re.compile(r"\bfc-[\w-]+"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {HIDDEN}"),
)


class ErrorReports(logging.Handler):
    """Sends each traceback of the log, at the level ERROR or above.

    Raises :exc:`ValueError` for an invalid ``dsn``, and if the extra ``sentry`` is not
    installed. Reports are sent by a thread of the library.
    """

    def __init__(self, dsn: str):
        super().__init__(logging.ERROR)
        try:
            import sentry_sdk  # noqa: PLC0415
            from sentry_sdk.utils import BadDsn, event_from_exception  # noqa: PLC0415
        except ImportError:
            raise ValueError(
                f"SCRAPER_SENTRY_DSN needs the extra {EXTRA}:"
                f" pip install 'scraper-service[{EXTRA}]'"
            ) from None
        try:
            self._client: Any = sentry_sdk.Client(
                dsn=dsn,
                release=version("scraper-service"),
                default_integrations=False,
                auto_enabling_integrations=False,
                auto_session_tracking=False,
                send_client_reports=False,
                include_local_variables=False,
                max_breadcrumbs=0,
                max_request_body_size="never",
                transport_queue_size=QUEUE,
                before_send=without_secrets,
            )
        except BadDsn:
            raise ValueError(
                "SCRAPER_SENTRY_DSN must be a URL such as"
                " https://KEY@sentry.example/1; the one given cannot be read"
            ) from None
        self._event_of: Any = event_from_exception

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the report of a record with a traceback."""
        if not record.exc_info or record.exc_info[0] is None:
            return
        if record.name.startswith(("sentry_sdk", "urllib3")):
            return  # a report that fails is not reported
        try:
            mechanism = {"type": "logging", "handled": True}
            event, hint = self._event_of(
                record.exc_info, self._client.options, mechanism
            )
            event["level"] = record.levelname.lower().replace("critical", "fatal")
            event["logger"] = record.name
            # Without its values: they may be URLs. An error of a call has its id.
            event["logentry"] = {"message": str(record.msg)}
            self._client.capture_event(event, hint)
        except Exception:
            self.handleError(record)

    async def stop(self) -> None:
        """Send the last reports, for at most :data:`CLOSE_S`."""
        logging.getLogger().removeHandler(self)
        await asyncio.to_thread(self._client.close, timeout=CLOSE_S)


def error_reports(settings: BaseSettings) -> ErrorReports | None:
    """Begin to send reports if ``SENTRY_DSN`` is set. Raises :exc:`ValueError`."""
    if not (dsn := settings["SENTRY_DSN"]):
        return None
    reports = ErrorReports(dsn)
    logging.getLogger().addHandler(reports)
    return reports


def without_secrets(event: Any, hint: dict[str, Any]) -> Any:
    """Return an event without queries of URLs, keys and facts of requests."""
    del hint
    for key in ("request", "user", "breadcrumbs", "extra", "modules"):
        event.pop(key, None)
    return _hide_secrets(event)


def _hide_secrets(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, replacement in _SECRETS:
            value = pattern.sub(replacement, value)
        return value
    if isinstance(value, dict):
        return {key: _hide_secrets(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_hide_secrets(each) for each in value]
    return value
