"""What is compiled gives what the same code in Python gives."""

from __future__ import annotations

import html
import pkgutil
import shutil
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import asdict
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper_service.content import passes
from scraper_service.content.convert import make_content
from scraper_service.content.html.document import parse
from scraper_service.content.html.hidden_text import HidingRules
from scraper_service.content.main_content import reduction
from scraper_service.content.main_content.blocks import Tables, Walk
from scraper_service.content.main_content.model import (
    KINDS,
    Model,
    model,
    structure_signs,
    table,
)
from scraper_service.content.markdown.writer import markdown
from scraper_service.content.metadata.marks import Marks
from scraper_service.content.passes import compiled, python_forms
from scraper_service.content.words import main_words
from scraper_service.items import PageSource
from tests.content.pages import URL, options
from tests.support.waiting import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_compiled = pytest.mark.skipif(compiled is None, reason="nothing is compiled here")
SAMPLES = sorted((Path(__file__).parents[1] / "samples").rglob("*.html"))

ODD = """<html><head><title>T</title><base href="/b/"><main><h1 id=x>One<h1>Two</main>
<style>.gone{display:none} #own{visibility:hidden}</style></head>
<body id=top role=main class="a B-c"> \xa0 <p class=gone>No <b>one</b> sees<p id=own>this
<span style="display: block">a<i>b</i>c</span><p hidden>x<p hidden=until-found>y
<div class="sr-only">read aloud</div><div class="post-meta author">by Ada Lovelace
<time datetime=2024-05-06>May 2024</time></div><a rel=author href=/author/ada>Ada</a>
<a href=" https://x.example/ ">1</a><a href=HTTP://x.example/>2</a><a href=#f>3</a>
<a href=https://x.example/é>4</a><a href>5</a><a href="javascript:x()">6</a><a>7</a>
<a href="https://x.example/a b">8</a><a href=https://x.example/ok>9 [!] *x*</a>
<img src=data:image/gif;base64,AA data-src=/l.png><img src=https://x.example/i.png>
<p itemscope itemtype=https://x.example/Thing><img src=/p.png alt="Two  red doors"><img
src=/p.png alt="Two  red doors"><img class="x TeX" src=/f.png alt="x^2"><img src="/a b.png"
alt="*x* [y]"><img src=/1.png width=1 height=1><img src=/2.png alt=" "><a href=/i><img
src=/3.png alt=door></a><div class="Admonition tip" id=Cookie-Consent>a tip</div>
<ul><li itemprop=item class=Card><a href=/1>Uno, dos. Tres: </a>quatro!</li><li>五、六。</li></ul>
<table role=navigation><tr><td>1<td>2</table><o:p>odd</o:p><svg><title>t</title></svg>
<script type=math/tex>x^2</script><noscript>no</noscript><select><option>o</select>
<iframe srcdoc="&lt;p&gt;in &lt;b&gt;it&lt;/b&gt;&lt;script&gt;1&lt;/script&gt;"></iframe>
<div data-testid=product-card>a <b>b</b> <i>c</i>\n<u>d</u></div><nav><ul><li>x
<main aria-label="Related products">m</main></ul></nav><div aria-label=comments>c</div>
<p>By <a itemprop="url author" href=/bo>Bo</a><a rel="next author" href=/c>C</a></p>
<p>\xa0by<i>20</i>1920<b>by20</b>\xa0By</p>
<article><b class=author>x</b><footer><i class=author>Di</i></footer></article>
<footer><i class=author>Ed</i></footer>
tail (one) : two  three\ttwo<br><br>four \\[x\\] \u200b\xad \U0001f600</body></html>
"""


read_model = model.__wrapped__
FORMS = [
    import_module(f"{passes.__name__}.{name}")
    for _, name, _ in pkgutil.iter_modules(passes.__path__)
    if name != "_compiled"
]


