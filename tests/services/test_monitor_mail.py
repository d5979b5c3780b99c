"""The mail server of the setting, and the text of mail."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import nullcontext
from email.message import EmailMessage
from smtplib import SMTPException
from ssl import SSLCertVerificationError

import pytest
from sqlalchemy import text

from scraper_service.services.monitoring import notifications
from scraper_service.services.monitoring.notifications import Mailer, MailServer
from scraper_service.storage.database import Database
from scraper_service.storage.monitors import messages
from tests.storage.test_monitors import World, with_page
from tests.support.mail_server import MailReceiver
from tests.support.mockserver import make_tls_contexts


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
    monkeypatch.setattr(notifications, "SEND_S", 0.5)
    monkeypatch.setattr(notifications, "TALK_S", 1.0)


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


@pytest.mark.timeout(60)
def test_a_server_that_drips_is_cut_off_if_its_connection_took_all_the_time(
    hasty, monkeypatch
):
    connect = socket.create_connection

    def connect_late(*arguments, **options):
        time.sleep(notifications.TALK_S + 0.5)
        return connect(*arguments, **options)

    monkeypatch.setattr(socket, "create_connection", connect_late)
    with MailReceiver(mode="drips") as server, pytest.raises((OSError, SMTPException)):
        MailServer.parse(server.url).send(message())
    assert server.messages == []


def test_a_sent_mail_counts_as_delivered_if_quit_fails(hasty):
    with MailReceiver(mode="rude") as server:
        MailServer.parse(server.url).send(message())
    assert len(server.messages) == 1


@pytest.mark.parametrize("kind", ["valid", "wrong-name"])
def test_an_encrypted_server_has_a_certificate_of_its_name(tmp_path, monkeypatch, kind):
    tls = make_tls_contexts(tmp_path)[kind]
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    is_refused = pytest.raises(SSLCertVerificationError)
    with MailReceiver(tls=tls) as server:
        with is_refused if kind == "wrong-name" else nullcontext():
            MailServer.parse(server.url).send(message())
        assert len(server.messages) == (kind == "valid")


def test_mail_to_an_invalid_address_is_given_up(tmp_path, monkeypatch):
    """Such addresses were stored before they were refused."""
    monkeypatch.setattr(notifications, "RETRIES_S", (0.0,))
    database = Database(tmp_path)
    world = World(database)
    bad, good = (
        {"email": {"enabled": True, "recipients": [address]}}
        for address in ("a@[.c", "a@b.example")
    )
    with MailReceiver() as server:
        for notification in (bad, good):
            with_page(world, world.make(notification=notification))
        mailer = Mailer(database, MailServer.parse(server.url))
        for _ in range(2):
            asyncio.run(mailer.do_due())
    assert [each["To"] for each in server.messages] == ["a@b.example"]
    assert world.do(messages.due_messages, 10, is_mail=True) == []
    database.close()


@pytest.fixture
def mailed(tmp_path, monkeypatch):
    """Return a function that sends a mail, tries it again, and returns those that are due."""
    monkeypatch.setattr(notifications, "RETRIES_S", (0.0, 0.0, 3600.0))
    database = Database(tmp_path)
    world = World(database)

    def call(server, *recipients, rounds=3):
        email = {"enabled": True, "recipients": list(recipients)}
        with_page(world, world.make(notification={"email": email}))
        mailer = Mailer(database, MailServer.parse(server.url))
        for _ in range(rounds):
            asyncio.run(mailer.do_due())
        due = "SELECT COUNT(*) FROM monitor_message WHERE due_at IS NOT NULL"
        return world.do(lambda connection: connection.scalar(text(due)))

    yield call
    database.close()


def recipients_of(server):
    return [each["To"] for each in server.messages]


def test_a_non_ascii_address_does_not_stop_mail_to_other_recipients(mailed, caplog):
    """Such addresses were stored before they were refused."""
    with MailReceiver() as server:
        assert mailed(server, "a@b.example", "jürgen@b.example", "c@b.example") == 0
    assert recipients_of(server) == ["a@b.example, c@b.example"]
    assert "jürgen@b.example: the address cannot be written" in caplog.text


def test_a_host_beyond_ascii_is_written_in_ascii(mailed):
    with MailReceiver() as server:
        assert mailed(server, "a@bücher.example") == 0
    assert recipients_of(server) == ["a@xn--bcher-kva.example"]


def test_a_refused_recipient_does_not_stop_mail_to_other_recipients(mailed, caplog):
    refused = {"bad@b.example": "550 no such user"}
    with MailReceiver(refused=refused) as server:
        assert mailed(server, "bad@b.example", "a@b.example", "a@[.c") == 0
    assert len(server.messages) == 1
    assert "bad@b.example: 550 no such user" in caplog.text
    assert "a@[.c: the address cannot be written" in caplog.text


@pytest.mark.parametrize("refused", ["b@b.example", "monitor@a.example"])
def test_a_permanent_refusal_of_the_mail_server_is_not_retried(mailed, refused):
    with MailReceiver(refused={refused: "550 never"}) as server:
        assert mailed(server, "b@b.example", rounds=1) == 0
        server._server.refused.clear()
    assert server.messages == []


def test_only_recipients_that_were_put_off_get_mail_again(mailed):
    with MailReceiver(refused={"late@b.example": "451 later"}) as server:
        assert mailed(server, "late@b.example", "a@b.example") == 1
        # All three attempts have been made; the first has reached the other one.
    assert len(server.messages) == 1


def test_a_mail_that_was_put_off_goes_to_the_recipients_of_its_last_attempt(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(notifications, "RETRIES_S", (0.0,))
    database = Database(tmp_path)
    world = World(database)
    first, later = (
        {"email": {"enabled": True, "recipients": ["a@b.example", address]}}
        for address in ("wrong@b.example", "right@b.example")
    )
    with_page(world, world.make(notification=first))
    edit = text("UPDATE monitor SET notification = :to")
    with MailReceiver(refused={"wrong@b.example": "451 later"}) as server:
        mailer = Mailer(database, MailServer.parse(server.url))
        asyncio.run(mailer.do_due())
        world.do(lambda c: c.execute(edit, {"to": json.dumps(later)}))
        asyncio.run(mailer.do_due())
    assert recipients_of(server)[1:] == ["right@b.example"]
    database.close()
