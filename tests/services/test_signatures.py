"""Secrets of webhooks: whose they are, and what they sign."""

from __future__ import annotations

import hmac

import pytest

from scraper_service.services.webhooks import Signer

TEAM = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
OTHER = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d12"


def digest(secret, text):
    return hmac.new(secret.encode(), text, "sha256").hexdigest()


def test_deliveries_are_not_signed_without_a_secret():
    assert Signer([]).headers(TEAM, 5, b"body") == {}
    assert Signer([""]).headers(TEAM, 5, b"body") == {}
    assert Signer([f"{OTHER}:secret"]).headers(TEAM, 5, b"body") == {}


def test_the_first_secret_signs_the_body_and_all_sign_the_time():
    headers = Signer(["new", "old:er"]).headers(TEAM, 5, b"body")
    assert headers["X-Firecrawl-Signature"] == "sha256=" + digest("new", b"body")
    new, old = digest("new", b"5.body"), digest("old:er", b"5.body")
    assert headers["X-Scraper-Signature"] == f"t=5,v1={new},v1={old}"


def test_a_team_with_secrets_of_its_own_uses_no_others():
    signer = Signer(["everybody", f"{TEAM}:mine"])
    signed = signer.headers(TEAM, 5, b"body")["X-Firecrawl-Signature"]
    assert signed == "sha256=" + digest("mine", b"body")
    signed = signer.headers("somebody", 5, b"body")["X-Firecrawl-Signature"]
    assert signed == "sha256=" + digest("everybody", b"body")


def test_an_empty_secret_is_refused_and_secrets_are_not_shown():
    with pytest.raises(ValueError, match="empty"):
        Signer([f"{TEAM}:"])
    assert "mine" not in repr(Signer(["mine"]))
