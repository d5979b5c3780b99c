"""What a monitor does not count as a change: the option ``compare`` of its targets."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, max_len

MAX_FIELDS = 100
MAX_PATTERNS = 20
MAX_CHARACTERS = 100_000


@frozen(kw_only=True)
class FieldRule:
    """When another value of a field of the data counts as a change."""

    #: The path, such as ``plans[0].price``; ``plans[].price`` stands for each index.
    path: str
    #: True for a field that never counts.
    ignore: bool = False
    #: The least difference of two numbers, 0 for any.
    min_difference: float = field(default=0, validator=ge(0))
    #: The same in percent of the previous number.
    min_percent: float = field(default=0, validator=ge(0))


@frozen(kw_only=True)
class Compare:
    """What is left out of a comparison.

    Diffs show only what the selectors leave, and all of it.
    """

    #: CSS selectors of the elements whose text counts; empty for the whole content.
    include_selectors: tuple[str, ...] = ()
    #: CSS selectors of elements whose text does not count.
    exclude_selectors: tuple[str, ...] = ()
    #: Regular expressions (RE2) of text that does not count.
    ignore_patterns: tuple[str, ...] = field(
        default=(), validator=max_len(MAX_PATTERNS)
    )
    ignore_numbers: bool = False
    ignore_dates: bool = False
    #: The least number of characters that differ, 0 for any.
    min_characters: int = field(default=0, validator=ge(0))
    fields: tuple[FieldRule, ...] = field(default=(), validator=max_len(MAX_FIELDS))

    @property
    def selects(self) -> bool:
        """Whether only parts of the page count."""
        return bool(self.include_selectors or self.exclude_selectors)

    @property
    def cleans(self) -> bool:
        """Whether a part of the text does not count."""
        return bool(self.ignore_patterns or self.ignore_numbers or self.ignore_dates)
