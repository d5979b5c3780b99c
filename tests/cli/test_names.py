"""File names of pages: good everywhere, one for each page, the same every time."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_service.exports.markdown_zip import MAX_NAME_BYTES, RESERVED, PageNames

ADDRESSES = st.one_of(
    st.text(max_size=400),
    st.text(max_size=400).map(lambda rest: f"http://example.org/{rest}"),
    st.from_regex(r"https?://[a-zA-Z.]{1,9}/([a-bA-B./%-]|%2e|%2F|%00|é|É){0,12}"),
    st.sampled_from(sorted(RESERVED)).map(lambda name: f"http://{name}.org/{name}"),
)


@given(st.lists(ADDRESSES, max_size=30))
def test_names_are_safe_everywhere_and_differ(urls):
    names = [(given := PageNames(("index.md",))).name(url) for url in urls[:1]]
    names += [given.name(url) for url in urls[1:]]
    for name in names:
        assert name.endswith(".md")
        assert len(name.encode()) <= MAX_NAME_BYTES + 30
        assert name[0] not in ".- "
        assert not set(name) & set('/\\:*?"<>|\0 \n\r\t')
        assert ".." not in name
        assert name.isprintable()
        assert name.partition(".")[0].casefold() not in RESERVED
    for form in ("NFC", "NFD", "NFKC"):
        folded = {unicodedata.normalize(form, name).casefold() for name in names}
        assert len(folded) == len(names)
    assert "index.md" not in {name.casefold() for name in names}
    again = PageNames(("index.md",))
    assert [again.name(url) for url in urls] == names


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://example.org", "example.org.md"),
        ("https://example.org/docs/intro.html", "example.org-docs-intro.md"),
        ("https://example.org/a?page=2&q=x%20y", "example.org-a-page-2-q-x-y.md"),
        ("https://example.org/../../etc/passwd", "example.org-etc-passwd.md"),
        ("https://example.org/%2e%2e%2f%2e%2e%2fetc", "example.org-etc.md"),
        ("https://user:secret@example.org:8080/", "example.org-8080.md"),
        ("https://example.org/größe", "example.org-größe.md"),
        ("https://example.org/gr%C3%B6%C3%9Fe", "example.org-größe.md"),
        ("https://example.org/docs/#/guide/start", "example.org-docs-guide-start.md"),
        ("https://example.org/docs#part", "example.org-docs.md"),
        ("http://con/", "_con.md"),
        ("http://aux.example/x", "_aux.example-x.md"),
    ],
)
def test_a_file_name_is_derived_from_the_url(url, name):
    assert PageNames().name(url) == name


@given(st.lists(ADDRESSES, max_size=30))
def test_paths_are_safe_everywhere_and_differ(urls):
    given = PageNames(("index.jsonl",))
    paths = [given.path(url) for url in urls]
    folders = set()
    for path in paths:
        host, *above, name = path.split("/")
        assert name.endswith(".md")
        assert len(path.encode()) <= 3 * MAX_NAME_BYTES + 30
        for part in (host, *above, name):
            assert part[0] not in ".- "
            assert part[-1] not in ". "
            assert not set(part) & set('\\:*?"<>|\0 \n\r\t')
            assert part.partition(".")[0].casefold() not in RESERVED
        folders |= {"/".join([host, *above][:n]).casefold() for n in range(1, 9)}
    for form in ("NFC", "NFD", "NFKC"):
        folded = {unicodedata.normalize(form, path).casefold() for path in paths}
        assert len(folded) == len(paths)
        assert not folded & folders


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://example.org", "example.org/index.md"),
        ("https://example.org/docs/", "example.org/docs.md"),
        ("https://example.org/docs/intro.html", "example.org/docs/intro.md"),
        ("https://example.org/a.md/b?q=1", "example.org/a.md-/b-q-1.md"),
        ("https://example.org/../../etc/passwd", "example.org/etc/passwd.md"),
        ("https://example.org/%2e%2e%2f%2e%2e%2fetc", "example.org/etc.md"),
        ("http://con/aux/nul", "_con/_aux/_nul.md"),
    ],
)
def test_a_file_path_is_derived_from_the_url(url, path):
    assert PageNames().path(url) == path
