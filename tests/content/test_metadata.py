from __future__ import annotations

import json

import pytest

from scraper_service.content.metadata import evidence
from tests.content.pages import convert

ARTICLE = "<title>t</title><h1>How the tide tables of the harbour are made</h1>"


def known(page, **changes):
    return convert(page, "markdown", **changes).known


def ld(data) -> str:
    return f"<script type=application/ld+json>{json.dumps(data)}</script>"


POSTING = {"@type": "BlogPosting", "datePublished": "2024-05-06T07:08:09+02:00"}
INDEX = "<h1>Blog</h1>" + "".join(
    f"<article><h2><a href=/{n}>Tide {n}</a></h2><p>By <b class=author>Ann Lee</b> on "
    f"<time datetime=2024-05-0{n}>May {n}, 2024</time></p><p>By Bo Ek</p></article>"
    for n in (3, 2, 1)
)
AUTHORS = {
    "meta": ("<meta name=author content='Ann Lee'>", "Ann Lee"),
    "two metas": (
        "<meta name=author content='Ann Lee'><meta name=author content='Bo Ek'>",
        ["Ann Lee", "Bo Ek"],
    ),
    "an address is no name": (
        ("<meta property=article:author content='https://social.example/ann'>"
        "<meta name=parsely-author content='Ann Lee'>"),
        "Ann Lee",
    ),
    "Dublin Core": ("<meta name=DC.creator content='Ann Lee'>", "Ann Lee"),
    "JSON-LD": (ld(POSTING | {"author": {"name": "Ann Lee"}}), "Ann Lee"),
    "JSON-LD, several": (
        ld(POSTING | {"author": [{"name": "Ann Lee"}, "Bo Ek"]}),
        ["Ann Lee", "Bo Ek"],
    ),
    "JSON-LD, a reference": (
        ld({"@graph": [
            POSTING | {"author": {"@id": "#a"}},
            {"@type": "Person", "@id": "#a", "name": "Ann Lee"},
        ]}),
        "Ann Lee",
    ),
    "the article wins over its frame": (
        ld([{"@type": "WebPage", "author": "Web Team X"}, POSTING | {"author": "Ann Lee"}]),
        "Ann Lee",
    ),
    "JSON-LD in a comment": (
        "<script type=application/ld+json><!--\n"
        + json.dumps(POSTING | {"author": "Ann Lee"}) + "\n--></script>",
        "Ann Lee",
    ),
    "a label for cards": (
        ("<meta name=twitter:label1 content='Written by'>"
        "<meta name=twitter:data1 content='Ann Lee'>"),
        "Ann Lee",
    ),
    "microdata": (
        "<div itemprop=author itemscope><meta itemprop=name content='Ann Lee'></div>",
        "Ann Lee",
    ),
    "a link": (f"{ARTICLE}<p>Posted by <a rel=author href=/ann>Ann Lee</a> on Monday", "Ann Lee"),
    "a class": (f"{ARTICLE}<div class=post-byline>By Ann Lee | 3 min read</div>", "Ann Lee"),
    "an attribute of a forum": (f"{ARTICLE}<div data-author-username=ann_l>q</div>", "ann_l"),
    "a link to an author": (f"{ARTICLE}<a href=/author/ann>Ann Lee</a>", "Ann Lee"),
    "a link with microdata": (f"{ARTICLE}<a itemprop='author url' href=/ann>Ann Lee</a>", "Ann Lee"),
    "a link after words": (f"{ARTICLE}<p>By <a href=/ann>Ann Lee</a></p>", "Ann Lee"),
    "a link after an element": (
        f"{ARTICLE}<p><i>Written by:</i> <a href=/ann>Ann Lee</a></p>", "Ann Lee",
    ),
    "words after a date": (
        f"{ARTICLE}<p><time datetime=2024-05-06>6 May</time> by <a href=/ann>Ann Lee</a>", "Ann Lee",
    ),
    "words in a sentence": (
        f"{ARTICLE}<p>It uses <a href=/t>Tide</a> by <a href=/ann>Ann Lee</a>.</p>", None,
    ),
    "no words of a list": (
        ARTICLE + "".join(f"<p>By <a href=/{n}>{n} Lee</a></p>" for n in "Ann Bo Cy Di".split()),
        None,
    ),
    "not of the entries of a list": (
        ARTICLE + "".join(
            f"<b class=author>Ann Lee</b> <time>May {n}, 2024</time>" for n in range(16, 6, -1)
        ),
        None,
    ),
    "the first of a thread": (
        ARTICLE + "".join(
            f"<b class=author>ann{n}</b> <time>May {n}, 2024</time>" for n in range(6, 16)
        ),
        "ann6",
    ),
    "two links": (
        f"{ARTICLE}<p class=byline>By <a href=/a>Ann Lee</a> and <a href=/b>Bo Ek</a>, 3 min",
        ["Ann Lee", "Bo Ek"],
    ),
    "an office in another element": (
        f"{ARTICLE}<p class=byline>By <b>Ann Lee</b> <i>Senior Tide Reporter</i></p>", "Ann Lee",
    ),
    "an office behind a comma": (
        f"{ARTICLE}<p class=byline>Authors: Ann Lee and Bo Ek, teachers of the tides</p>",
        "Ann Lee and Bo Ek",
    ),
    "an office behind a link": (
        f"{ARTICLE}<p class=byline>By <a href=/a>Ann Lee</a>, <i>Tide Columnist</i></p>", "Ann Lee",
    ),
    "an office in its text": (
        f"{ARTICLE}<p class=byline>By Ann Lee, Head of Tides</p>", "Ann Lee",
    ),
    "behind a date": (
        f"{ARTICLE}<p class=author>Dec. 19, 2025 · Ann Lee on behalf of <i>the tides</i></p>",
        "Ann Lee",
    ),
    "a place behind it": (f"{ARTICLE}<p class=byline>Posted by Ann Lee at May 6, 2024</p>", "Ann Lee"),
    "a name like a month": (f"{ARTICLE}<b class=author>julian</b>", "julian"),
    "all that it wrote": (f"{ARTICLE}<a href=/author/ann>More posts by Ann Lee</a>", "Ann Lee"),
    "a sentence about it": (
        f"{ARTICLE}<p class=author>This post was written by Ann Lee, Head of Tides</p>", "Ann Lee",
    ),
    "a label for interviews": (
        ("<meta name=twitter:label1 content='Interview by'>"
        "<meta name=twitter:data1 content='Ann Lee'>"),
        "Ann Lee",
    ),
    "a day behind an arrow": (
        f"{ARTICLE}<p class=author>by Ann Lee » Tue Aug 27, 2019</p>", "Ann Lee",
    ),
    "what was written": (f"{ARTICLE}<p class=author>Recipe by Ann Lee</p>", "Ann Lee"),
    "no photographer": (f"{ARTICLE}<p class=author>Photo by Bo Ek</p>", None),
    "its digits": (f"{ARTICLE}<b class=author>ann2024</b>", "ann2024"),
    "the user of a number": (f"{ARTICLE}<b class=author>user3080392</b>", "user3080392"),
    "its small words": (f"{ARTICLE}<p>By <b class=author>Human in the Loop</b></p>", "Human in the Loop"),
    "no category of its post": (f"{ARTICLE}<p class=byline>By Ann Lee in Tides</p>", "Ann Lee"),
    "no variable": (
        f"<meta name=author content=page.head.extra.author>{ARTICLE}<b class=author>Ann Lee</b>",
        "Ann Lee",
    ),
    "no guide for authors": (f"{ARTICLE}<a href=/AuthorGuide>Write for us</a>", None),
    "words": (f"{ARTICLE}<p>Von Ann Lee</p>", "Ann Lee"),
    "the site only where nobody else is named": (
        "<meta property=og:site_name content='The Harbour'>"
        "<meta name=author content='The Harbour'>" + ARTICLE + "<p class=byline>By Ann Lee",
        "Ann Lee",
    ),
    "the site": (
        "<meta property=og:site_name content='The Harbour'>"
        "<meta name=author content='The Harbour'>" + ARTICLE,
        "The Harbour",
    ),
    "not of a comment": (f"{ARTICLE}<div class=comments><b class=author>Troll</b></div>", None),
    "not of a review": (
        f"{ARTICLE}<div class=review><b class=author>Jo</b><p>By Max May</p></div>", None,
    ),
    "not of a card of a review": (
        f"{ARTICLE}<ul><li class=review-card><b class=author>Jo</b></ul>", None,
    ),
    "not of a review in microdata": (
        f"{ARTICLE}<div itemprop=review><span itemprop=author>Jo</span></div>", None,
    ),
    "the page that is a review": (
        f"<div class=movie-review itemprop=review>{ARTICLE}<b class=author>Ann Lee</b></div>",
        "Ann Lee",
    ),
    "the author of a review": (f"{ARTICLE}<b class=review-author>Ann Lee</b>", "Ann Lee"),
    "not of a list of articles": (INDEX, None),
    "the blog with a list of articles": (
        f"<meta name=author content='Ann Lee'>{INDEX}", "Ann Lee",
    ),
    "above a list of articles": (f"{ARTICLE}<p class=byline>By Ann Lee</p>{INDEX}", "Ann Lee"),
    "the first post with its headings": (
        ARTICLE + "".join(
            f"<div class=post><h3><a href='/t?p={n}#p{n}'>Re: Tides</a></h3><b class=author>ann{n}"
            "</b></div>" for n in range(2)
        ),
        "ann0",
    ),
    "not of other articles": (
        f"{ARTICLE}<div class=related><b class=author>Bo Ek</b></div>", None,
    ),
    "the footer of the article": (
        f"<article>{ARTICLE}<div><footer>Posted by <b class=author>Ann Lee</b></footer></div>",
        "Ann Lee",
    ),
    "not the footer of the page": (
        f"<article>{ARTICLE}</article><footer><b class=author>Bo Ek</b></footer>", None,
    ),
    "not the footer of a comment": (
        f"{ARTICLE}<article class=comment><footer><b class=author>Bo Ek</b></footer>", None,
    ),
    "no sentence": (f"{ARTICLE}<p>by using this site you agree</p>", None),
    "no role": ("<meta name=author content=admin>", None),
    "no number": ("<meta property=article:author content=262588213843>", None),
    "no way to sort": (f"{ARTICLE}<p>By Category</p>", None),
    "no dealer": (f"{ARTICLE}<p class=authorized-dealer>Ropes and Sails</p>", None),
    "an author of the authority": (
        f"{ARTICLE}<p class='authority author'>Ann Lee</p>", "Ann Lee",
    ),
    "no month of its date": (f"{ARTICLE}<p>By Ann Lee Dec 16, 2024</p>", "Ann Lee"),
    "what a click does is none": (
        f"{ARTICLE}<a class=username>Sign in</a><b class=author>Ann Lee</b>", "Ann Lee",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), AUTHORS.values(), ids=AUTHORS)
