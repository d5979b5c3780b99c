"""The mail server of the setting, and the text of mail."""

from __future__ import annotations

from email.message import EmailMessage
from smtplib import SMTPException

import pytest

from scraper_service.services.monitoring import mail
from scraper_service.services.monitoring.mail import MailServer
from tests.support.mail_server import MailReceiver


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


@pytest.fixture
def hasty(monkeypatch):
    """Limits of time that a test can wait for."""
    monkeypatch.setattr(mail, "SEND_S", 0.5)
    monkeypatch.setattr(mail._Conversation, "talk_s", 1.0)


def message():
    found = EmailMessage()
    found["From"], found["To"] = "a@b.example", "c@d.example"
    found.set_content("Something has changed.")
    return found


@pytest.mark.parametrize("mode", ["endless", "long", "drips", "silent", "drops"])
def test_a_hostile_server_ends_the_attempt(hasty, mode):
    with MailReceiver(mode=mode) as server, pytest.raises((OSError, SMTPException)):
        MailServer.parse(server.url).send(message())
    assert server.messages == []


def test_a_mail_is_taken_whatever_the_server_says_to_the_goodbye(hasty):
    with MailReceiver(mode="rude") as server:
        MailServer.parse(server.url).send(message())
    assert len(server.messages) == 1
