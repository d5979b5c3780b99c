"""Two generated but realistic pages of 17 kB and 200 kB, the same on every run.

Both contain the expensive parts of real pages: navigation, a cookie banner, scripts, an
article with tables, nested lists, code and images, cards and a footer.
"""

from __future__ import annotations

import functools
import json
import random

LAST_SENTENCE = "At dusk the last lamp was lit and the log was closed."
SENTENCES = (
    "The harbour office keeps its tide tables in a green cupboard by the window.",
    "Each morning, before the ferry leaves, somebody copies the day's heights.",
    "A difference of ten centimetres decides whether the timber boats may enter.",
    "Older records, written in pencil, have faded but can still be read.",
    "The gauge on the north pier was replaced after the storm of that winter.",
    "Since then, readings are taken every six minutes and sent by radio.",
    "Nobody expected the new instrument to disagree with the old one.",
    "It did, by a constant amount, and the cause was found much later.",
    "The zero of the scale had been painted on a stone that was sinking.",
    "Surveyors measured it again from the church, which stands on rock.",
    "Their report is short, careful and easy to follow for a lay reader.",
    "It recommends that every table state the year of its reference level.",
    "Wind from the west holds the water back for an hour or more.",
    "In such weather the pilots trust the gauge, not the printed page.",
    "Visitors often ask why two high waters on one day differ in height.",
    "The answer has to do with the moon, which is seldom above the equator.",
    "A small exhibition in the lighthouse explains this with a brass model.",
    "Children may turn the handle; the school has booked it for all of May.",
    "The keeper, who retired in autumn, left eleven notebooks to the town.",
    "They list ships, weather, repairs and, now and then, a good recipe.",
    "Volunteers have begun to type them, one page each evening.",
    "Of the first volume, two thirds are finished and have been checked twice.",
    "Mistakes are marked in the margin rather than silently corrected.",
    "Anyone who recognises a name is asked to write to the office.",
)
TOPICS = ("tides", "harbours", "pilots", "gauges", "charts", "ferries", "storms")
CODE = """def height(hour: float, mean: float = 2.4) -> float:
    \"\"\"Return the height of the water in metres.\"\"\"
    phase = 2 * math.pi * hour / 12.42
    if hour &lt; 0:
        raise ValueError("hour must be &gt;= 0")
    return mean + 1.8 * math.cos(phase)
"""
STYLE = (
    ".site-nav{{display:flex}}.card-{0}{{margin:0 1rem;padding:.5rem}}"
    ".card-{0}:hover{{background:#eef}}@media(max-width:600px){{.card-{0}{{margin:0}}}}"
)


@functools.cache
def article() -> bytes:
    """Return an article page of about 17 kB in UTF-8."""
    return _page(sections=8, cards=5, state_records=13)


@functools.cache
def long_article() -> bytes:
    """Return a page of about 200 kB in UTF-8; nearly half are scripts and cards."""
    return _page(sections=85, cards=110, state_records=320)


@functools.cache
def sized(sections: int) -> bytes:
    """Return a page of about 2.5 kB in UTF-8 per section."""
    return _page(sections=sections, cards=sections, state_records=2 * sections)


CANONICAL = b'<link rel="canonical" href="/article">'


def _page(sections: int, cards: int, state_records: int) -> bytes:
    rng = random.Random(sections)  # seeded: equal bytes on every run
    body = "".join(_section(rng, number) for number in range(1, sections + 1))
    return f"""<!DOCTYPE html>
<html lang="en">
{_head(rng, state_records)}
<body class="page article">
<div id="cookie-banner" class="cookie-banner" role="dialog"><p>We use cookies to count
visits. <a href="/privacy">Privacy</a></p><button>Accept all</button>
<button>Only necessary</button></div>
<header class="site-header"><a href="/" class="logo">
<img src="/static/logo.svg" alt="The Harbour Log"></a>{_nav()}
<form role="search" action="/search"><input name="q" placeholder="Search"></form></header>
<div class="breadcrumbs"><a href="/">Home</a> / <a href="/page/1">Water</a></div>
<main><article>
<h1>How the harbour reads its tides</h1>
<p class="byline">By <a rel="author" href="/people/ines">Ines Holm</a>,
<time datetime="2025-03-04">4 March 2025</time></p>
<p><strong>{_prose(rng, 2)}</strong></p>
{body}
<h2 id="notes">Notes</h2>
<ol class="footnotes"><li id="fn1">Heights are above the mean of 1990.
<a href="#ref1">Back</a></li></ol>
<p>{LAST_SENTENCE}</p>
</article></main>
<aside class="sidebar"><h3>Related</h3>{_cards(rng, cards)}
<div class="advert"><a href="https://ads.example/1">Sponsored: new oilskins</a></div></aside>
<section class="newsletter"><h3>Newsletter</h3><form><input type="email"></form></section>
<footer class="site-footer"><nav>{_links("about", "imprint", "privacy", "contact")}</nav>
<p>&copy; 2025 The Harbour Log. All rights reserved.</p></footer>
<script>window.track=function(e){{(window.q=window.q||[]).push(e)}};track("view");</script>
</body>
</html>
""".encode()