def test_author(page, expected):
    assert known(page).get("author") == expected


PLAIN = {
    "escaped twice": ("Bear&amp;#39;s &amp;amp; Bull&amp;nbsp;1&amp;hellip;", "Bear's & Bull 1…"),
    "no reference": ("AT&amp;T ?a=1&amp;copy=2 &lt;br> tags", "AT&T ?a=1&copy=2 <br> tags"),
    "tags": ("&lt;p>The &lt;b>tides&lt;/b>, here&lt;br>they rise&lt;/p>", "The tides, here they rise"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PLAIN.values(), ids=PLAIN)
def test_descriptions_are_plain(text, expected):
    page = f"<title>t</title><meta property=og:title content='{text}'>"
    facts = known(f"{page}<meta name=description content='{text}'>")
    assert facts["description"] == facts["og_title"] == facts["headline"] == expected


DESCRIPTIONS = {
    "repeated": ("<meta name=description content='The tides.'>" * 2, "The tides."),
    "as microdata": (
        ("<meta itemprop=description content='How the sea moves'>"
        "<meta name=description content='The tides.'>"), "The tides.",
    ),
    "only as microdata": ("<meta itemprop=description content='The tides.'>", "The tides."),
    "cut": (
        ("<meta name=description content='The tides of…'><meta name=description content=''>"
        "<meta name=description content='The tides of  the North Sea.'>"),
        "The tides of  the North Sea.",
    ),
    "several": (
        "<meta name=description content='The tides.'><meta name=description content=Winds>",
        "The tides., Winds",
    ),
    "empty": ("<meta name=description content=' '>", ""),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_repeated_descriptions_are_listed_once(page, expected):
    assert known(f"<title>t</title>{page}").get("description") == expected


DATES = {
    "as it is": ("<meta property=article:published_time content=2024-05-06T07:08:09.123Z>",
                 "2024-05-06T07:08:09.123Z"),
    "zone without colon": ("<meta name=date content='2024-05-06 07:08 +0200'>",
                           "2024-05-06T07:08:00+02:00"),
    "seconds": ("<meta name=pubdate content=1714979289>", "2024-05-06T07:08:09Z"),
    "compact": ("<meta name=sailthru.date content=20240506>", "2024-05-06"),
    "JSON-LD": (ld(POSTING), "2024-05-06T07:08:09+02:00"),
    "microdata": (f"{ARTICLE}<meta itemprop=datePublished content=2024-05-06>", "2024-05-06"),
    "the time that says so": (
        f"{ARTICLE}<time datetime=2025-01-01>x</time><time class=published datetime=2024-05-06>",
        "2024-05-06",
    ),
    "not a change": (
        f"{ARTICLE}<time class=updated datetime=2025-01-01>x</time><time datetime=2024-05-06>",
        "2024-05-06",
    ),
    "with the time of its byline": (
        f"{ARTICLE}<p class=byline>By Ann, <time datetime=2024-05-06T09:00:00Z>2024-05-06</time>",
        "2024-05-06T09:00:00Z",
    ),
    "with the time of the day that it shows": (
        f"{ARTICLE}<p class=byline>6 May 2024, <time datetime=2025-01-01T09:00:00Z>changed</time>",
        "2024-05-06",
    ),
    "a class": (f"{ARTICLE}<span class=post-date>6th May 2024</span>", "2024-05-06"),
    "words after the heading": (f"<p>1 June 2020</p>{ARTICLE}<p>May 6, 2024</p>", "2024-05-06"),
    "not of a teaser": (
        f"{ARTICLE}<div class=related><time datetime=2024-05-06>x</time></div>", None,
    ),
    "not of a user": (f"{ARTICLE}<p><b>Founded:</b> Dec 11, 2021</p><p>May 6, 2024", "2024-05-06"),
    "not of a user, in one text": (
        f"{ARTICLE}<p>Member since: Dec 11, 2021</p><p>Posted Mon May 6, 2024</p>", "2024-05-06",
    ),
    "not of a user, in a list": (f"{ARTICLE}<dl><dt>Joined</dt><dd>Dec 11, 2021</dd></dl>", None),
    "not of a building": (f"{ARTICLE}<p>The pier was built here on May 3, 1995.</p>", None),
    "not of a sentence": (f"{ARTICLE}<p>The pier opened on May 3, 1995.</p>", None),
    "of a sentence about the page": (f"{ARTICLE}<p>Posted on May 6, 2024.</p>", "2024-05-06"),
    "not of a change": (f"{ARTICLE}<p>Last updated on May 6, 2024.</p>", None),
    "not of an offer": (f"{ARTICLE}<p>Sale ends 05/06/2024</p>", None),
    "not of a quote": (
        f"{ARTICLE}<blockquote>It rose. <a href=/1>March 3, 2021</a></blockquote>", None,
    ),
    "not of a review": (f"{ARTICLE}<div class=customer-reviews><p>May 6, 2024</p></div>", None),
    "not of a list": (ARTICLE + "".join(f"<p>May {n}, 2024</p>" for n in range(16, 6, -1)), None),
    "not of a list of articles": (INDEX, None),
    "not of a list with a newer date at its end": (
        ARTICLE + "".join(f"<p>May {n}, 2024</p>" for n in (16, 15, 14, 13, 12, 16)), None,
    ),
    "not of a list of marked dates": (
        ARTICLE + "".join(f"<time>May {n}, 2024</time>" for n in range(16, 6, -1)), None,
    ),
    "the first of a thread": (
        ARTICLE + "".join(f"<time>May {n}, 2024</time>" for n in range(6, 16)), "2024-05-06",
    ),
    "not of a list in scripts": (
        ARTICLE + '<script>[{"publishedAt":"2024-05-06"},{"publishedAt":"2024-05-03"}]</script>',
        None,
    ),
    "no copyright": (f"{ARTICLE}<p>© 6 May 2024 The Harbour</p>", None),
    "no date": ("<meta name=date content=2024-13-45>", None),
    "not in the future": ("<meta name=date content=2199-01-01>", None),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), DATES.values(), ids=DATES)
def test_published_time(page, expected):
    assert known(page).get("published_time") == expected


WORDS = {
    "May 6, 2024": "en",
    "06 May 2024": "en",
    "Monday, 6. Mai 2024": "de",
    "6 mai 2024": "fr",
    "6 de mayo de 2024": "es",
    "6 maggio 2024": "it",
    "6 de maio de 2024": "pt",
    "6 maja 2024": "pl",
    "6 мая 2024": "ru",
    "2024年5月6日": "ja",
    "2024년 5월 6일": "ko",
    "06.05.2024": "de",
    "06/05/2024": "en-GB",
    "5/6/2024": "en-US",
    "2024/05/06": "en",
}


@pytest.mark.parametrize(("text", "language"), WORDS.items())
def test_dates_of_many_languages(text, language):
    page = f"<html lang={language}>{ARTICLE}<p class=date>{text}</p>"
    assert known(page)["published_time"] == "2024-05-06"


def test_the_publication_day_is_read_from_the_url_as_the_last_source():
    from scraper_service.content.convert import make_content
    from tests.content.pages import options, source

    page = source(ARTICLE, url="https://site.example/2024/05/06/tides.html")
    assert make_content(page, options()).known["published_time"] == "2024-05-06"


def test_visible_marks_of_a_home_page_are_of_its_entries():
    from scraper_service.content.convert import make_content
    from tests.content.pages import options, source

    marks = "<p class=byline>By Ann Lee<p><time>May 6, 2024</time>"
    marks += '<script>{"publishedAt":"2024-05-06"}</script>'
    for url, is_home in {
        "https://site.example/": True,
        "https://site.example": True,
        "https://site.example/?p=7": False,
        "https://site.example/#part": True,
        "https://site.example/#/": True,
        "https://site.example/#/posts/7": False,
    }.items():
        facts = make_content(source(ARTICLE + marks, url=url), options()).known
        assert {"author", "published_time"}.isdisjoint(facts) == is_home
    head = "<meta name=date content=2024-05-06>"
    facts = make_content(source(head, url="https://site.example/"), options()).known
    assert facts["published_time"] == "2024-05-06"


def test_a_change_is_not_a_publication():
    facts = known(ld({"@type": "Article", "dateModified": "2024-05-06"}))
    assert facts["modified_time"] == "2024-05-06"
    assert "published_time" not in facts


def test_an_unreadable_time_stays_as_text():
    meta = "<meta property=article:published_time content='last spring'>"
    assert known(meta)["published_time"] == "last spring"


GERMAN = (
    "Dieser Text ist auf Deutsch geschrieben, und das lässt sich gut erkennen. " * 3
)
LANGUAGES = {
    "html": ("<html lang=de-AT><p>English words here", "de-AT"),
    "Open Graph": ("<meta property=og:locale content=fr_FR><p>x", "fr-FR"),
    "header": ("<meta http-equiv=Content-Language content='nl, en'><p>x", "nl"),
    "its words": (f"<p>{GERMAN}", "de"),
    "too few words": ("<p>Dieser Text", None),
}


@pytest.mark.parametrize(("page", "expected"), LANGUAGES.values(), ids=LANGUAGES)
def test_language(page, expected):
    assert known(page).get("language") == expected


def test_headline_is_the_heading_that_the_title_speaks_of():
    page = (
        "<title>Tide tables explained | The Harbour</title><h1>The Harbour</h1>"
        "<h1>How tide tables are made, explained</h1>"
    )
    facts = known(page)
    assert facts["title"] == "Tide tables explained | The Harbour"
    assert facts["headline"] == "How tide tables are made, explained"


def test_headline_is_not_the_name_of_the_site():
    page = (
        "<title>Tides, explained at length for everybody - The Harbour News</title><meta "
        "property=og:site_name content='The Harbour News'><h1>The Harbour News</h1>"
        "<h1>Everybody needs tides explained</h1>"
    )
    assert known(page)["headline"] == "Everybody needs tides explained"


def test_headline_is_without_styles_and_signs():
    page = "<title>Making tide tables</title><h1><style>a{b:c}</style>Making tide tables ¶</h1>"
    assert known(page)["title"] == "Making tide tables"
    assert "headline" not in known(page)


def test_title_falls_back_on_other_names():
    assert known("<meta property=og:title content=OT><h1>x</h1>")["title"] == "OT"
    assert known("<h1>The only heading here</h1>")["title"] == "The only heading here"


def test_links_of_the_head():
    page = (
        "<link rel=alternate type=application/rss+xml href=/feed><link rel=canonical href=/c>"
        "<link rel=alternate type=application/atom+xml href=/atom>"
        "<link rel=alternate hreflang=de href=/de><p>x"
    )
    facts = known(page)
    assert facts["feeds"] == ["https://site.example/feed", "https://site.example/atom"]
    assert facts["canonical_url"] == "https://site.example/c"


def test_how_much_there_is_to_read():
    facts = known("<p>" + "word " * 714)
    assert (facts["word_count"], facts["reading_time"]) == ("714", "PT3M")
    facts = known("<p>" + "潮汐表" * 100 + " and two")
    assert (facts["word_count"], facts["reading_time"]) == ("302", "PT1M")
    assert "word_count" not in known("")


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, '{"@graph": {"@graph": 1}}', '[1, "x", null]', '{"@type": 5}'],
)
def test_invalid_json_ld_does_not_affect_metadata(text):
    page = f"<script type=application/ld+json>{text}</script><title>t</title>"
    assert known(page)["title"] == "t"


