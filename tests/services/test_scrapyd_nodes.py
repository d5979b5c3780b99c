"""Addresses of nodes, with and without a password."""

from __future__ import annotations

from base64 import b64decode

import pytest

from scraper_service.services.scrapyd.runner import read_address, read_addresses


@pytest.mark.parametrize(
    ("text", "name", "password"),
    [
        ("http://127.0.0.1:6800", "http://127.0.0.1:6800", ""),
        (" https://node.example/scrapyd/ ", "https://node.example/scrapyd", ""),
        ("http://me:secret@10.0.0.5:6800/", "http://10.0.0.5:6800", "me:secret"),
        ("http://me:a%40b%3A@[::1]:6800", "http://[::1]:6800", "me:a@b:"),
    ],
)
def test_a_node_url_is_shown_without_its_password(text, name, password):
    found, headers = read_address(text)
    assert found == name
    kind, _, pair = headers.get("Authorization", "").partition(" ")
    assert kind == ("Basic" if password else "")
    assert b64decode(pair).decode() == password


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.5:6800", "must have URLs such as"),
        ("ftp://10.0.0.5", "must have URLs such as"),
        ("http://", "must have URLs such as"),
        ("http://10.0.0.5:port", "must have URLs such as"),
        ("http://only-a-user@10.0.0.5:6800", "user and password go together"),
    ],
)
def test_an_invalid_node_url_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        read_address(text)


def test_a_refusal_names_no_password():
    with pytest.raises(ValueError, match="SCRAPYD_NODES") as caught:
        read_address("http://me:secret@10.0.0.5:99999")
    assert "secret" not in str(caught.value)


def test_there_has_to_be_a_node():
    with pytest.raises(ValueError, match="must name a node"):
        read_addresses(["", " "])