def _head(rng: random.Random, state_records: int) -> str:
    state = [
        {"id": n, "topic": rng.choice(TOPICS), "teaser": _prose(rng, 2), "seen": False}
        for n in range(state_records)
    ]
    styles = "".join(STYLE.format(n) for n in range(6 + state_records // 10))
    return f"""<head>
<meta charset="utf-8">
<title>How the harbour reads its tides | The Harbour Log</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Why two gauges disagreed, and what a stone had to do with it.">
<meta name="keywords" content="tides, harbour, gauges">
<meta property="og:title" content="How the harbour reads its tides">
<meta property="og:type" content="article">
<meta property="og:image" content="/static/pier.jpg">
<link rel="icon" href="/static/favicon.ico">
{CANONICAL.decode()}
<style>{styles}</style>
<script type="application/json" id="state">{json.dumps(state)}</script>
</head>"""


def _nav() -> str:
    return f'<nav class="site-nav"><ul>{_links(*TOPICS)}</ul></nav>'


def _links(*names: str) -> str:
    return "".join(f'<li><a href="/{name}">{name.title()}</a></li>' for name in names)


def _cards(rng: random.Random, count: int) -> str:
    return "".join(
        f'<div class="card card-{n % 6}"><a href="/page/{n + 1}">'
        f'<img loading="lazy" src="/static/thumb-{n}.jpg" alt="">'
        f"<h4>{rng.choice(TOPICS).title()} no. {n}</h4></a>"
        f'<p class="teaser">{_prose(rng, 1)}</p></div>'
        for n in range(count)
    )


def _section(rng: random.Random, number: int) -> str:
    extra = (_table, _nested_list, _code, _figure)[number % 4](rng, number)
    return f"""<h2 id="part-{number}">Part {number}: {rng.choice(TOPICS)}</h2>
<p>{_prose(rng, 3)} See <a href="/page/{number}">part {number} of the log</a>, and
<em>{_prose(rng, 1)}</em><sup><a href="#fn1">1</a></sup></p>
<p>{_prose(rng, 4)}</p>
{extra}
<p>{_prose(rng, 3)}</p>
"""


def _table(rng: random.Random, number: int) -> str:
    rows = "".join(
        f"<tr><td>{hour:02}:12</td><td>{rng.uniform(0, 5):.2f} m</td>"
        f"<td>{rng.choice(TOPICS)}</td></tr>"
        for hour in range(0, 24, 4)
    )
    return (
        f"<table><caption>Table {number}</caption><thead><tr><th>Time</th>"
        f"<th>Height</th><th>Kind</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _nested_list(rng: random.Random, number: int) -> str:
    inner = "".join(f"<li>{_prose(rng, 1)}</li>" for _ in range(2))
    return (
        f"<ul><li>Gauge {number}<ul>{inner}</ul></li>"
        f"<li>{_prose(rng, 1)}<ol><li>north</li><li>south</li></ol></li></ul>"
    )


def _code(_rng: random.Random, _number: int) -> str:
    return f'<pre><code class="language-python">{CODE}</code></pre>'


def _figure(rng: random.Random, number: int) -> str:
    return (
        f'<figure><img src="/static/pier-{number}.jpg" alt="The pier, view {number}">'
        f"<figcaption>{_prose(rng, 1)}</figcaption></figure>"
        f"<blockquote><p>{_prose(rng, 1)}</p></blockquote>"
    )


def _prose(rng: random.Random, sentences: int) -> str:
    return " ".join(rng.sample(SENTENCES, k=sentences))
