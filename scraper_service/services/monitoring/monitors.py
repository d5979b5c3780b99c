"""Monitors of a team: create, read, change, delete, run; their checks."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, frozen

from scraper_service.crawling.egress import EgressPolicy
from scraper_service.errors import (
    InvalidOptions,
    InvalidParameter,
    Issue,
    JobNotFound,
    OptionUnavailable,
)
from scraper_service.options.limits import missing_model, under_policy
from scraper_service.options.monitors import SearchTarget
from scraper_service.options.parsing import short
from scraper_service.options.urls import DEFAULT_PORTS, origin
from scraper_service.services.accounts import existing
from scraper_service.services.monitoring.notifications import ChannelSender, Mailer
from scraper_service.shared_objects import BackgroundTasks
from scraper_service.storage.monitors import checks, monitors
from scraper_service.storage.monitors.messages import CheckMessage
from scraper_service.storage.monitors.monitors import ACTIVE, Monitor, MonitorChange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scrapy.settings import BaseSettings
    from sqlalchemy import Connection

    from scraper_service.options.jobs import Webhook
    from scraper_service.options.monitors import TargetT
    from scraper_service.services.accounts import Team
    from scraper_service.services.capabilities import Availability
    from scraper_service.services.job_runner import JobRunner
    from scraper_service.storage.accounts.credits import Prices
    from scraper_service.storage.database import Database
    from scraper_service.storage.monitors.checks import CheckPages, CheckRow
    from scraper_service.storage.monitors.monitors import Definition

DAYS = 30  # of an estimate of a month
logger = logging.getLogger(__name__)
T = TypeVar("T")
CHECK_NOT_FOUND = "Monitor check not found"
NO_JUDGE = (
    "The goal is stored, but changes are not judged by it: the operator has not set up a"
    " language model."
)
NEEDS_GOAL = "judgeEnabled needs a goal that changes are judged by"
EMAIL = "email"
NO_MESSAGES = (
    "The monitor has no channels, and no recipients that mail can be sent to: give it one, or"
    " set SCRAPER_SMTP_URL for its recipients"
)
NOT_MAILED = "The mail server of this service did not take the mail for {}."
NO_MAIL = "No mail is sent: this service has no mail server. Use a webhook."


@frozen
class Estimate:
    """The expected credits of a check."""

    #: All of them.
    credits: int
    #: Those that are taken before the check starts; a crawl takes its own.
    reserve: int


def estimate(
    targets: Iterable[TargetT],
    prices: Prices,
    *,
    judge: bool,
    crawled: Mapping[str, int] | None = None,
) -> Estimate:
    """Return the expected credits of a check.

    ``crawled`` are the pages of the last complete check by crawl target. Without them the
    limit of the crawl counts.
    """
    total = reserve = 0
    for target in targets:
        count = (crawled or {}).get(target.id) or target.max_pages
        price = (
            search_price(target, prices)
            if isinstance(target, SearchTarget)
            else count * prices.usual(target.scrape)
        )
        reserve += 0 if target.charges_itself else price
        total += price + (count if judge else 0)
    return Estimate(total, reserve)


def search_price(target: SearchTarget, prices: Prices) -> int:
    """Return the price of the searches of a target."""
    return prices.search(target.max_results) * len(target.queries)


@frozen
class MonitorAnswer:
    """A monitor with a warning for its caller, None without one."""

    monitor: Monitor
    warning: str | None = None


@frozen
class SentMessage:
    """A test message: the name of its channel, or :data:`EMAIL`."""

    name: str
    #: Why it was not taken; None if it was.
    error: str | None


@frozen
class Messengers:
    """What sends mail and messages about checks."""

    mailer: Mailer
    channels: ChannelSender


@frozen
class PageQuery:
    """The pages of a check to read."""

    #: One of the states of pages, None for all.
    status: str | None
    skip: int
    limit: int


class TeamMonitors:
    """Monitors of a team.

    Methods with an id raise :exc:`~scraper_service.errors.JobNotFound` for a monitor of
    another team.
    """

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        prices: Prices,
        availability: Availability,
        messengers: Messengers,
        settings: BaseSettings,
    ):
        self._database = database
        self._runner = runner
        self._prices = prices
        self._availability = availability
        self._most = settings.getint("MAX_MONITORS")
        self._no_model = missing_model(settings)
        self._messengers = messengers
        self._usual_disk_mb = settings.getint("TEAM_DISK_MB")
        self._egress = EgressPolicy(settings.getlist("EGRESS_ALLOW"))
        self._tasks = BackgroundTasks()

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of the operator's channels."""
        return self._messengers.channels.names

    @property
    def sends_mail(self) -> bool:
        """Whether there is a mail server."""
        return self._messengers.mailer.is_used

    async def create(
        self, values: Mapping[str, Any], definition: Definition, team: Team
    ) -> MonitorAnswer:
        """Store a monitor. It runs first at the next time of its schedule.

        ``values`` are attributes of :class:`Monitor`; without ``judge`` the goal decides.
        Raises :exc:`OptionUnavailable`, :exc:`InvalidOptions` and
        :exc:`~scraper_service.errors.MonitorLimit`.
        """
        self._availability.check_open()
        self._require(definition.targets, team)
        self._require_channels(values.get("notification"))
        self._require_public(definition.hook)
        judge, warning = self._judge(values.get("goal"), values.get("judge"))
        expected = estimate(definition.targets, self._prices, judge=judge)
        wanted = Monitor(
            **{"goal": None, "notification": None, **values, "judge": judge},
            team_id=team.id,
            key_id=team.key_id,
            state=ACTIVE,
            definition=definition,
            estimate=expected.credits,
            reserve=expected.reserve,
        )
        found = await self._database.write(monitors.create, wanted, self._most)
        return MonitorAnswer(found, _join(warning, self._mail(found.notification)))

    def _require(self, targets: Iterable[TargetT], team: Team) -> None:
        """Raise the errors of the options of each target."""
        for number, target in enumerate(targets):
            try:
                if (options := target.job()) is not None:
                    self._availability.require_job(
                        under_policy(options, team.site_policy)
                    )
            except OptionUnavailable as error:
                error.above = ("targets", number, "scrapeOptions")
                raise
            except InvalidOptions as error:
                above = ("targets", number, "scrapeOptions")
                raise InvalidOptions(
                    [evolve(x, path=(*above, *x.path)) for x in error.issues]
                ) from error

    def _require_channels(self, notification: Mapping[str, Any] | None) -> None:
        """Raise :exc:`InvalidOptions` for a channel that the operator has not set."""
        names = self._messengers.channels.names
        known = ", ".join(names) or "none, as the operator has set no channels"
        issues = [
            Issue(
                "custom",
                ("notification", "channels", number),
                f"channels must be of this service ({known}), got {name!r}",
            )
            for number, name in enumerate((notification or {}).get("channels") or ())
            if name not in names
        ]
        if issues:
            raise InvalidOptions(issues)

    def _require_public(self, hook: Webhook | None) -> None:
        """Raise :exc:`InvalidOptions` for a webhook whose host is an address that is refused.

        The addresses of other hosts are checked at each delivery.
        """
        if hook is None:
            return
        scheme, host, port = origin(hook.url)
        host = host.removeprefix("[").removesuffix("]")
        if host == "localhost" or host.endswith(".localhost"):
            host = "127.0.0.1"
        try:
            reason = self._egress.refusal(host, port or DEFAULT_PORTS[scheme])
        except ValueError:  # a name
            return
        if reason is not None:
            text = (
                f"url must be at a public address, got {short(hook.url)}, which is refused"
                f" ({reason}); the operator can allow it with SCRAPER_EGRESS_ALLOW"
            )
            raise InvalidOptions([Issue("custom", ("webhook", "url"), text)])

    async def notify(self, monitor_id: str, team: Team) -> list[SentMessage]:
        """Send a test message to each channel of a monitor, and to its recipients of mail.

        Raises :exc:`InvalidParameter` if it has neither.
        """
        found = existing(
            await self._database.read(monitors.read_monitor, monitor_id, team.id),
            monitors.NOT_FOUND,
        )
        messengers, email = self._messengers, (found.notification or {}).get("email")
        mail = CheckMessage(
            check_id=str(uuid.uuid4()),
            monitor_id=found.id,
            name=found.name,
            recipients=tuple((email or {}).get("recipients") or ()),
            has_diffs=False,
            status="test",
            error="This is a test message: nothing has changed.",
            counts={"same": 0},
            pages=(),
        )
        names = list(found.channels)
        sends = [messengers.channels.send(name, mail) for name in names]
        if found.wants_mail and messengers.mailer.is_used:
            names.append(EMAIL)
            sends.append(self._trial_mail(mail))
        if not sends:
            raise InvalidParameter(NO_MESSAGES)
        errors = await asyncio.gather(*sends)
        return [SentMessage(*each) for each in zip(names, errors, strict=True)]

    async def _trial_mail(self, mail: CheckMessage) -> str | None:
        outcome = await self._messengers.mailer.send(mail)
        if not (missed := [*outcome.refused, *outcome.put_off]):
            return None
        logger.warning("the test mail of monitor %s: %s", mail.monitor_id, outcome)
        return NOT_MAILED.format(", ".join(missed))

    def _mail(self, notification: Mapping[str, Any] | None) -> str | None:
        """Return a warning if a notification asks for mail that is not sent."""
        email = (notification or {}).get("email") or {}
        return (
            NO_MAIL
            if email.get("enabled") and not self._messengers.mailer.is_used
            else None
        )

    def _judge(self, goal: str | None, given: bool | None) -> tuple[bool, str | None]:
        """Return whether changes are judged, and a warning if they cannot be."""
        wanted = goal is not None if given is None else given
        if not wanted:
            return False, None
        if self._no_model is None:
            if goal is None:
                raise OptionUnavailable("judge_enabled", NEEDS_GOAL)
            return True, None
        if given:
            text = f"judgeEnabled must be false: {self._no_model}"
            raise OptionUnavailable("judge_enabled", text, "LANGUAGE_MODEL_REQUIRED")
        return False, NO_JUDGE

    async def get(
        self, monitor_id: str, team: Team, shape: Callable[[Monitor], T]
    ) -> T:
        """Return ``shape`` of a monitor. It is called in a reader thread."""

        def read(connection: Connection) -> T | None:
            found = monitors.read_monitor(connection, monitor_id, team.id)
            return None if found is None else shape(found)

        return existing(await self._database.read(read), monitors.NOT_FOUND)

    async def _exists(self, monitor_id: str, team: Team) -> None:
        """Raise :exc:`JobNotFound` unless the team has a monitor."""
        if not await self._database.read(monitors.is_of_team, monitor_id, team.id):
            raise JobNotFound(monitors.NOT_FOUND)

    async def all(
        self,
        team: Team,
        offset: int,
        limit: int,
        shape: Callable[[list[Monitor], int], T],
    ) -> T:
        """Return ``shape`` of monitors, the newest first, and of the number of all.

        It is called in a reader thread.
        """

        def read(connection: Connection) -> T:
            return shape(*monitors.list_monitors(connection, team.id, offset, limit))

        return await self._database.read(read)

    async def change(
        self,
        monitor_id: str,
        team: Team,
        values: Mapping[str, Any],
        definition: Mapping[str, Any],
    ) -> MonitorAnswer:
        """Change a monitor. A running check goes on as it began.

        ``values`` are attributes of :class:`Monitor`, ``definition`` those of
        :class:`Definition`. Raises the errors of :meth:`create`.
        """
        self._availability.check_open()
        found = existing(
            await self._database.read(monitors.read_monitor, monitor_id, team.id),
            monitors.NOT_FOUND,
        )
        self._require_channels(values.get("notification"))
        self._require_public(definition.get("hook"))
        warning, changed = None, dict(values)
        if "targets" in definition:
            self._require(definition["targets"], team)
        if "goal" in values or "judge" in values:
            goal = values.get("goal", found.goal)
            given = values.get("judge")
            if "goal" in values and given is None:
                given = None if goal is not None else False
            changed["judge"], warning = self._judge(goal, given)
        targets = definition.get("targets", found.definition.targets)
        judge = changed.get("judge", found.judge)
        expected = estimate(targets, self._prices, judge=judge)
        if "targets" in definition or judge != found.judge:
            changed |= {"estimate": expected.credits, "reserve": expected.reserve}
        stored = await self._database.write(
            monitors.change,
            monitor_id,
            team.id,
            MonitorChange(changed, definition),
        )
        mail = self._mail(stored.notification) if "notification" in values else None
        return MonitorAnswer(stored, _join(warning, mail))

    async def delete(self, monitor_id: str, team: Team) -> None:
        """Stop a running check, and delete the monitor with all its data.

        Deliveries of webhooks that wait still go out.
        """
        # A client that goes away must not end it halfway: a second call finds no monitor.
        await asyncio.shield(self._tasks.spawn(self._delete(monitor_id, team)))

    async def _delete(self, monitor_id: str, team: Team) -> None:
        if not await self._database.write(
            monitors.remove, monitor_id, team.id, team.actor
        ):
            raise JobNotFound(monitors.NOT_FOUND)
        for check_id in await self._database.read(checks.check_ids, monitor_id):
            # One at a time: each is locked by its own transaction.
            await self._hide(check_id)
            # Read behind the end of the check: it starts no further job then.
            for step in await self._database.read(checks.step_ids, check_id):
                await self._hide(step)

    async def _hide(self, job_id: str) -> None:
        await self._database.write(checks.hide_check, job_id)
        await self._runner.cancel(job_id)

    async def run(self, monitor_id: str, team: Team) -> CheckRow:
        """Start a check now, also of a paused monitor.

        Raises :exc:`~scraper_service.errors.CheckRunning` and
        :exc:`~scraper_service.errors.OutOfCredits`.
        """
        self._availability.check_open()
        found = await self._database.write(
            checks.start_check,
            team.id,
            monitor_id,
            "manual",
            usual_disk_mb=self._usual_disk_mb,
        )
        assert found is not None
        self._runner.wake()
        return found

    async def checks(
        self,
        monitor_id: str,
        team: Team,
        status: str | None,
        offset: int,
        limit: int,
    ) -> tuple[list[CheckRow], int]:
        """Return checks of a monitor, the newest first, and the number of all."""
        await self._exists(monitor_id, team)
        return await self._database.read(
            checks.list_checks, monitor_id, status, offset, limit
        )

    async def check(
        self,
        monitor_id: str,
        check_id: str,
        team: Team,
        query: PageQuery,
        shape: Callable[[CheckRow, CheckPages], T],
    ) -> T:
        """Return ``shape`` of a check and some of its pages.

        It is called in a reader thread. Raises :exc:`JobNotFound` for an unknown check,
        too.
        """
        await self._exists(monitor_id, team)

        def read(connection: Connection) -> T | None:
            found = checks.read_check(connection, monitor_id, check_id)
            if found is None:
                return None
            pages = checks.read_check_pages(
                connection, check_id, query.status, query.skip, query.limit
            )
            return shape(found, pages)

        return existing(await self._database.read(read), CHECK_NOT_FOUND)


def monthly_credits(monitor: Monitor) -> int:
    """Return the expected credits of a monitor in the next 30 days."""
    return monitor.estimate * monitor.schedule.count(time.time(), DAYS)


def new_id() -> str:
    """Return an id for a monitor, which spreads the times of its schedule."""
    return str(uuid.uuid4())


def _join(*parts: str | None) -> str | None:
    return " ".join(part for part in parts if part) or None
