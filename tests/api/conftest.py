"""Fixtures of the tests of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.gauge import Gauge

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def gauge() -> Iterator[Gauge]:
    """A site that notes how many of its pages are asked for at a time."""
    with Gauge() as site:
        yield site