def test_json_ld_beyond_a_limit_of_all_scripts_is_not_read(monkeypatch):
    monkeypatch.setattr(evidence, "MAX_DATA", 100)
    first = {"@type": "Article", "author": "Ann Lee"}
    second = {"@type": "Article", "inLanguage": "de", "section": "x" * 40}
    page = f"{ld(first)}{ld(second)}<title>t</title>"
    assert known(page)["author"] == "Ann Lee"
    assert "language" not in known(page)


NEARLY_JSON = {
    "trailing commas": '{"@type":"Article","author":{"name":"Ann Lee",},"tags":["a","b",],%s,}',
    "comment of a line": '// of the shop\n{"@type":"Article", // its kind\n"author":"Ann Lee",%s}',
    "comment of JavaScript": '{"@type":"Article",/* by "us" */"author":"Ann Lee",%s}',
    "comment of HTML": '{"@type":"Article",<!-- the author -->"author":"Ann Lee",%s}',
    "comment before": '<!-- Article -->\n{"@type":"Article","author":"Ann Lee",%s,}',
    "comment around": '<!-- {"@type":"Article","author":"Ann Lee",%s,} -->',
    "CDATA": '<![CDATA[{"@type":"Article","author":"Ann Lee",%s,}]]>',
    "CDATA in comments": '//<![CDATA[\n{"@type":"Article","author":"Ann Lee",%s,}\n//]]>',
    "CDATA in other comments": '/*<![CDATA[*/{"@type":"Article","author":"Ann Lee",%s,}/*]]>*/',
    "line breaks": '{"@type":"Article","name":"Two\nlines\tand more","author":"Ann Lee",%s,}',
    "wrong escapes": r'{"@type":"Article","name":"It\'s C:\tides","author":"Ann Lee",%s}',
    "a semicolon": '{"@type":"Article","author":"Ann Lee",%s,};',
    "two objects": '{"@type":"WebSite"}{"@type":"Article","author":"Ann Lee",%s}',
    "an address in a text": '{"@type":"Article","url":"https://a.example//b","author":"Ann Lee",%s,}',
}  # fmt: skip


