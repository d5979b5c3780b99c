"""Which pages are empty before their scripts have run: shapes of real sites."""

from __future__ import annotations

import pytest

from scraper_service.content.convert import render
from scraper_service.content.html.document import parse
from scraper_service.content.metadata.evidence import Evidence, refresh
from scraper_service.content.page_status import OK, shell_reason
from scraper_service.content.stored_pages import content_from_wire
from scraper_service.items import PageSource
from scraper_service.options.spider_arguments import page_options

EMPTY = "the element of the application is empty"
ASKS = "the page asks for JavaScript"
SCRIPTS = "all content is in scripts"
STATE = (
    '<script>window.__STATE__ = {"items": ['
    + '"words of an item",' * 50
    + "0]}</script>"
)
WORDS = "<p>" + "These are words that a reader can read. " * 8 + "</p>"

URL = "http://a.example/"


def reason_of(html):
    document = parse(html, URL)
    return shell_reason(document, OK, URL, refresh(Evidence(document), URL))


SHELLS = {
    "create-react-app": (
        (
            "<title>React App</title><noscript>You need to enable JavaScript to run this"
            ' app.</noscript><div id="root"></div><script src="/static/js/main.1.js"></script>'
        ),
        ASKS,
    ),
    "vite": (
        (
            '<title>Vite</title><div id="app"></div>'
            '<script type="module" src="/assets/index-1.js"></script>'
        ),
        EMPTY,
    ),
    "vue-cli": (
        (
            "<noscript><strong>We're sorry but shop doesn't work properly without JavaScript"
            ' enabled. Please enable it to continue.</strong></noscript><div id="app"></div>'
            '<script src="/js/app.js"></script>'
        ),
        ASKS,
    ),
    "angular": (
        "<base href=/><app-root></app-root><script src=polyfills.js type=module></script>",
        EMPTY,
    ),
    "angular with a spinner": (
        (
            "<app-root>Loading...</app-root><script src=main.js></script>"
            "<noscript>Please enable JavaScript to continue using this application.</noscript>"
        ),
        ASKS,
    ),
    "next without server rendering": (
        (
            '<div id="__next"></div><script id="__NEXT_DATA__" type="application/json">'
            '{"props":{}}</script><script src="/_next/static/chunks/main.js"></script>'
        ),
        EMPTY,
    ),
    "nuxt": ('<div id="__nuxt"></div>' + STATE, SCRIPTS),
    "gatsby": ('<div id="___gatsby"></div><script src="/app.js"></script>', EMPTY),
    "state only": ("<title>Shop</title><body>" + STATE, SCRIPTS),
    "no root at all": ("<body><script src=/bundle.js></script></body>", SCRIPTS),
    "a sentence instead of the page": (
        "<p>JavaScript is required to view this site.</p><script src=/a.js></script>",
        ASKS,
    ),
    "turned off": (
        (
            "<body><h1>JavaScript is disabled</h1><p>In order to continue, we need to verify"
            " that you are not a robot.</p><script src=/challenge.js></script>"
        ),
        ASKS,
    ),
    "an application that loads itself again every half hour": (
        (
            '<meta http-equiv="refresh" content="1800"><div id="app"></div>'
            '<script type="module" src="/assets/index-1.js"></script>'
        ),
        EMPTY,
    ),
    "an application that leads elsewhere a minute later": (
        (
            '<meta http-equiv="refresh" content="60; url=/timeout"><div id="app"></div>'
            '<script type="module" src="/assets/index-1.js"></script>'
        ),
        EMPTY,
    ),
    "an application with a refresh for visitors without scripts": (
        (
            '<noscript><meta http-equiv="refresh" content="0; url=/plain"></noscript>'
            '<div id="app"></div><script type="module" src="/assets/index-1.js"></script>'
        ),
        EMPTY,
    ),
    "an application that refreshes to itself": (
        (
            '<meta http-equiv="refresh" content="0; url=/"><div id="app"></div>'
            '<script type="module" src="/assets/index-1.js"></script>'
        ),
        EMPTY,
    ),
}

WHOLE = {
    "static": WORDS,
    "static with scripts": WORDS + "<script src=/analytics.js></script>",
    "server rendered": f'<div id="root">{WORDS}</div><script src="/main.js"></script>'
    "<noscript>You need to enable JavaScript to run this app.</noscript>",
    "next with its state": f'<div id="__next">{WORDS}</div>{STATE}',
    "little, and no script": "<p>OK</p>",
    "little, with a counter": "<h1>It works!</h1><p>The server of this site is set up"
    " and waits for its content.</p><script src=/counter.js></script>",
    "empty": "",
    "a page of pictures": "<img src=a.png><img src=b.png><img src=c.png>"
    "<script src=/lightbox.js></script>",
    "frames": "<frameset><frame src=a.html><frame src=b.html><frame src=c.html>"
    "</frameset><script src=/x.js></script>",
    "refresh": '<meta http-equiv="Refresh" content="0; url=/next"><script src=/x.js>'
    "</script>",
    "text about it": "<p>How to enable JavaScript in your browser: "
    + WORDS
    + "</p><script src=/x.js></script>",
    "a form to sign in": "<form><input name=user><input name=password></form>"
    "<a href=/help>Help</a><a href=/join>Join</a><script src=/form.js></script>",
}


@pytest.mark.parametrize("name", SHELLS)
def test_an_empty_shell_has_a_reason(name):
    html, reason = SHELLS[name]
    assert reason_of(html) == reason


@pytest.mark.parametrize("name", WHOLE)
def test_a_readable_page_is_no_empty_shell(name):
    assert reason_of(WHOLE[name]) is None


@pytest.mark.parametrize(
    "html",
    [
        '<div id="root"></div><script>root.innerHTML = "<h1>Stock</h1>"</script>',
        (
            '<nav><a href="/">Home</a> <a href="/a">A</a> <a href="/b">B</a></nav>'
            "<main>Loading...</main><script>fetch('/stock.json').then(show)</script>"
        ),
        "<script>location.replace('/stock')</script>",
    ],
)
def test_a_page_without_text_of_its_own_is_an_empty_shell(html):
    options = page_options({"url": "http://a.example/"}).scrape
    source = PageSource(
        url="http://a.example/",
        status=200,
        body=html.encode(),
        content_type="text/html",
        find_shell=True,
    )
    assert content_from_wire(*render(source, options)).shell == SCRIPTS