@contextmanager
def in_python() -> Iterator[None]:
    """Do without what is compiled."""
    forms = {
        name: next(vars(each)[name] for each in FORMS if name in vars(each))
        for name in passes.__all__
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("scraper_service.") and module is not compiled:
                for own, form in forms.items():
                    if vars(module).get(own) is getattr(compiled, own):
                        patch.setattr(module, own, form)
                if vars(module).get("model") is model:
                    patch.setattr(module, "model", model_in_python)
        patch.setattr(sys.modules[__name__], "model", model_in_python)
        yield


@cache
def model_in_python() -> Model:
    """Return the model with tables of Python; first called in :func:`in_python`."""
    return read_model()


def _made(html: str) -> list[Any]:
    source = PageSource(
        url=URL,
        status=200,
        body=html.encode(errors="replace"),
        content_type="text/html; charset=utf-8",
    )
    return [
        asdict(make_content(source, options("markdown", "links", "html", **changes)))
        for changes in ({"only_main_content": True}, {"only_main_content": False})
    ]


@pytest.mark.full(keep=3)
@needs_compiled
@pytest.mark.parametrize(
    "html",
    [
        ODD,
        "",
        "<p>",
        *(p.read_text(encoding="utf-8", errors="replace") for p in SAMPLES),
    ],
)
def test_a_page_is_the_same_either_way(html: str) -> None:
    quick = _made(html)
    with in_python():
        assert quick == _made(html)


TAGS = "p div span a b li ul td table tr h1 h2 pre code em br img nav section time x:y"
NAMES = [
    "comment-list",
    "NavBar",
    "author",
    "sr-only",
    "headerlink",
    "gone",
    "x",
    "a b",
    "é",
    "",
    "a-12 b_3f c-4g",
    "a-7",
    "ABc",
]
TEXTS = [
    "",
    " ",
    "\n",
    "one two",
    "By Ann",
    "in 2024, yes. ",
    "\xa0",
    "語",
    "a  b",
    "*[x]",
    "(",
]


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> str:
    tag = draw(st.sampled_from(TAGS.split()))
    given = "".join(
        f' {name}="{draw(st.sampled_from(NAMES))}"'
        for name in draw(
            st.lists(
                st.sampled_from(
                    "class id role itemprop style hidden href src title".split()
                ),
                max_size=3,
                unique=True,
            )
        )
    )
    inside = draw(st.sampled_from(TEXTS))
    if depth:
        for child in draw(st.lists(trees(depth - 1), max_size=3)):
            inside += child + draw(st.sampled_from(TEXTS))
    return f"<{tag}{given}>{inside}</{tag}>"


@pytest.mark.full
@needs_compiled
@settings(max_examples=60, deadline=None)
@given(trees())
def test_each_pass_is_the_same_either_way(html: str) -> None:
    document = parse(f"<style>.gone {{display: none}}</style>{html}", URL)
    body = document.body

    def all_of_it() -> list[Any]:
        walk = Walk(body, model().tables)
        made = table(walk, [1 / len(KINDS)] * len(KINDS)) if len(walk.blocks) else None
        halves = [bool(number % 3) for number in range(len(walk.blocks))]
        marks = Marks(body)
        return [
            asdict(walk.nodes, recurse=False)
            | {"scores": [(x.low, x.high, x.rows) for x in walk.nodes.scores]},
            asdict(walk.blocks, recurse=False),
            walk.elements,
            walk.find_dropped(halves),
            walk.find_dropped(halves, picture="a", lead=9),
            structure_signs(walk, model().class_parts),
            made and [made.values.tolist(), made.group.tolist(), made.end.tolist()],
            made and [round(score, 9) for score in model().forest.score(made).tolist()],
            passes.partly_kept(
                walk.nodes,
                walk.nodes.path,
                walk.blocks.words,
                halves,
                by_parent=False,
                least=2,
                most=5,
                max_words=20,
            ),
            [list(marks.authors), marks.dates, marks.bylines, marks.dated],
            HidingRules(list(document.root.iter("style"))).find_hidden(body),
            list(passes.elements(document.root, "a", "span", "li")),
            passes.classed(body, reduction._is_mark, reduction.MARKS, "a", "span"),
            passes.values_in(body, "a", "href"),
            main_words(document),
            passes.visible_text(body, {"li", "b"}, 30),
            passes.plain_shapes(walk.shapes),
            list(passes.texts_in(body)),
            [passes.Finder("b", "li")(element) for element in body.iter()],
            markdown(document, remove_base64_images=True),
        ]

    quick = all_of_it()
    with in_python():
        assert passes.elements is python_forms.elements
        assert quick == all_of_it()


@pytest.mark.full
@needs_compiled
@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=" ab(:\\`*_<&~[]!\n\t\xa0é語\U0001f600", max_size=6))
def test_a_text_is_written_the_same_either_way(text: str) -> None:
    document = parse(f"<p>x<b>{html.escape(text)}</b>{html.escape(text)}", URL)

    def made() -> str:
        return markdown(document, remove_base64_images=True)

    quick = made()
    with in_python():
        assert quick == made()


WORDS = ["read", "more", "comment", "é", "nav", "bar", "abc", "by", "next page", "a1"]


