"""``selectors``: values read exactly by CSS and XPath, through the API."""

from __future__ import annotations

import pytest

from tests.support.scripted_site import ScriptedSite
from tests.support.waiting import wait_until

SHOP = """<title>Shop</title><base href="/list/">
<nav><h2>Menu</h2></nav>
<div class=row data-id=7><h2> Lamp <small>new</small></h2><a href="l/1">go</a>
 <p class=price>Price: 19.50 EUR</p><ul class=tags><li>new<li>small</ul></div>
<div class=row data-id=8><h2>Table</h2><a href="https://other.example/t">go</a>
 <p class=price>none</p><div><p>One</p><p>Two<br>Three</p><script>no</script></div></div>
<table><tr><th>Weight<td>2,5 kg<tr><th>Sold<td>yes</table>"""

ROTA = """<h1>Rota</h1><p>Price: <span>€2.50</span><span>12 left</span></p>
<p class=cents>$19<sup>99</sup></p><p>Height: 1.2 m</p>
<table><tr><th>Task<th>Who<th>Until<tr><td>Mow<td>Ann<td>May 3
<tr><td>Weed<td>Bob<td>May 9</table>"""


@pytest.fixture(scope="module")
def web():
    linked = "<div class=titled><h2><a href=/lamp>Brass Lamp</a></h2></div>"
    pages = {
        "/rota": ROTA,
        "/shop": SHOP,
        "/empty": "<p>Nothing here.",
        "/links": linked,
    }
    with ScriptedSite(pages) as found:
        yield found


@pytest.fixture
def read(service, web):
    """Return a function that reads selectors from the shop, by fields or whole."""

    def call(*fields, path="/shop", schema=None, whole=None):
        selectors = whole or {"fields": list(fields)}
        wanted = {"type": "json", "selectors": selectors}
        if schema:
            wanted["schema"] = schema
        sent = {"url": web.url(path), "maxAge": 0, "formats": [wanted]}
        reply = service.post("/v2/scrape", sent)
        assert reply.status == 200, reply
        page = reply.json["data"]
        assert page["metadata"]["answeredBy"] == "selectors"
        call.warning = page.get("warning", "")
        return page["json"]

    return call


def one(read, **field):
    return read({"name": "x", **field})["x"]


def test_the_example_of_the_contract(read, web):
    fields = [
        {"name": "title", "selector": "h2::text"},
        {"name": "url", "selector": "a::attr(href)", "transform": "absolute_url"},
        {
            "name": "price",
            "selector": ".price",
            "type": "regex",
            "pattern": "([0-9.]+)",
            "transform": "number",
        },
        {"name": "tags", "selector": "ul.tags li", "type": "list"},
    ]
    base = [{"name": "id", "type": "attribute", "attribute": "data-id"}]
    whole = {"baseSelector": "div.row", "baseFields": base, "fields": fields}
    assert read(whole=whole) == [
        {
            "id": "7",
            "title": "Lamp",
            "url": web.url("/list/l/1"),
            "price": 19.5,
            "tags": ["new", "small"],
        },
        {
            "id": "8",
            "title": "Table",
            "url": "https://other.example/t",
            "price": None,
            "tags": [],
        },
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"selector": "div.row h2"}, "Lamp new"),
        ({"selector": "xpath://div[2]/h2"}, "Table"),
        ({"selector": "//div[@class='row'][2]/div"}, "One Two Three"),
        ({"selector": "(//h2)[last()]"}, "Table"),
        ({"selector": "css:nav > h2", "transform": "uppercase"}, "MENU"),
        ({"selector": "xpath:count(//li)"}, 2),
        ({"selector": "nav", "type": "html"}, "<nav><h2>Menu</h2></nav>"),
        ({"selector": ".nothing", "default": 0}, 0),
        ({"selector": ".nothing", "default": None}, None),
        ({"selector": ".nothing", "type": "list"}, []),
        (
            {"selector": "a", "type": "list", "attribute": "href"},
            ["l/1", "https://other.example/t"],
        ),
        (
            {
                "selector": "a",
                "type": ["attribute", "regex"],
                "attribute": "href",
                "pattern": r"^\w",
            },
            "l",
        ),
        (
            {
                "selector": ".price",
                "type": "regex",
                "pattern": r"(\d+)\.(\d+)",
                "group": 2,
                "transform": ["strip", "number"],
            },
            50,
        ),
        (
            {
                "selector": "nav",
                "type": "nested",
                "fields": [{"name": "t", "selector": "h2"}],
            },
            {"t": "Menu"},
        ),
        ({"selector": "aside", "type": "nested", "fields": [{"name": "t"}]}, None),
        (
            {
                "selector": "tr",
                "type": "nested_list",
                "fields": [
                    {"name": "key", "selector": "th"},
                    {"name": "value", "selector": "./td"},
                    {"name": "before", "selector": "../tr[1]/th"},
                ],
            },
            [
                {"key": "Weight", "value": "2,5 kg", "before": "Weight"},
                {"key": "Sold", "value": "yes", "before": "Weight"},
            ],
        ),
    ],
)
def test_each_kind_of_field(read, field, value):
    assert one(read, **field) == value


