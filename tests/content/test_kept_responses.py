"""Responses that jobs keep: converter processes compress them."""

from __future__ import annotations

import gzip

import pytest

from scraper_service.content.convert import render
from scraper_service.content.stored_pages import (
    archive_row,
    compress,
    content_from_wire,
    decompress,
    pack,
    read_archive_row,
)
from scraper_service.items import KeptResponse
from tests.content.pages import options
from tests.content.pages import source as source_of

HTML = b"<!DOCTYPE html><title>A</title><p>Some text of a page." * 50
ZIPPED = gzip.compress(HTML, mtime=0)


def converted(body: bytes, **changes: object):
    source = source_of(body=body, **changes)
    return content_from_wire(*render(source, options("markdown")))


def test_a_converter_compresses_the_body_of_a_page():
    content = converted(HTML, pack_body=True)
    assert decompress(content.packed) == HTML
    assert set(content.values) == {"markdown"}


@pytest.mark.parametrize(
    "changes",
    [
        {"body": HTML},
        {"body": ZIPPED, "content_encodings": ("gzip",), "pack_body": True},
        {"body": b"\x00\xff" * 99, "content_type": "x/y", "pack_body": True},
    ],
    ids=["not asked for", "encoded by the site", "no page"],
)
def test_other_bodies_are_not_compressed(changes):
    assert converted(**changes).packed == b""


@pytest.mark.parametrize("is_packed", [True, False], ids=["converter", "nobody yet"])
def test_a_stored_response_is_equal_with_and_without_a_compressed_body(is_packed):
    kept = KeptResponse(
        url="https://a.example/",
        at=1.5,
        engine="http",
        head=b"HTTP/1.1 200 OK\r\n\r\n",
        body=HTML,
        packed=compress(HTML) if is_packed else b"",
    )
    row = archive_row(compress(b'{"a": 1}'), pack(kept))
    page, read = read_archive_row(row)
    assert page == {"a": 1}
    assert (read.url, read.at, read.head, read.body) == (
        kept.url,
        kept.at,
        kept.head,
        HTML,
    )
