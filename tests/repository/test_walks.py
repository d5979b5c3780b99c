"""How many modules a request runs through: a bound that only falls."""

from __future__ import annotations

import pytest

from tools.bench.processes import ServerProcess
from tools.walks import count

# Now 31, 42, 36, 17 and 12, and room for background work that meets every repetition.
MOST = (35, 46, 40, 22, 16)


@pytest.mark.full
def test_a_request_runs_through_a_bounded_number_of_modules(tmp_path):
    with ServerProcess("tools.bench.static") as site:
        walks = count(tmp_path, site.line("http"))
    counts = tuple(map(len, walks.values()))
    assert all(counts), walks
    too_many = [
        name for name, n, most in zip(walks, counts, MOST, strict=True) if n > most
    ]
    assert not too_many, counts
