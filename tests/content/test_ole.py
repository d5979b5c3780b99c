"""Word and PowerPoint files of before 2007; LibreOffice has written the samples."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import pytest

from scraper_service.content.documents.files import KINDS
from tests.content import officemaker
from tests.content.pages import convert, value
from tests.content.test_documents import STREAM, facts, read, refusal

pytestmark = pytest.mark.skipif(
    not KINDS["doc"].is_available, reason="the extra office is not installed"
)
SAMPLES = Path(__file__).parents[1] / "samples" / "office"


def sample(name: str) -> bytes:
    return gzip.decompress((SAMPLES / f"{name}.gz").read_bytes())


def changed(body: bytes, at: int, new: bytes) -> bytes:
    return body[:at] + new + body[at + len(new) :]


def locked_word() -> bytes:
    body = sample("tides.doc")
    return changed(body, body.index(b"\xec\xa5\1\1") + 11, b"\1")


def locked_slides() -> bytes:
    body = sample("tides.ppt")
    return changed(body, body.index(b"\x5f\xc0\x91\xe3"), b"\xdf\xc4\xd1\xf3")


def long_stream() -> bytes:
    """Return a file that claims a stream of 4 GiB, which anydoc would allocate."""
    body = sample("plain.doc")
    return changed(body, body.index("1Table".encode("utf-16-le")) + 120, b"\xff" * 4)


def many_lists() -> bytes:
    """Return a file that claims 4 billion lists, which anydoc would allocate."""
    olefile = pytest.importorskip("olefile")
    body = sample("tides.doc")
    file = olefile.OleFileIO(io.BytesIO(body))
    header, table = (file.openstream(n).read() for n in ("WordDocument", "1Table"))
    at = int.from_bytes(header[0x2EA:0x2EE], "little")
    return changed(body, body.index(table[at : at + 64]), b"\xff" * 4)


WORD = """\
# Harbour

High **water** at *four*, see [the page](https://x.example/a)[^1].

- one
- two
  - inner

1. first
2. second

| Wide |  | Right |
| --- | --- | --- |
| Tall | b | c |
|  | e | f |

Where holds.

Seen. Hidden. Grüße, 日本語 😀.

A picture:

[^1]: A note of some words."""
SLIDES = """\
Harbour

- first item
- second item
  - inner item

> Notes:
>
> Spoken words.

Tides of **May**, see the page.

Wide

Right

a1

b2

c3

Hidden slide."""


@pytest.mark.parametrize("mime", ["application/msword", STREAM, "text/html"])
def test_word_files(mime):
    content = read(sample("tides.doc"), "markdown", "html", "links", content_type=mime)
    assert value(content, "markdown") == WORD
    assert '<th colspan="2">Wide</th>' in value(content, "html")
    assert '<td rowspan="2">Tall</td>' in value(content, "html")
    assert value(content, "links") == ["https://x.example/a"]
    assert facts(content) == {"title": "Tide tables"}
    assert content.other == {"author": "A. Writer"}


def test_parts_of_word_files_that_are_not_read_are_named():
    content = read(sample("tides.doc"))
    losses = {found["kind"]: found["count"] for found in content.losses}
    assert losses == {"annotation": 1, "formula": 1, "image": 1, "unreadableText": 1}
    warning = "Hidden or deleted text of the .doc file is part of its text."
    assert content.warnings == (warning,)


def test_a_word_file_of_text_only_has_no_losses():
    content = read(sample("plain.doc"))
    assert value(content, "markdown") == "# Harbour\n\nOnly text."
    assert (content.losses, content.warnings) == ((), ())


def test_presentations():
    content = read(sample("tides.ppt"))
    assert value(content, "markdown") == SLIDES
    assert facts(content) == {"title": "Tide tables"}


def test_parts_of_presentations_that_are_not_read_are_named():
    content = read(sample("tides.ppt"))
    losses = {found["kind"]: found["count"] for found in content.losses}
    assert losses == {"image": 1, "table": 1}
    assert content.warnings == (
        "Hidden slides of the .ppt file are part of its text: 1.",
        "Links of .ppt files are converted without their URLs: 1.",
    )


REFUSED = {
    "encrypted Word": (locked_word, "encrypted with a password"),
    "encrypted slides": (locked_slides, "encrypted with a password"),
    "a long stream": (long_stream, "it is damaged"),
    "many lists": (many_lists, "it is damaged"),
    "streams of zeros": (
        lambda: changed(sample("tides.doc"), 512, bytes(9000)),
        "it is",
    ),
    "no streams": (lambda: officemaker.ole("PowerPoint Document"), "it is damaged"),
}


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=REFUSED)
def test_an_unreadable_ole_file_is_an_error_that_names_the_reason(make, reason):
    assert reason in refusal(make())


@pytest.mark.full(keep=4)
@pytest.mark.parametrize("name", ["tides.doc", "tides.ppt"])
@pytest.mark.parametrize("seed", range(10))
def test_changed_bytes_end_in_text_or_in_a_clear_error(name, seed):
    chance = random.Random(seed)
    for _ in range(20):
        body = bytearray(sample(name))
        for _ in range(chance.choice((1, 5, 50))):
            body[chance.randrange(512, len(body))] = chance.randrange(256)
        error = convert(bytes(body), "markdown", content_type=STREAM).error
        assert error is None or error.code == "SCRAPE_UNSUPPORTED_FILE_ERROR"
