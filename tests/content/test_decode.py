from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import zlib

import brotli
import pytest

from scraper_service.content import decode
from scraper_service.content.decode import (
    Unreadable,
    clean_text,
    decode_body,
    decode_start,
    text_of,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BODY = b"<p>plain text</p>" * 50
LIMIT = 10**6


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


PACKERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("name", PACKERS)
def test_encodings_are_undone(name):
    assert decode_body(PACKERS[name](BODY), (name,), LIMIT) == (BODY, None)


def test_raw_deflate_is_undone():
    assert decode_body(raw_deflate(BODY), ("deflate",), LIMIT) == (BODY, None)


def test_gzip_members_are_joined():
    members = gzip.compress(b"a") + gzip.compress(b"b")
    assert decode_body(members, ("gzip",), LIMIT) == (b"ab", None)


def test_bytes_after_the_last_gzip_member_are_ignored():
    assert decode_body(gzip.compress(b"a") + b"junk", ("gzip",), LIMIT) == (b"a", None)


def test_outermost_encoding_is_last():
    body = brotli.compress(gzip.compress(BODY))
    assert decode_body(body, ("gzip", "identity", "br"), LIMIT) == (BODY, None)


@pytest.mark.parametrize("name", ["none", "utf-8", "iso-8859-1", "binary", ""])
def test_unknown_content_encoding_names_leave_the_body_unchanged(name):
    assert decode_body(BODY, (name,), LIMIT) == (BODY, None)
    assert decode_body(gzip.compress(BODY), (name, "gzip"), LIMIT) == (BODY, None)


def test_a_text_with_an_unknown_encoding_stays_unchanged():
    assert decode_body(BODY, ("lzma",), LIMIT) == (BODY, None)
    assert decode_body(BODY, ("gzip", "lzma"), LIMIT) == (BODY, None)
    with pytest.raises(Unreadable, match="unknown content encoding: 'lzma'"):
        decode_body(lzma.compress(BODY), ("lzma",), LIMIT)


def test_empty_body_needs_no_decoding():
    assert decode_body(b"", ("gzip",), LIMIT) == (b"", None)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("name", PACKERS)
def test_the_start_of_a_truncated_stream_is_returned(name):
    body = b"".join(b"<p>%d</p>" % (n * 7919 % 100_003) for n in range(40_000))
    packed = PACKERS[name](body)
    start, fault = decode_body(packed[: len(packed) // 2], (name,), LIMIT)
    assert len(start) > 100_000
    assert body.startswith(start)
    assert fault.startswith(f"is not valid {name}")


def test_a_gzip_stream_without_its_check_sum_is_whole():
    start, fault = decode_body(gzip.compress(BODY)[:-9], ("gzip",), LIMIT)
    assert start == BODY
    assert "truncated" in fault


@pytest.mark.parametrize("name", PACKERS)
def test_garbage_is_an_error(name):
    with pytest.raises(Unreadable, match="not valid"):
        decode_body(b"\x07garbage that is no stream at all", (name,), LIMIT)


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("name", PACKERS)
def test_bombs_end_at_the_limit(name):
    bomb = PACKERS[name](bytes(50 * 2**20))
    with pytest.raises(Unreadable, match="larger than 1000000 bytes"):
        decode_body(bomb, (name,), LIMIT)


@pytest.mark.parametrize("encodings", [("gzip",) * 4, ("gzip",) * 100_000])
def test_strange_encodings_are_refused(encodings):
    with pytest.raises(Unreadable, match="content encoding"):
        decode_body(b"x", encodings, LIMIT)


STARTS = {
    "all": (gzip.compress(BODY), ("gzip",), BODY, None),
    "truncated": (gzip.compress(BODY)[:-9], ("gzip",), BODY, "is not valid gzip"),
    "too large": (zlib.compress(b"x" * LIMIT * 2), ("deflate",), b"x" * LIMIT, "larger"),
    "too large as it is": (b"x" * LIMIT * 2, (), b"x" * LIMIT, "larger"),
    "unknown": (BODY, ("lzma",), b"", "unknown content encoding"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("body", "names", "start", "fault"), STARTS.values(), ids=STARTS
)
def test_start_of_a_damaged_body_is_kept(body, names, start, fault):
    found, reason = decode_start(body, names, LIMIT)
    assert found == start
    assert (fault or "") in (reason or "")
    assert bool(fault) == bool(reason)


CHARSETS = {
    "byte order mark over header": ("\ufeffä".encode(), "text/html; charset=latin1", "ä"),
    "utf-16 by mark": ("\ufeffä".encode("utf-16-le"), "", "ä"),
    "header over meta": (b"<meta charset=utf-8>\xe4", "text/html; charset=latin1", "ä"),
    "latin1 is windows-1252": (b"\x80", "text/html; charset=iso-8859-1", "€"),
    "gb2312 is gb18030": ("镕€".encode("gb18030"), "text/html; charset=gb2312", "镕€"),
    "shift_jis is cp932": ("①髙".encode("cp932"), "text/html; charset=Shift_JIS", "①髙"),
    "euc-kr is cp949": ("똠".encode("cp949"), "text/html; charset=euc-kr", "똠"),
    "meta charset": (b'<meta charset="koi8-r">\xd1', "text/html", "я"),
    "meta http-equiv": (
        b"<meta http-equiv=content-type content='text/html; charset=windows-1251'>\xff",
        "",
        "я",
    ),
    "commented meta is none": (b"<!-- <meta charset=koi8-r> -->\xc3\xa4", "", "ä"),
    "description names a charset": (
        b'<meta name="description" content="Why charset=koi8-r breaks pages">\xc3\xa4', "", "ä",
    ),
    "attribute with a sign": (b'<meta content="a > b" charset=koi8-r>\xd1', "", "я"),
    "after a description": (
        b"<meta property=og:title content='charset=utf-8'><meta charset = 'koi8-r'/>\xd1", "", "я",
    ),
    "first declaration wins": (b"<meta charset=koi8-r><meta charset=utf-8>\xd1", "", "я"),
    "first attribute wins": (b"<meta charset=koi8-r charset=utf-8>\xd1", "", "я"),
    "unknown label and another": (b"<meta charset=no><meta charset=koi8-r>\xd1", "", "я"),
    "refresh is none": (
        b"<meta http-equiv=refresh content='0; url=/?charset=koi8-r'>\xc3\xa4", "", "ä",
    ),
    "content alone is none": (b"<meta content='text/html; charset=koi8-r'>\xc3\xa4", "", "ä"),
    "quoted in content": (
        b"<META CONTENT='text/html; charset=\"koi8-r\"' HTTP-EQUIV=Content-Type>\xd1", "", "я",
    ),
    "in a script": (
        b"<script>w('<meta charset=koi8-r>')</script>\xc3\xa4", "", "ä",
    ),
    "in a title": (b"<title>The tag <meta charset=koi8-r></title>\xc3\xa4", "", "ä"),
    "in a style": (b"<style>/*<meta charset=koi8-r>*/</style>\xc3\xa4", "", "ä"),
    "in an attribute": (
        b"<p title='<meta charset=koi8-r>' data-x=\"<meta charset=koi8-r>\">\xc3\xa4", "", "ä",
    ),
    "of a script": (b"<script charset=koi8-r src=a.js></script>\xc3\xa4", "", "ä"),
    "of a form": (b"<form accept-charset=koi8-r>\xc3\xa4", "", "ä"),
    "in an end tag": (b"</meta charset=koi8-r>\xc3\xa4", "", "ä"),
    "in a declaration": (b"<!x '<meta charset=koi8-r'>\xc3\xa4", "", "ä"),
    "after an empty comment": (b"<!--><meta charset=koi8-r>\xd1", "", "я"),
    "after an open quote": (b"<p title='><meta charset=koi8-r>\xc3\xa4", "", "ä"),
    "meta x-user-defined": (b"<meta charset=x-user-defined>\x80", "", "€"),
    "late in a long head": (
        b"<head><style>" + b"a{}" * 9000 + b"</style><meta charset=koi8-r>\xd1", "", "я",
    ),
    "late in a text": (b"<p>" + b"word " * 2000 + b"<meta charset=koi8-r>\xc3\xa4", "", "ä"),
    "meta over XML declaration": (
        b"<?xml version='1.0' encoding='utf-8'?><meta charset=koi8-r>\xd1", "text/html", "я",
    ),
    "XML declaration of a page": (
        b"<?xml version='1.0' encoding='koi8-r'?><html>\xd1", "text/html", "я",
    ),
    "mark over meta": ("\ufeff<meta charset=koi8-r>ä".encode(), "", "ä"),
    "meta utf-16 means utf-8": ("<meta charset=utf-16>ä".encode(), "", "ä"),
    "unknown label is ignored": ("ä".encode(), "text/html; charset=utf-7", "ä"),
    "x-user-defined is windows-1252": (b"\x80", "text/html; charset=x-user-defined", "€"),
    "utf-8 is detected": ("größer".encode(), "", "größer"),
    "others are detected": ("Съешь ещё этих мягких французских булок".encode("cp1251"), "", "булок"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "header", "end"), CHARSETS.values(), ids=CHARSETS)
def test_character_sets_are_detected_as_in_browsers(body, header, end):
    assert text_of(body, header).endswith(end)


def test_only_markup_declares_its_character_set():
    text = "A page starts with <meta charset=koi8-r>. Größe zählt."
    assert text_of(text.encode(), "text/plain", "text") == text
    assert text_of(f'["{text}"]'.encode(), "application/json", "json")[2:-2] == text


@pytest.mark.parametrize(
    "piece",
    ["<meta charset=no ", "<meta a='", "<!--", "<", "</", "<title>", "a=", "charset ="],
)
def test_malformed_meta_tags_declare_no_encoding(piece):
    body = f"<meta {piece * 50_000}".encode()
    assert text_of(body, "text/html") == body.decode()


def test_shift_jis_is_detected():
    text = "これは日本語の文章です。文字コードは宣言されていません。" * 5
    assert text_of(text.encode("cp932"), "text/html") == text


LEGACY = {
    "windows-1251": "Съешь ещё этих мягких французских булок, да выпей чаю. ",
    "koi8-r": "Съешь ещё этих мягких французских булок, да выпей чаю. ",
    "windows-1252": "Der Bürgermeister größerer Städte hört täglich über Öl und Äpfel. ",
    "shift_jis": "これは日本語の文章です。文字コードは宣言されていません。",
    "euc_kr": "이것은 한국어로 쓴 글입니다. 문자 집합은 선언되지 않았습니다. ",
    "gb18030": "这是一篇用中文写的文章。没有声明所用的字符集。",
}


@pytest.mark.parametrize("codec", LEGACY)
@pytest.mark.parametrize("is_installed", [True, False], ids=["chardetng", "without"])
def test_undeclared_character_sets_are_detected_with_either_library(
    monkeypatch, codec, is_installed
):
    if not is_installed:
        monkeypatch.setattr(decode, "chardetng_py", None)
    elif decode.chardetng_py is None:
        pytest.skip("chardetng-py has no wheel for this platform")
    text = LEGACY[codec] * 3
    assert text_of(text.encode(codec), "text/plain", "text") == text


def test_pages_are_decoded_where_chardetng_cannot_be_imported():
    code = (
        "import sys; sys.modules['chardetng_py'] = None\n"
        "from scraper_service.content.decode import text_of\n"
        f"assert text_of({'größer als üblich'.encode('cp1252')!r}, 'text/html')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_xml_declaration_counts():
    body = "<?xml version='1.0' encoding='windows-1251'?><a>я</a>".encode("cp1251")
    assert text_of(body, "application/xml", "xml").endswith("<a>я</a>")


def test_clean_text_has_no_nul_or_lone_surrogate():
    assert clean_text("a\0b\ud800c\U0001f600") == "abc\U0001f600"