@pytest.mark.full
@needs_compiled
@settings(max_examples=300, deadline=None)
@given(
    st.text(alphabet="aAbBcCdDmMoOrReEnNvV12 -_.\n\x1c\xa0é語İ", max_size=30)
    | st.lists(st.sampled_from(WORDS)).map("-".join)
    | st.lists(st.sampled_from(WORDS)).map(" ".join)
    | st.text(alphabet="ab ", min_size=195, max_size=205)
)
def test_words_are_found_the_same_either_way(text: str) -> None:
    def looked_up() -> list[Any]:
        numbers = {word: float(number) for number, word in enumerate(WORDS)}
        page = parse("<body>" + html.escape(text), URL)
        own = Tables(
            names=dict.fromkeys(WORDS[:4], 1.0) | {"bar": -1.0},
            kind_names={word: [1.0] * 5 for word in WORDS[3:]},
            phrases=numbers,
            words=numbers,
            tags={},
        )
        blocks = Walk(page.body, own).blocks
        scores = own.name_scores.of(text)
        found = scores.low, scores.high, scores.rows
        return [passes.name_parts(text), found, blocks.first, blocks.phrase]

    quick = looked_up()
    with in_python():
        assert quick == looked_up()


@pytest.mark.full
@needs_compiled
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["http://h", "https://h", "HTTP://h", "//h", "/", "/a", "#", "a"]),
    st.text(alphabet="aB1./\\?#;é~ \n", max_size=8),
)
def test_kinds_of_urls_are_the_same_either_way(start: str, rest: str) -> None:
    quick = passes.url_kind(start + rest)
    with in_python():
        assert quick == passes.url_kind(start + rest)


def test_the_package_works_where_nothing_is_compiled() -> None:
    code = (
        "import sys; sys.modules['scraper_service.content.passes._compiled'] = None\n"
        "from scraper_service.content import passes\n"
        "from scraper_service.content.html.document import parse\n"
        "from scraper_service.content.markdown.writer import markdown\n"
        "assert passes.compiled is None\n"
        "page = parse('<p>a <b>b</b>', 'https://site.example/')\n"
        "assert markdown(page, remove_base64_images=True) == 'a **b**'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S)


@pytest.mark.full
@needs_compiled
def test_what_was_compiled_of_other_sources_is_left_alone_and_named_at_the_start(
    tmp_path: Path,
) -> None:
    package = Path(passes.__file__).parents[2]  # scraper_service
    shutil.copytree(package, tmp_path / package.name)
    code = "from scraper_service.content import passes; print(bool(passes.compiled))"

    def is_used() -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            timeout=WAIT_S,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    assert is_used() == "True"
    (source,) = tmp_path.rglob("page_walk.py")
    source.write_text(source.read_text() + "\n# newer\n")
    assert is_used() == "False"
    command = "-m scraper_service serve --port 0 --data-dir data"
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, *command.split()],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as service,
    ):
        assert service.stdout
        assert service.stdout.readline().startswith(b"listening on ")
        service.terminate()
    lines = (tmp_path / "log").read_text().splitlines()
    (line,) = (line for line in lines if "extension" in line)
    assert "does not fit (its sources have changed)" in line


TREES = """
import resource
from lxml import etree
from scraper_service.content.passes import keep_trees_together

kept = etree.HTML("<p>kept " + "word " * 3)  # of memory from before
assert keep_trees_together() and keep_trees_together()
page = "<div class='a'><p id='x'>one <b>two</b> three</p>four</div>" * 2_000
page += "".join(f"<p>{'5 &lt; 6 &amp; ' * number}</p>" for number in range(200))
whole = etree.tostring(etree.HTML(page))
del kept


def fill() -> int:
    for _ in range(30):
        tree = etree.HTML(page)
        assert etree.tostring(tree) == whole
        for number, part in enumerate(tree.iter("p")):  # longer texts, in no order
            part.set("class", "n" * (number % 900))
            part.tail = "t" * (7 * number % 900)
            if number % 3:
                part.getparent().remove(part)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


fill()
many = [etree.HTML(page) for _ in range(20)]  # more than there are chunks
assert all(etree.tostring(tree) == whole for tree in many)
del many[::2]
before = fill()
assert fill() - before < 4_000, "kB"
"""


@pytest.mark.full
@needs_compiled
def test_memory_of_trees_is_used_again() -> None:
    grows = TREES + "first = fill()\nassert fill() - first < 4_000, 'kB'\n"
    subprocess.run([sys.executable, "-c", grows], check=True, timeout=WAIT_S)