@pytest.mark.parametrize("text", NEARLY_JSON.values(), ids=NEARLY_JSON)
def test_json_ld_with_mistakes_is_read(text):
    text = text % '"datePublished":"2024-05-06"'
    facts = known(f"<script type=application/ld+json>{text}</script><title>t</title>")
    assert facts["author"] == "Ann Lee"
    assert facts["published_time"].startswith("2024-05-06")


def test_json_ld_in_character_references_is_read():
    text = "{&quot;@type&quot;:&quot;Article&quot;,&quot;author&quot;:&quot;A &amp; B Lee&quot;,}"
    facts = known(f"<script type=application/ld+json>{text}</script><title>t</title>")
    assert facts["author"] == "A & B Lee"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "piece",
    [
        '{"a":',
        '["',
        '"',
        '" ',
        "'\"",
        '"\\',
        "'\\",
        "/*",
        "<!--",
        "{]",
        '{"a":"b" c ',
        ",",
        "[}",
    ],
)
@pytest.mark.timeout(60)  # each takes less than a second
def test_json_ld_with_very_many_mistakes_gives_no_metadata(piece):
    text = '{"author": ' + (piece * 100_000)[:90_000]
    facts = known(f"<script type=application/ld+json>{text}</script><title>t</title>")
    assert facts["title"] == "t"
    assert "author" not in facts


