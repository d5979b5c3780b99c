"""The mail server of the setting, and the text of mail."""

from __future__ import annotations

import pytest

from scraper_service.services.monitoring.mail import MailServer


def test_a_server_is_read_from_its_url():
    server = MailServer.parse("smtps://u%40x:p%2Fw@m.example/?from=a@b.example")
    assert (server.host, server.port, server.sender) == (
        "m.example",
        465,
        "a@b.example",
    )
    assert (server.user, server.password) == ("u@x", "p/w")
    assert "p/w" not in repr(server)
    assert MailServer.parse("smtp://m.example/?from=a@b.example").port == 587


@pytest.mark.parametrize(
    "url",
    ["http://m.example/?from=a@b.example", "smtp://m.example", "smtp:///?from=a@b.c"],
)
def test_another_url_is_refused(url):
    with pytest.raises(ValueError, match="SCRAPER_SMTP_URL"):
        MailServer.parse(url)
