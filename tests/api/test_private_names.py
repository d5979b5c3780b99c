"""Private names of libraries that have no public counterpart: they must not go."""

from __future__ import annotations

import pytest
from twisted.web import http

from scraper_service.api.http_connections import DeadlineChannel


@pytest.mark.parametrize("name", ["_dataBuffer", "_waitingForTransport"])
def test_twisted_keeps_the_state_of_a_channel(name):
    assert hasattr(http.HTTPChannel(), name)


def test_twisted_reports_malformed_requests_by_the_method_that_is_overridden():
    name = "_respondToBadRequestAndDisconnect"
    assert name in vars(DeadlineChannel)
    assert callable(getattr(http.HTTPChannel, name))


def test_scrapyd_starts_processes_by_the_method_that_is_overridden():
    from scrapyd.launcher import Launcher

    from scraper_service.services.scrapyd.launcher import PatientLauncher

    assert "_get_message" in vars(PatientLauncher)
    assert callable(Launcher._get_message)
