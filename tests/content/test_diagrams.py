"""Diagrams and charts: their source is code, or their labels are a loss."""

from __future__ import annotations

import pytest

from tests.content.pages import convert, markdown, value

FLOW = "graph TD\n  A[One] --> B[Two]"
WRITTEN_FLOW = FLOW.replace(">", "&gt;")
FENCE = f"```mermaid\n{FLOW}\n```"
JSON = '{"data":"graph TD\\n  A[One] --> B[Two]"}'.replace('"', "&quot;")
DRAWN = (
    "<svg aria-roledescription=flowchart-v2 width=400><style>p {}</style><g><foreignObject>"
    "<div><span class=nodeLabel>Open it</span></div></foreignObject>"
    "<text><tspan>Close</tspan> <tspan>it</tspan></text></g></svg>"
)

SOURCES = {
    "pre": f"<pre class=mermaid>{WRITTEN_FLOW}</pre>",
    "div": f"<div class=mermaid>\n{FLOW}\n</div>",
    "div with line breaks": f"<div class=mermaid>{WRITTEN_FLOW}</div>".replace(
        "\n", "<br>"
    ),
    "hidden until it is drawn": f"<pre class=mermaid style='display:none'>{FLOW}</pre>",
    "code": f"<code class=language-mermaid>{WRITTEN_FLOW}</code>",
    "code in pre": f"<pre><code class='hljs mermaid'>{WRITTEN_FLOW}</code></pre>",
    "pre with a language": f"<pre lang=mermaid>{WRITTEN_FLOW}</pre>",
    "pre inside": f"<div class='highlight mermaid'><pre>{WRITTEN_FLOW}</pre></div>",
    "drawn, with its source": (
        f"<div class=mermaid data-processed=true data-source='{WRITTEN_FLOW}'>{DRAWN}</div>"
    ),
    "drawn beside its source": f"<div>{DRAWN}<pre class=mermaid>{FLOW}</pre></div>",
    "script": f"<script type='text/x-mermaid'>{FLOW}</script>",
    "GitHub": (
        f"<section data-type=mermaid><div data-json='{JSON}' data-plain='{WRITTEN_FLOW}'>"
        f"<pre lang=mermaid>{WRITTEN_FLOW}</pre></div><span>Loading</span></section>"
    ),
    "GitHub, source in JSON only": f"<section data-type=mermaid data-json='{JSON}'></section>",
}


@pytest.mark.parametrize("page", SOURCES.values(), ids=SOURCES)
def test_the_source_of_a_diagram_is_code(page):
    content = convert(f"<p>Before.{page}<p>After.")
    assert value(content, "markdown") == f"Before.\n\n{FENCE}\n\nAfter."
    assert content.losses == ()


def test_line_breaks_in_labels_are_part_of_the_source():
    page = "<pre class=mermaid>graph TD\n  A[One<br/>two]</pre>"
    assert "A[One<br/>two]" in markdown(page)


def test_sources_of_other_diagrams_are_code_too():
    page = (
        "<div class=plantuml>@startuml\nA -> B\n@enduml</div><script type=text/vnd.graphviz>"
        "digraph { a -> b }</script><pre><code class=language-d2>x -> y</code></pre>"
    )
    assert markdown(page) == (
        "```plantuml\n@startuml\nA -> B\n@enduml\n```\n\n```graphviz\ndigraph { a -> b }\n```"
        "\n\n```d2\nx -> y\n```"
    )


def test_an_article_with_diagrams_is_no_source():
    page = "<article class=mermaid><h1>Title</h1><p>Words</article>"
    assert markdown(page) == "# Title\n\nWords"


LOST = {
    "drawn by Mermaid": (
        f"<div class=mermaid>{DRAWN}</div>",
        "diagram",
        1,
        ["Open it, Close it"],
    ),
    "title of an SVG": (
        "<svg viewBox='0 0 600 300' role=img aria-label='Rain in May'><path></path></svg>",
        "diagram",
        1,
        ["Rain in May"],
    ),
    "chart of several SVG": (
        ("<div class=js-plotly-plot><svg class=main-svg><text>Sales in 2020</text></svg>"
        "<svg class=main-svg><text>Legend here</text></svg></div>"),
        "chart",
        1,
        ["Sales in 2020, Legend here"],
    ),
    "chart": (
        ("<div class=highcharts-container><svg><desc>Created with Highcharts 9</desc><text>Sales"
        "</text><text>2020</text></svg></div>"),
        "chart",
        1,
        ["Sales, 2020"],
    ),
    "large, with one word": (
        "<svg width=200><circle/><text>75%</text></svg>", "diagram", 1, ["75%"]
    ),
    "large, in a link": (
        "<a href=x><svg width=300><text>See all</text></svg></a>", "diagram", 1, ["See all"]
    ),
    "canvas": ("<canvas aria-label='Sales by year'></canvas>", "chart", 1, ["Sales by year"]),
    "canvas of a known script": (
        "<script src=/js/chart.umd.min.js></script><canvas id=a></canvas><canvas id=b></canvas>",
        "chart",
        2,
        None,
    ),
    "canvas with a text for old browsers": (
        "<canvas class=my-chart>Your browser does not support canvas.</canvas>",
        "chart",
        1,
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("only_main", [False, True])
@pytest.mark.parametrize(("page", "kind", "count", "texts"), LOST.values(), ids=LOST)
def test_a_drawing_is_a_loss_with_its_labels(page, kind, count, texts, only_main):
    text = "<p>" + "Some words of main content stand here, and more follow. " * 9
    page = f"<main><h1>Title</h1>{text}<div>{page}</div>{text}</main>"
    content = convert(page, only_main_content=only_main)
    [loss] = content.losses
    assert (loss["kind"], loss["count"], loss.get("texts")) == (kind, count, texts)
    assert value(content, "markdown").count("\n\n") == 2


NOT_LOST = {
    "in a link": "<a href=x><svg><text>Acme and sons</text></svg></a>",
    "title in a link": "<a href=x><svg width=300><title>To the home page</title></svg></a>",
    "hidden": "<svg aria-hidden=true><text>Some old words</text></svg>",
    "hidden around": "<div hidden><svg><text>Some old words</text></svg></div>",
    "icon": "<svg width=24 height=24><title>Check mark here</title></svg>",
    "icon without size": "<svg viewBox='0 0 24 24'><title>Check mark here</title></svg>",
    "logo": "<div class=site-logo><svg><text>Acme and sons</text></svg></div>",
    "one word": "<svg><text>75%</text></svg>",
    "decoration": "<canvas id=particles></canvas>",
}


@pytest.mark.parametrize("page", NOT_LOST.values(), ids=NOT_LOST)
def test_icons_and_logos_are_no_losses(page):
    assert convert(f"<p>Words{page}").losses == ()


def test_the_text_in_a_canvas_is_content():
    content = convert("<p>a</p><canvas id=chart><p>In May it rained 5 mm.</p></canvas>")
    assert value(content, "markdown") == "a\n\nIn May it rained 5 mm."
    assert content.losses == ()


def test_drawings_in_dropped_and_excluded_parts_are_no_losses():
    text = "<p>" + "Some words of main content stand here, and more follow. " * 9
    page = f"<nav><a href=/>Home</a>{DRAWN}</nav><main><h1>Title</h1>{text}</main>"
    assert convert(page, only_main_content=True).losses == ()
    page = f"<h1>Title</h1>{text}<div class=drawn>{DRAWN}</div>"
    assert convert(page, exclude_tags=(".drawn",)).losses == ()
