"""Code whose lines are rows of a table, or have numbers beside them, is one fence."""

from __future__ import annotations

import pytest

from tests.content.pages import convert, value

LEAD = "<h1>Tide table</h1><p>This file of ours adds up the tides of one year.</p>"
END = "<p>It is read by the harbour, and changed once a year.</p>"
PYTHON = "def tide(day):\n    return day * 2"
HOSTS = {
    "GitHub": (
        (
            "<div class='blob-wrapper data type-python'><table class='highlight'>"
            "<tr><td class='blob-num js-line-number' data-line-number=1></td>"
            "<td class='blob-code blob-code-inner js-file-line'><b>def</b> tide(day):</td></tr>"
            "<tr><td class='blob-num js-line-number' data-line-number=2></td>"
            "<td class='blob-code blob-code-inner js-file-line'>    return day * 2</td></tr>"
            "</table></div>"
        ),
        f"```python\n{PYTHON}\n```",
    ),
    "GitHub with the name of the language": (
        (
            "<table class=highlight data-tagsearch-lang=Python>"
            "<tr><td class=blob-num data-line-number=1></td><td class=blob-code>def tide(day):</td></tr>"
            "<tr><td class=blob-num data-line-number=2></td><td class=blob-code>    return day * 2"
            "</td></tr></table>"
        ),
        f"```python\n{PYTHON}\n```",
    ),
    "Gitea": (
        (
            "<div class='file-view code-view'><table><tbody>"
            "<tr><td id=L1 class=lines-num><span data-line-number=1></span></td>"
            "<td class='lines-code chroma'><code class=code-inner>def tide(day):\n</code></td></tr>"
            "<tr><td id=L2 class=lines-num><span data-line-number=2></span></td>"
            "<td class='lines-code chroma'><code class=code-inner>    return day * 2\n</code></td></tr>"
            "</table></div>"
        ),
        f"```\n{PYTHON}\n```",
    ),
    "written numbers": (
        (
            "<table><tr><td class=line-number>1</td><td class=code-line>def tide(day):</td></tr>"
            "<tr><td class=line-number>2</td><td class=code-line>    return day * 2</td></tr></table>"
        ),
        f"```\n{PYTHON}\n```",
    ),
    "an empty line": (
        (
            "<table><tr><td class=blob-num data-line-number=1></td><td class=blob-code>a</td></tr>"
            "<tr><td class=blob-num data-line-number=2></td><td class=blob-code>\n</td></tr>"
            "<tr><td class=blob-num data-line-number=3></td><td class=blob-code>b</td></tr></table>"
        ),
        "```\na\n\nb\n```",
    ),
    "a change": (
        (
            "<table><tr><td class=blob-num data-line-number=3><td class=blob-num>"
            "<td class=blob-code><span class=blob-code-inner data-code-marker='-'>a = 1</span></tr>"
            "<tr><td class=blob-num><td class=blob-num data-line-number=3>"
            "<td class=blob-code><span class=blob-code-inner data-code-marker='+'>a = 2</span></tr>"
            "<tr><td colspan=3><p>Why two?</p></tr></table>"
        ),
        "```diff\n-a = 1\n+a = 2\n```\n\nWhy two?",
    ),
    "a change in two columns": (
        (
            "<table><tr><td class=blob-num data-line-number=1><td class=blob-code>same"
            "<td class=blob-num data-line-number=1><td class=blob-code>same</tr>"
            "<tr><td class=blob-num data-line-number=2><td class=blob-code data-code-marker='-'>old"
            "<td class=blob-num data-line-number=2><td class=blob-code data-code-marker='+'>new"
            "</tr></table>"
        ),
        "```diff\nsame\n-old\n+new\n```",
    ),
    "Pygments": (
        (
            "<div class=highlight-python><table class=highlighttable><tr><td class=linenos>"
            "<div class=linenodiv><pre>1\n2</pre></div></td><td class=code><div class=highlight>"
            f"<pre><span></span>{PYTHON}\n</pre></div></td></tr></table></div>"
        ),
        f"```python\n{PYTHON}\n```",
    ),
    "GitLab": (
        (
            "<div class=file-content><div class=line-numbers><a data-line-number=1 href=#L1>1</a>\n"
            "<a data-line-number=2 href=#L2>2</a></div><div class=blob-content>"
            "<pre class='code highlight'><code><span class=line lang=python>def tide(day):</span>\n"
            "<span class=line lang=python>    return day * 2</span></code></pre></div></div>"
        ),
        f"```python\n{PYTHON}\n```",
    ),
    "cgit": (
        (
            "<table class=blob><tr><td class=linenumbers><pre><a href=#n1>1</a>\n<a href=#n2>2</a>\n"
            f"</pre></td><td class=lines><pre><code>{PYTHON}\n</code></pre></td></tr></table>"
        ),
        f"```\n{PYTHON}\n```",
    ),
    "Sourcehut": (
        (
            "<div class=code-view><pre class=ruler><span>  </span></pre><pre class=lines>"
            "<a href=#L1>1\n</a><a href=#L2>2\n</a></pre><div class=highlight>"
            f"<pre>{PYTHON}\n</pre></div></div>"
        ),
        f"```\n{PYTHON}\n```",
    ),
}


@pytest.mark.parametrize("only_main", [False, True])
@pytest.mark.parametrize(("code", "fence"), HOSTS.values(), ids=HOSTS)
def test_adjacent_lines_of_code_become_one_fenced_block(code, fence, only_main):
    page = f"<main>{LEAD}{code}{END}</main>"
    content = convert(page, "markdown", only_main_content=only_main)
    before, _, behind = value(content, "markdown").partition("one year.\n\n")
    assert behind.rpartition("\n\n")[0] == fence
    assert before
    assert content.losses == ()


@pytest.mark.parametrize(
    "page",
    [
        "<table><tr><th>Line<th>Stop<tr><td class=line-number>1<td>Pier<tr><td>2<td>Dock</table>",
        "<div>1 2</div><pre>one line\nanother\nthe third\nthe fourth</pre>",
        "<div>5</div><pre>echo 1</pre>",
    ],
)
def test_other_tables_and_numbers_stay(page):
    found = value(convert(page, "markdown"), "markdown")
    assert "Dock |" in found or "1 2" in found or found.startswith("5")


@pytest.mark.full
def test_very_many_lines_cost_little():
    row = "<tr><td class=blob-num data-line-number=1></td><td class=blob-code>x = 1</td></tr>"
    found = value(convert(f"<table>{40_000 * row}</table>", "markdown"), "markdown")
    assert found.count("x = 1") == 40_000
