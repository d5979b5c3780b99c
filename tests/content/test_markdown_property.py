"""What holds for the Markdown of any page: its words, in order, and its structure."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lxml import html

from scraper_service.content.convert import make_content
from tests.content.pages import markdown, options, source, value

CORPORA = Path(__file__).parents[3] / "shared" / "corpora.tar.xz"
SCORERS = CORPORA.parent / "quality"
LEAST_KEPT = 0.96  # of the examples, which return as the same tree

INLINE = st.sampled_from(
    "a b strong i em del code span sup sub q kbd button u math".split()
)
BLOCK = st.sampled_from(
    "p div ul ol li blockquote h1 h3 pre table tr td th dl dt dd section details "
    "summary figure figcaption a b em span".split()
)
WORD = st.text("abcäß漢א", min_size=1, max_size=3)
SIGNS = st.sampled_from("* _ ` ~~ [ ](x) ! # 1. - > | &lt; &amp; \\ + : = $".split())
TEXT = st.lists(WORD | SIGNS, min_size=1, max_size=4).map(" ".join) | WORD


def element(tags, inner):
    return st.builds(
        lambda tag, parts: f"<{tag}{' href=x' * (tag == 'a')}>{''.join(parts)}</{tag}>",
        tags,
        st.lists(inner, max_size=4),
    )


SPANS = st.recursive(TEXT, lambda inner: element(INLINE, inner), max_leaves=8)
PAGES = element(
    BLOCK, st.recursive(SPANS, lambda inner: element(BLOCK, inner), max_leaves=12)
)


def words(text):
    return re.findall(r"[^\W\d_]+", text)


def follow(expected, found):
    """Tell whether the letters stand in ``found`` in this order."""
    rest = iter(found)
    return all(letter in rest for letter in expected)


@given(PAGES)
def test_all_words_appear_in_order(page):
    tree = html.fragment_fromstring(page, create_parent="body")
    assume_no_copy_button(tree)
    text = "".join(words(tree.text_content()))
    assert follow(text, "".join(words(markdown(page))))


@given(SPANS)
def test_text_comes_back_as_it_was(page):
    parser = pytest.importorskip("markdown_it").MarkdownIt(
        "commonmark", {"html": True, "maxNesting": 200}
    )
    parser.enable(["table", "strikethrough"])
    again = html.fragment_fromstring(
        parser.render(markdown(f"<p>.{page}")), create_parent="body"
    )
    before = html.fragment_fromstring(f"<p>.{page}", create_parent="body")
    assume_no_copy_button(before)
    if next(before.iter("math"), None) is None:
        assert letters(again) == letters(before)


def assume_no_copy_button(tree):
    """Leave out pages with a button in code: it is no part of the text."""
    assume(not tree.xpath("//*[self::code or self::pre]//button"))


def letters(tree):
    """Return the text without space, and without the quotation marks of ``q``."""
    return re.sub(r"[\s\u201c\u201d]", "", tree.text_content())


# The scorers leave the files open which they read.
@pytest.mark.full(keep=1)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("name", ["commonmark-spec", "gfm-spec"])
def test_examples_of_the_specification_come_back(name, monkeypatch, tmp_path):
    pytest.importorskip("markdown_it")
    if not CORPORA.exists():
        pytest.skip(f"the specifications are not there: {CORPORA}")
    monkeypatch.syspath_prepend(SCORERS)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    from qcommon import md_to_html
    from score_fidelity import canon, spec_examples

    with tarfile.open(CORPORA) as archive:
        member = archive.extractfile(f"corpora/markdown-specs/{name}.txt")
        text = io.TextIOWrapper(member, "utf8").read()
    path = tmp_path / "spec.txt"
    path.write_text(text)
    examples = [e for e in spec_examples(path) if is_plain(e)]
    same = [
        canon(e["html"]) == canon(md_to_html(without_base(e["html"]))) for e in examples
    ]
    assert len(same) > 500
    assert sum(same) / len(same) >= LEAST_KEPT


def without_base(page):
    """Return the Markdown of a page whose addresses stay as they are written."""
    content = make_content(source(page, url="", find_links=False), options("markdown"))
    return value(content, "markdown")


def is_plain(example):
    """Tell examples of Markdown from those of HTML in it."""
    kept = "p h\\d em strong code pre a img ul ol li blockquote hr br table thead tbody"
    tags = rf"<(?!/?(?:{kept.replace(' ', '|')}|tr|td|th|del|input)\b)"
    return "HTML" not in example["sec"] and not re.search(tags, example["html"])
