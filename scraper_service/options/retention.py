"""How long results are stored: the option ``retentionDays`` and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from scraper_service.errors import OptionUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DAY_S = 86_400
MIN_DAYS = 0.01
LONGEST_DAYS = 36_500  # of any installation: a hundred years
HIDDEN = "retentionDays must be left out with zeroDataRetention, got {:g}"


@frozen
class Retention:
    """The settings ``RETENTION_DAYS`` and ``MAX_RETENTION_DAYS``."""

    usual_days: float
    most_days: float

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Retention:
        """Return the values of the settings of a service."""
        usual, most = settings["RETENTION_DAYS"], settings["MAX_RETENTION_DAYS"]
        return cls(float(usual), float(most))

    def seconds(self, days: float | None, *, is_zero: bool = False) -> float:
        """Return the life of results after their last change, for an option ``days``.

        None is the usual time. ``is_zero`` stands for zero data retention.

        :raises OptionUnavailable: for more days than allowed, or with zero retention.
        """
        if days is None:
            return self.usual_days * DAY_S
        if is_zero:
            raise OptionUnavailable("retention_days", HIDDEN.format(days))
        if days > self.most_days:
            raise OptionUnavailable(
                "retention_days",
                f"retentionDays must be {MIN_DAYS} to {self.most_days:g}, got {days:g}",
            )
        return days * DAY_S