STAMP = '<time datetime="2024-05-06T10:00:00Z">5/6/24, 10:00</time>'
CHANGES = {
    "MkDocs": '<small>Last update: <span class="git-revision-date-localized-plugin">May 6, '
    "2024</span></small>",
    "Material": '<span class="md-source-file__fact"><span title="Last update"></span><span'
    ' class="git-revision-date-localized-plugin" title="May 6, 2024 10:00:00 UTC">May 6, 2024'
    '</span></span><span class="md-source-file__fact"><span title="Created"></span><span'
    ' class="git-revision-date-localized-plugin">March 1, 2022</span></span>',
    "VitePress": f"<footer><p class=VPLastUpdated>Last updated: {STAMP}</p></footer>",
    "MDN": "<footer><p class=last-modified-date>This page was last modified on "
    f"{STAMP} by <a href=/c>contributors</a>.</p></footer>",
    "MediaWiki": "<ul><li id=footer-info-lastmod> This page was last edited on 6 May 2024, at "
    "10:00<span>&#160;(UTC)</span>.</li></ul>",
    "Docusaurus": f"<footer><span>Last updated<!-- --> on <b>{STAMP}</b> by <b>Ann</b></span>",
    "Sphinx": "<footer><p>&#169; Copyright 2020-2024, Ann. <span class=lastupdated>Last updated "
    "on May 06, 2024. </span></p></footer>",
    "Hugo": "<p>Last modified May 6, 2024: <a href=/c>fix a word (1f0e4c)</a></p>",
    "Confluence": "<ul><li>last modified by <a href=/a>Ann</a> on <a href=/d>May 6, 2024</a></ul>",
    "GitBook": f"<p>Last updated {STAMP.replace('5/6/24, 10:00', '4 months ago')}</p>",
    "microdata": "<time itemprop=dateModified datetime=2024-05-06>6 May</time>",
    "a meta element": "<meta name=updated_at content=2024-05-06T10:00:00Z>",
    "German": "<p>Zuletzt aktualisiert am 6. Mai 2024</p>",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_modification_date_is_not_the_publication_date(change):
    facts = known(
        f"<main><h1>How to install the tool</h1><p>You need this.</p>{change}</main>"
    )
    assert facts["modified_time"][:10] == "2024-05-06"
    assert "published_time" not in facts or facts["published_time"] == "2022-03-01"


def test_a_page_has_both_dates_of_a_line():
    facts = known(f"{ARTICLE}<p>Published March 1, 2022 · Updated May 6, 2024</p>")
    assert facts["published_time"] == "2022-03-01"
    assert facts["modified_time"] == "2024-05-06"