def test_a_page_without_matches_has_null_in_every_column(read):
    fields = [{"name": "a", "selector": "h2"}, {"name": "b", "selector": "//h3/text()"}]
    assert read(*fields, path="/empty") == {"a": None, "b": None}
    assert read(whole={"baseSelector": "tr", "fields": fields}, path="/empty") == []


def test_selectors_that_find_no_value_are_warnings(read):
    key = {"name": "key", "selector": "th"}
    gone = {"name": "gone", "selector": "th.no"}
    fields = [
        {
            "name": "price",
            "selector": ".price",
            "type": "regex",
            "pattern": "([0-9.]+)",
        },
        {"name": "tags", "selector": "ul.tags li", "type": "list"},
        {"name": "link", "selector": "h2 > a"},
        {"name": "old", "selector": "s", "default": 0},
        {"name": "id", "type": "attribute", "attribute": "data-no"},
        {"name": "ids", "selector": "//b", "type": "list"},
    ]
    assert len(read(whole={"baseSelector": "div.row", "fields": fields})) == 2
    assert read.warning == "No value found by selectors: link (h2 > a), id, ids (//b)."
    nested = {"selector": "tr", "type": "nested_list", "fields": [key, gone]}
    read({"name": "facts", **nested}, {"name": "none", **nested, "selector": "dl"})
    assert read.warning == (
        "No value found by selectors: facts.gone (th.no), none (dl)."
    )
    assert read(whole={"baseSelector": "div.rwo", "fields": fields}) == []
    assert read.warning == "No element matches baseSelector: div.rwo."


def test_the_text_node_of_an_element_excludes_its_link(read):
    """As in parsel, and as the document says."""
    link = {"baseSelector": "div.titled", "fields": []}
    texts = {"h2": "Brass Lamp", "h2::text": None, "h2 ::text": "Brass Lamp"}
    texts["h2 a::text"] = "Brass Lamp"
    for number, selector in enumerate(texts):
        link["fields"].append({"name": f"n{number}", "selector": selector})
    assert [[*row.values()] for row in read(whole=link, path="/links")] == [
        [*texts.values()]
    ]
    assert read.warning == "No value found by selectors: n1 (h2::text)."


def test_attributes_without_values_are_a_warning(service, web):
    pairs = [("h2", "id"), ("div.row", "data-id"), ("h7", "class")]
    selectors = [{"selector": s, "attribute": a} for s, a in pairs]
    wanted = [{"type": "attributes", "selectors": selectors}]
    sent = {"url": web.url("/shop"), "maxAge": 0, "formats": wanted}
    page = service.post("/v2/scrape", sent).json["data"]
    assert [pair["values"] for pair in page["attributes"]] == [[], ["7", "8"], []]
    assert page["warning"] == "No value found by attributes: h2 (id), h7 (class)."


def test_a_schema_casts_and_its_misses_are_warnings(read):
    fields = [
        {"name": "weight", "selector": "//tr[1]/td"},
        {"name": "sold", "selector": "//tr[2]/td"},
        {"name": "title", "selector": "h2"},
    ]
    schema = {
        "type": "object",
        "properties": {
            "weight": {"type": "number"},
            "sold": {"type": "boolean"},
            "title": {"type": "integer"},
        },
    }
    found = read(*fields, schema=schema)
    assert found == {"weight": 2.5, "sold": True, "title": "Menu"}
    assert "/title" in read.warning


