from __future__ import annotations

from pathlib import Path

import pytest

from tests.content.pages import markdown

SAMPLES = Path(__file__).parent.parent / "samples"

BASE = "https://site.example/dir/"

CASES = {
    "table after text is its own paragraph with outer pipes": (
        "text<table><tr><th>a<th>b<tr><td>1<td>2</table>tail",
        "text\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\ntail",
    ),
    "caption stands before its table": (
        "<table><caption>Cap</caption><tr><th>a<th>b<tr><td>1<td>2</table>",
        "Cap\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "paragraphs, breaks and pipes stay in their cell": (
        "<table><tr><th>a<th>b<tr><td><p>1</p><p>2</p><td>x|y<br>z</table>",
        "| a | b |\n| --- | --- |\n| 1<br>2 | x\\|y<br>z |",
    ),
    "spanning cells keep the columns": (
        "<table><tr><th colspan=2>a<th>b<tr><td rowspan=2>1<td>2<td>3<tr><td>4<td>5</table>",
        "| a |  | b |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n|  | 4 | 5 |",
    ),
    "the first row is the header of a table without one": (
        "<table><tr><td><b>a</b><td><b>b</b><tr><td>1<td>2</table>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "a table of one column is layout": ("<table><tr><td>a<tr><td>b</table>", "a\n\nb"),
    "nested tables flatten the outer one": (
        "<table><tr><td>x<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>",
        "x\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "a table in a list item is indented": (
        "<ul><li>i<table><tr><th>a<th>b<tr><td>1<td>2</table></ul>",
        "- i\n\n  | a | b |\n  | --- | --- |\n  | 1 | 2 |",
    ),
    "pre is fenced with the language of its code": (
        "<pre><code class='hl language-python'>a = 1\n\n  b</code></pre>",
        "```python\na = 1\n\n  b\n```",
    ),
    "language of highlight-source on the parent": (
        "<div class='highlight highlight-source-shell'><pre>ls</pre></div>",
        "```shell\nls\n```",
    ),
    "language of brush": ("<pre class='brush: js; x'>y</pre>", "```js\ny\n```"),
    "language of lang on pre": ("<pre class=lang-c>y</pre>", "```c\ny\n```"),
    "the fence is longer than what is inside": (
        "<pre>```\nx</pre>",
        "````\n```\nx\n````",
    ),
    "br in pre is a newline": ("<pre>a<br>b</pre>", "```\na\nb\n```"),
    "pre keeps what looks like Markdown": ("<pre># *a* &lt;b&gt;</pre>", "```\n# *a* <b>\n```"),
    "second block of an item is indented": (
        "<ol><li><p>a</p><p>b</p><li><p>c</p></ol>",
        "1. a\n\n   b\n\n2. c",
    ),
    "pre in an item is indented": (
        "<ul><li>a<pre>x\n\ny</pre></ul>",
        "- a\n\n  ```\n  x\n\n  y\n  ```",
    ),
    "tight nested lists": (
        "<ul><li>a<ul><li>b<ol><li>c</ol></ul><li>d</ul>",
        "- a\n  - b\n    1. c\n- d",
    ),
    "a list put straight into a list": (
        "<ul><li>a</li><ul><li>b</li></ul></ul>",
        "- a\n  - b",
    ),
    "numbers of two digits align": (
        "<ol start=9><li>a<p>b</p><li>c<p>d</p></ol>",
        "9. a\n\n   b\n\n10. c\n\n    d",
    ),
    "neighbouring lists stay apart": (
        "<ul><li>a</ul><ul><li>b</ul>",
        "- a\n\n* b",
    ),
    "neighbouring lists with space between": (
        "<ol><li>a</ol>\n<ol start=3><li>b</ol>",
        "1. a\n\n3) b",
    ),
    "task boxes": (
        "<ul><li><input type=checkbox checked> a<li><input type=checkbox> b</ul>",
        "- [x] a\n- [ ] b",
    ),
    "task boxes that a page cannot change": (
        ("<ul><li><input type=checkbox id=t class=task-list-item-checkbox> a"
        "<li><input type=checkbox name=u disabled> b</ul>"),
        "- [ ] a\n- [ ] b",
    ),
    "boxes that open menus": (
        "<ul><li><input type=checkbox id=m checked><label for=m>a</label></ul>",
        "- a",
    ),
    "definition lists": ("<dl><dt>t<dd>d</dl>", "t\n: d"),
    "code with backticks": ("a <code>x`y</code>", "a ``x`y``"),
    "code is not escaped": ("<code>*a* &lt;b&gt; [x](y)</code>", "`*a* <b> [x](y)`"),
    "a link inside code goes around it": (
        "<code><a href=/x>f()</a></code>",
        "[`f()`](https://site.example/x)",
    ),
    "emphasis inside code is text": ("<code><b>f</b>()</code>", "`f()`"),
    "inner newlines of links": ("<a href=x>a\n  b</a>", f"[a b]({BASE}x)"),
    "blocks in a link do not glue": (
        "<a href=x><div>a</div><div>b</div></a>",
        f"[a]({BASE}x)\n\nb",
    ),
    "a heading in a link": ("<a href=x><h2>a</h2></a>", f"## [a]({BASE}x)"),
    "no empty links": ("a <a href=x></a><a href=y> </a>b", "a b"),
    "no script links": ("<a href=' JavaScript:x()'>a</a>", "a"),
    "brackets in link text": ("<a href=x>[a]</a>", f"[\\[a\\]]({BASE}x)"),
    "spaces in addresses": ("<a href='a b'>c</a>", f"[c]({BASE}a%20b)"),
    "balanced parentheses in addresses": ("<a href='a_(b)'>c</a>", f"[c]({BASE}a_(b))"),
    "lone parenthesis in an address": ("<a href='a)b'>c</a>", f"[c]({BASE}a%29b)"),
    "fragments are of this page": (
        "<a href='#f'>c</a>",
        "[c](https://site.example/dir/page.html#f)",
    ),
    "addresses no parser accepts": ("<a href='http://[bad'>c</a>", "[c](http://%5Bbad)"),
    "base element": ("<base href='/other/'><a href=x>c</a>", "[c](https://site.example/other/x)"),
    "a link never closed": ("<p><a href=x>a<p>b", f"[a]({BASE}x)\n\nb"),
    "images": ("<img src=/i.png alt='a\nb'>", "![a b](https://site.example/i.png)"),
    "image in a link": ("<a href=x><img src=i alt=a></a>", f"[![a]({BASE}i)]({BASE}x)"),
    "lazy images": ("<img src='data:image/gif;base64,R0' data-src=i.png>", f"![]({BASE}i.png)"),
    "srcset instead of src": ("<img srcset='a.png 1x, b.png 2x'>", f"![]({BASE}b.png)"),
    "data images": (
        "<img alt=a src='data:image/png;base64,AAAA'>",
        "![a](<Base64-Image-Removed>)",
    ),
    "nested emphasis": ("<b>a <strong>b</strong></b>", "**a b**"),
    "strong and emphasis": ("<b>a <i>b</i></b>", "**a *b***"),
    "spaces go outside of emphasis": ("a<em> b </em>c", "a *b* c"),
    "empty emphasis": ("a<b></b><i> </i>b", "a b"),
    "neighbouring emphasis joins": ("<b>a</b><b>b</b>", "**ab**"),
    "emphasis round blocks": ("<b><p>a</p><p>b</p></b>", "a\n\nb"),
    "strikethrough": ("<del>a</del>", "~~a~~"),
    "empty headings": ("<h1> </h1><h2></h2>a", "a"),
    "headings with breaks": ("<h1>a<br>b</h1>", "# a b"),
    "escaped markup stays text": ("&lt;b&gt; &amp;copy;", "\\<b> \\&copy;"),
    "arithmetic needs no escape": ("1 < 2 & 3 * 4", "1 < 2 & 3 * 4"),
    "text that looks like Markdown": (
        "<p># a<p>- b<p>1. c<p>===<p>---<p>+ d<p>*e* _f_ g_h",
        "\\# a\n\n\\- b\n\n1\\. c\n\n\\===\n\n\\---\n\n\\+ d\n\n\\*e\\* \\_f\\_ g_h",
    ),
    "text that looks like a link": ("[a](b)", "[a\\](b)"),
    "svg, template, select and hidden text": (
        ("a<svg><title>t</title></svg><template>u</template><select><option>o</select>"
        "<p hidden>h<p style='display: none'>i"),
        "a",
    ),
    "noscript pixels": ("<p>a b c<noscript><img src=p.gif></noscript>", "a b c"),
    "display:block spans": (
        "<span style='display:block'>a</span><span style='display: block'>b</span>",
        "a\n\nb",
    ),
    "figcaption": (
        "<figure><img src=i alt=x><figcaption>c</figcaption></figure>d",
        f"![x]({BASE}i)\n\nc\n\nd",
    ),
    "quotes": ("<blockquote><p>a<p>b</blockquote>", "> a\n>\n> b"),
    "quotes do not merge": ("<blockquote>a</blockquote><blockquote>b</blockquote>", "> a\n\n> b"),
    "list in a quote": ("<blockquote><ul><li>a<li>b</ul></blockquote>", "> - a\n> - b"),
    "rule": ("a<hr>b", "a\n\n---\n\nb"),
    "line breaks": ("a<br>b", "a  \nb"),
    "junk characters": ("a\u200bb\u00adc\ufeffd&#0;e\x00f\x01g", "abcdefg"),
    "no wrapped lines": ("<p>" + "word " * 100, ("word " * 100).strip()),
    "iframe documents": ("<iframe srcdoc='<p>inner</p>'></iframe>", "inner"),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), CASES.values(), ids=CASES)
def test_html_becomes_markdown(page, expected):
    assert markdown(page) == expected


def test_base64_images_are_kept_on_request():
    page = "<img alt=a src='data:image/png;base64,AAAA'>"
    assert (
        markdown(page, remove_base64_images=False) == "![a](data:image/png;base64,AAAA)"
    )


@pytest.mark.parametrize("name", ["article", "docs"])
def test_whole_pages(name):
    page = (SAMPLES / f"{name}.html").read_text()
    expected = (SAMPLES / f"{name}.md").read_text()
    assert markdown(page, only_main_content=True) + "\n" == expected


def test_no_more_than_one_blank_line():
    assert "\n\n\n" not in markdown(
        "<div><p>a</p>\n\n\n<div></div><p> </p><ul></ul><p>b"
    )
