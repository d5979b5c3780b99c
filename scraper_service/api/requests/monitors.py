"""Request bodies that create and change monitors, see docs/api/monitors.md, Monitors."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTPUTF8
from typing import Any

from attrs import evolve, frozen

from scraper_service.api.requests.monitor_targets import SPELLINGS, TARGETS
from scraper_service.errors import InvalidOptions, Issue
from scraper_service.options import catalogue, page_requests
from scraper_service.options.jobs import MONITOR_EVENTS, Caller, Webhook, iso_seconds
from scraper_service.options.monitors import (
    MAX_TARGETS,
    SearchTarget,
    TargetT,
    check_zone,
    cron_of_text,
    normalize_cron,
)
from scraper_service.options.parsing import (
    NO_DEFAULT,
    WHERE,
    Array,
    BodyReader,
    Bool,
    Key,
    KeysT,
    Object,
    Position,
    Text,
    Then,
    ValueKind,
    choice,
    integer,
    short,
    structure,
)
from scraper_service.options.spider_arguments import camel_keys
from scraper_service.options.values import unique, webhook_kind

MAX_NAME = 256
MAX_GOAL = 2000
MAX_RECIPIENTS = 25
MAX_CHANNELS = 10
USUAL_RETENTION_DAYS = 30
STATES = ("active", "paused")
FOREVER = "forever"

_ADDRESS = re.compile(r"[!-?A-~]+@[^@\s]+\.[^@\s]+")


@frozen
class ScheduleRequest:
    """A schedule as its caller wrote it: an expression, or words."""

    cron: str | None
    text: str | None
    timezone: str

    def cron_for(self, monitor_id: str) -> str:
        """Return the expression for a monitor. Its id spreads what the words leave open."""
        if self.text is None:
            assert self.cron is not None
            return self.cron
        # The first digits of an id may be a time.
        return cron_of_text(self.text, int(monitor_id[-8:], 16))


@frozen
class MonitorRequest(Caller):
    """A body that creates or changes a monitor. A change names only some of the values."""

    #: The values by name: ``name``, ``schedule``, ``targets``, ``goal``, ``judge``,
    #: ``webhook``, ``notification``, ``retention_days``, ``state``. None clears a value.
    values: Mapping[str, Any]
    #: The targets as JSON for responses, with their ids and defaults.
    shown: tuple[dict[str, Any], ...] = ()
    #: The webhook as JSON for responses, None without one.
    hook: dict[str, Any] | None = None


def _schedule(values: dict[str, Any], at: Position) -> Any:
    cron, text = values.get("cron"), values.get("text")
    if (cron is None) == (text is None):
        found = "both" if cron is not None else "none"
        return at.report(
            "custom", f"schedule must have one of cron and text, got {found}"
        )
    if text is not None:
        try:
            cron_of_text(text, 0)
        except ValueError as error:
            return (at / "text").report("custom", str(error))
    return ScheduleRequest(cron, text, values.get("timezone", "UTC"))


SCHEDULE = Object(
    {
        "cron": Key(
            Then(Text(256, minimum=1), normalize_cron),
            "cron",
            help="Five fields: minute, hour, day of month, month, day of week.",
        ),
        "text": Key(
            Text(256, minimum=1),
            "text",
            help="The schedule in words, such as every 30 minutes or daily at 9:00.",
        ),
        "timezone": Key(
            Then(Text(64, minimum=1), check_zone),
            "timezone",
            help="The name of the time zone, such as Europe/Berlin.",
            default="UTC",
        ),
    },
    _schedule,
    schema={"oneOf": [{"required": ["cron"]}, {"required": ["text"]}]},
)


_NO_ZERO = "zeroDataRetention must be false: a monitor keeps snapshots of its pages"


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text) or not _is_sendable(text):
        raise ValueError(
            "must be an e-mail address with ASCII letters before the @, such as"
            f" name@example.com, got {short(text)}"
        )
    return text


def _is_sendable(address: str) -> bool:
    """Return True if a mail to ``address`` can be written and goes to this address only."""
    message = EmailMessage(policy=SMTPUTF8)
    try:
        message["To"] = address
        message.as_bytes()
        found = [each.addr_spec for each in message["To"].addresses]
    except Exception:  # the email package raises errors of any kind
        return False
    return found == [address]


_NOTIFICATION = Object(
    {
        "email": Key(
            Object(
                {
                    "enabled": Key(Bool(), "enabled", help="Send mail."),
                    "recipients": Key(
                        Array(Then(Text(320), _address), MAX_RECIPIENTS),
                        "recipients",
                        help="E-mail addresses.",
                    ),
                    "includeDiffs": Key(
                        Bool(), "include_diffs", help="Put the diffs into the mail."
                    ),
                }
            ),
            "email",
            help="Mail after a check with changes.",
        ),
        "channels": Key(
            Then(Array(Text(64, minimum=1), MAX_CHANNELS), unique),
            "channels",
            help="Names of channels of the operator, which get a message after a check with"
            " changes.",
            is_own=True,
        ),
    }
)


def _parse_mute_end(text: str) -> float:
    """Return seconds since 1970, infinite for :data:`FOREVER`."""
    if text == FOREVER:
        return math.inf
    try:
        at = iso_seconds(text)
    except ValueError:
        raise ValueError(
            f"mutedUntil must be a time of ISO 8601 before the year 10000, or {FOREVER!r}, got {short(text)}"
        ) from None
    if at <= time.time():
        raise ValueError(
            "mutedUntil must be a time to come, and null ends a mute,"
            f" got {short(text)}"
        )
    return at


def _some_targets(given: tuple[TargetT, ...]) -> tuple[TargetT, ...]:
    if not given:
        text = "targets must have at least 1 item"
        raise InvalidOptions([Issue("too_small", (), text, {"minimum": 1})])
    if len({each.id for each in given}) < len(given):
        raise ValueError("targets must have different ids")
    return given


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError("name must not be blank")
    return text


def _keys(*, is_change: bool) -> KeysT:
    wanted: dict[str, tuple[ValueKind, str, str]] = {
        "name": (
            Then(Text(MAX_NAME, minimum=1), _name, {"pattern": r"\S"}),
            "name",
            "The name of the monitor.",
        ),
        "schedule": (SCHEDULE, "schedule", "When the monitor runs."),
        "targets": (
            Then(Array(TARGETS, MAX_TARGETS), _some_targets, {"minItems": 1}),
            "targets",
            "What is monitored.",
        ),
    }
    keys: dict[str, Key] = {
        name: Key(kind, to, required=not is_change, help=text)
        for name, (kind, to, text) in wanted.items()
    }
    keys |= {
        "goal": Key(
            Text(MAX_GOAL),
            "goal",
            help="What changes matter, in words.",
            nullable=is_change,
        ),
        "judgeEnabled": Key(
            Bool(), "judge", help="Let the language model judge changes by the goal."
        ),
        "webhook": Key(
            webhook_kind("monitor", MONITOR_EVENTS, MONITOR_EVENTS),
            "webhook",
            help="The receiver of the monitor's events.",
            nullable=is_change,
        ),
        "notification": Key(
            _NOTIFICATION,
            "notification",
            help="The recipients of messages about changes.",
            nullable=is_change,
        ),
        **catalogue.respell(
            catalogue.CRAWL,
            "retention_days",
            kind=integer(1, 365),
            help="Days that checks and their pages are stored.",
            default=NO_DEFAULT if is_change else USUAL_RETENTION_DAYS,
            is_own=False,
        ),
        **catalogue.respell(
            catalogue.SCRAPE,
            "zero_data_retention",
            kind=Then(Bool(), _no_zero, {"const": False}),
            to=None,
            help="Must be false: a monitor keeps snapshots.",
            default=NO_DEFAULT,
        ),
        **page_requests.CALLER_KEYS,
        **{
            name: key
            for name, key in page_requests.FURTHER_KEYS.items()
            if key.to is None
        },
    }
    if is_change:
        keys["status"] = Key(choice(*STATES), "state", help="Pause or resume.")
        keys["mutedUntil"] = Key(
            Then(Text(64, minimum=1), _parse_mute_end),
            "muted_until",
            help="No mail and no messages to channels before this time of ISO 8601; forever"
            " until it is null again. The webhook gets its events all the same.",
            nullable=True,
            is_own=True,
        )
    return keys


def _no_zero(wanted: bool) -> bool:
    if wanted:
        raise ValueError(_NO_ZERO)
    return wanted


def _request(values: dict[str, Any], at: Position) -> Any:
    caller = {name: values.pop(name) for name in page_requests.CALLER if name in values}
    if (goal := values.get("goal")) is not None and not goal.strip():
        if at.where == WHERE_CHANGED:
            values["goal"] = None
        else:
            del values["goal"]
    return MonitorRequest(values, **caller)


def _creation_request(values: dict[str, Any], at: Position) -> Any:
    found = _request(values, at)
    searches = any(isinstance(x, SearchTarget) for x in values["targets"])
    if searches and not values.get("goal") and values.get("judge") is not False:
        text = "goal is required for a search target, unless judgeEnabled is false"
        return (at / "goal").report("custom", text)
    return found


def _change_request(values: dict[str, Any], at: Position) -> Any:
    if values.keys() <= set(page_requests.CALLER):
        others = {None, *page_requests.CALLER}
        names = ", ".join(k for k, v in CHANGED.fields.items() if v.to not in others)
        return at.report("custom", f"the body must have at least one of {names}")
    return _request(values, at)


WHERE_CHANGED = "change (v2)"
CREATED = page_requests.whole_body(_keys(is_change=False), _creation_request)
CHANGED = page_requests.whole_body(_keys(is_change=True), _change_request)


def monitor_request(body: object) -> MonitorRequest:
    """Return the request in a body of ``POST /v2/monitor``.

    :raises InvalidOptions: with every issue.
    """
    return _read(CREATED, body)


def monitor_change(body: object) -> MonitorRequest:
    """Return the change in a body of ``PATCH /v2/monitor/{id}``.

    :raises InvalidOptions: with every issue.
    """
    return _read(CHANGED, body, WHERE_CHANGED)


RUN = page_requests.whole_body(
    page_requests.CALLER_KEYS, lambda values, _: Caller(**values)
)


run_request = BodyReader[Caller](__name__, "run_request", RUN, may_be_empty=True)


def _read(kind: Object, body: object, where: str = WHERE) -> MonitorRequest:
    body = _camel(body)
    found: MonitorRequest = structure(kind, body, where)
    assert isinstance(body, dict)
    shown = tuple(
        _target_members(given, target)
        for given, target in zip(
            body.get("targets") or (), found.values.get("targets", ()), strict=True
        )
    )
    hook = found.values.get("webhook")
    shown_hook = None if hook is None else _hook_members(hook)
    return evolve(found, shown=shown, hook=shown_hook)


def _camel(body: object) -> object:
    """Return a body whose targets have the keys of the API."""
    if not isinstance(body, dict) or not isinstance(body.get("targets"), list):
        return body
    return {**body, "targets": [camel_keys(x, SPELLINGS) for x in body["targets"]]}


def _target_members(given: dict[str, Any], target: TargetT) -> dict[str, Any]:
    """Return a target for responses: as given, with its id and the defaults of searches."""
    return {**given, "id": target.id, **target.as_members()}


def _hook_members(hook: Webhook) -> dict[str, Any]:
    return {
        "url": hook.url,
        "headers": dict(hook.headers),
        "metadata": dict(hook.metadata),
        "events": [f"monitor.{name}" for name in hook.events],
    }