def test_a_base_with_too_many_matches_is_cut_with_a_warning(service):
    page = "<li>x" * 10_050
    with ScriptedSite({"/": page}) as web:
        whole = {"baseSelector": "li", "fields": [{"name": "x"}]}
        wanted = [{"type": "json", "selectors": whole}]
        sent = {"url": web.url("/"), "maxAge": 0, "formats": wanted}
        found = service.post("/v2/scrape", sent).json["data"]
    assert len(found["json"]) == 10_000
    assert "10000" in found["warning"]


def test_version_1_and_change_tracking_read_selectors(service, web):
    selectors = {"fields": [{"name": "title", "selector": "div.row h2"}]}
    sent = {"url": web.url("/shop"), "maxAge": 0, "formats": ["extract"]}
    sent["extract"] = {"selectors": selectors}
    page = service.post("/v1/scrape", sent).json["data"]
    assert page["extract"] == {"title": "Lamp new"}
    tracked = {"type": "changeTracking", "modes": ["json"], "selectors": selectors}
    sent = {"url": web.url("/shop"), "maxAge": 0, "formats": ["markdown", tracked]}
    sent["waitFor"] = 0
    assert service.post("/v2/scrape", sent).status == 200
    again = service.post("/v2/scrape", sent).json["data"]["changeTracking"]
    assert again["changeStatus"] == "same"


def test_pages_with_selectors_cost_no_more_and_crawls_have_them(service, web):
    wanted = {"fields": [{"name": "title", "selector": "title"}]}
    sent = {"urls": [web.url("/shop"), web.url("/empty")], "maxAge": 0}
    sent["formats"] = [{"type": "json", "selectors": wanted}]
    job = service.post("/v2/batch/scrape", sent).json["id"]
    path = f"/v2/batch/scrape/{job}"
    wait_until(lambda: service.get(path).json["status"] == "completed")
    status = service.get(path).json
    titles = {page["json"]["title"] for page in status["data"]}
    assert titles == {"Shop", None}
    assert status["creditsUsed"] == 2


FIELD = ["formats", 0, "selectors", "fields", 0]


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ({"selector": "div["}, "selector"),
        ({"selector": "//div["}, "selector"),
        ({"selector": "x" * 1001}, "selector"),
        ({"type": "regex"}, "pattern"),
        ({"type": "regex", "pattern": "("}, "pattern"),
        ({"type": "regex", "pattern": "(a)", "group": 2}, "group"),
        ({"type": "attribute"}, "attribute"),
        ({"attribute": "href"}, "attribute"),
        ({"type": "computed"}, "type"),
        ({"type": ["list", "regex"], "pattern": "a"}, "type"),
        ({"type": 5}, "type"),
        ({"type": "nested"}, "fields"),
        ({"fields": [{"name": "y"}]}, "fields"),
        ({"transform": "reverse"}, "transform"),
        ({"expression": "1+1"}, "expression"),
        ({"unknown": 1}, None),
    ],
)
def test_a_bad_field_is_named(service, field, key):
    wanted = {"type": "json", "selectors": {"fields": [{"name": "x", **field}]}}
    sent = {"url": "https://x.example/", "formats": [wanted]}
    reply = service.post("/v2/scrape", sent)
    assert reply.status == 400, reply
    paths = [issue["path"] for issue in reply.json["details"]]
    assert [*FIELD, key] in paths if key else FIELD in paths


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"selectors": {"fields": []}}, "fields"),
        ({"selectors": {"fields": [{"name": "x"}, {"name": "x"}]}}, "twice"),
        ({"selectors": {"fields": [{"name": "x"}]}, "prompt": "titles"}, "prompt"),
        ({"selectors": {"baseSelector": "div"}}, "fields"),
        (
            {"selectors": {"fields": [{"name": "x"}], "baseFields": [{"name": "y"}]}},
            "baseSelector",
        ),
        ({"selectors": "div"}, "selectors"),
        (
            {"selectors": {"fields": [{"name": "x", "type": "regex", "pattern": "("}]}},
            "not a regular expression (RE2): '(': missing ): (",
        ),
    ],
)
def test_a_bad_object_is_named(service, wanted, named):
    sent = {"url": "https://x.example/", "formats": [{"type": "json", **wanted}]}
    reply = service.post("/v2/scrape", sent)
    assert reply.status == 400, reply
    assert named in str(reply.json)


def test_fields_may_not_stand_in_fields_for_ever(service):
    field = {"name": "x"}
    for _ in range(6):
        field = {"name": "x", "selector": "p", "type": "nested", "fields": [field]}
    sent = {"url": "https://x.example/"}
    sent["formats"] = [{"type": "json", "selectors": {"fields": [field]}}]
    reply = service.post("/v2/scrape", sent)
    assert reply.status == 400
    assert "5 levels" in str(reply.json)


@pytest.mark.parametrize(
    "selector", ["xpath:number('x')", "xpath:(1 div 0)", "xpath:-1 div 0"]
)
def test_numbers_that_json_cannot_represent_are_null(read, selector):
    assert one(read, selector=selector) is None


@pytest.mark.parametrize("base", ["//text()", "xpath:(1)", "//@class", "//comment()"])
def test_a_base_of_no_elements_has_no_results(read, base):
    field = {"name": "x", "selector": "h2"}
    assert read(whole={"baseSelector": base, "fields": [field]}) == []


@pytest.mark.parametrize(
    "selector",
    [
        "//*[count(//*[count(//*)>0])>0]",
        "//p[following::p[following::p[following::q]]]",
        "p ~ p ~ p ~ p ~ p ~ q",
    ],
)
def test_selectors_without_an_end_in_sight_are_refused(service, web, selector):
    field = {"name": "x", "selector": selector}
    wanted = {"type": "json", "selectors": {"fields": [field]}}
    body = {"url": web.url("/shop"), "formats": [wanted]}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    assert "takes too long on large pages" in str(reply.json)


@pytest.mark.parametrize(
    ("selector", "named"),
    [
        ('//h1[re:test(., "x")]', "unknown prefix 're': only 'xml' is known"),
        ("//child::svg:*", "unknown prefix 'svg'"),
        ("svg|a", "unknown prefix 'svg'"),
        ("//a[matches(., 'x')]", "unknown function 'matches'"),
        ("//a[. = $x]", "unknown variable '$x'"),
    ],
)
def test_a_name_that_no_page_knows_is_refused(service, selector, named):
    field = {"name": "x", "selector": selector}
    wanted = {"type": "json", "selectors": {"fields": [field]}}
    body = {"url": "https://x.example/", "formats": [wanted]}
    reply = service.post("/v2/scrape", body)
    assert reply.status == 400
    [issue] = reply.json["details"]
    assert issue["path"] == [*FIELD, "selector"]
    assert named in issue["message"]


@pytest.mark.parametrize(
    "selector",
    [
        "//a[(1) or (2)][not(. = 'x:y($a)')]/ancestor-or-self::node()",
        "//p[@xml:lang][has-class('a')]/following-sibling::text()",
        "//*[local-name() = 'a' and (position() mod (2) = 1)][last ()]",
        'xpath:string(//a[contains(., "re:test(")])',
    ],
)
def test_names_that_every_page_knows_are_taken(read, selector):
    one(read, selector=selector)


def test_selectors_that_browsers_copy_are_taken(read):
    copied = " > ".join(
        f"{name}:nth-child({number})"
        for name, number in (("body", 2), ("div", 2), ("h2", 1), ("small", 1))
    )
    assert one(read, selector=copied) in {None, "new"}


def test_numbers_of_two_elements_are_not_joined(read):
    fields = [
        {"name": "price", "selector": "h1 + p", "transform": "number"},
        {"name": "text", "selector": "h1 + p"},
        {"name": "cents", "selector": ".cents"},
    ]
    schema = {"type": "object", "properties": {"cents": {"type": "number"}}}
    assert read(*fields, path="/rota", schema=schema) == {
        "price": 2.5,
        "text": "Price: €2.50 12 left",
        "cents": 19.99,
    }


def test_a_schema_reads_tables_units_and_neighbouring_numbers(service, web):
    strings = {"type": "array", "items": {"type": "string"}}
    number = {"type": "number"}
    properties = {
        "tasks": strings,
        "who": {"type": "string"},
        "price_eur": number,
        "height_cm": number,
    }
    wanted = {"type": "json", "schema": {"type": "object", "properties": properties}}
    sent = {"url": web.url("/rota"), "maxAge": 0, "formats": [wanted]}
    page = service.post("/v2/scrape", sent).json["data"]
    assert page["json"] == {"tasks": ["Mow", "Weed"], "price_eur": 2.5}
    assert page["warning"].count("who") == 1
    assert page["warning"].count("height_cm") == 1  # the page has metres
