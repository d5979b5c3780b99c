"""The web page in Chromium, used as a person uses it."""

from __future__ import annotations

import json
import re
import urllib.parse

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.conftest import KEY
from tests.support.crash import kill
from tests.support.monitors import create, run, scrape
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, answer, page, sitemap
from tests.support.search_engines import SearchEngines
from tests.support.waiting import wait_until
from tests.web.conftest import WAIT_MS, Tab
from tools.bench.postgres import Postgres, PostgresMissing

SCREENS = (
    *("play", "play?op=crawl", "jobs", "monitors", "monitors/new"),
    *("usage", "health", "reference"),
)
SIZES = {"wide": (1440, 900), "narrow": (360, 740)}
HOSTILE = (
    "<script>document.title='taken';window.top.taken=1</script>"
    '<img src=x onerror="window.top.taken=1">'
)


@pytest.fixture(scope="module")
def crawled(service, site):
    """The id of a crawl of 12 pages, one of which fails."""
    body = {"url": site.url("/site/12-flaky5/p/"), "limit": 20, "sitemap": "skip"}
    started = service.post("/v2/crawl", body)
    job = started.json["id"]
    wait_until(lambda: service.get(f"/v2/crawl/{job}").json["status"] == "completed")
    return job


def settle(shown) -> None:
    """Wait until a screen has read what it shows."""
    waiting = shown.get_by_text(re.compile("^(Reading|Rendering|Waiting)[^.]*…$"))
    expect(waiting.filter(visible=True)).to_have_count(0)


def has_overflow(shown) -> bool:
    wide = "document.documentElement.scrollWidth > innerWidth"
    return bool(shown.evaluate(wide))


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_screen_is_readable(tab, crawled, size, scheme):
    width, height = SIZES[size]
    shown = tab.page
    shown.set_viewport_size({"width": width, "height": height})
    shown.emulate_media(color_scheme=scheme)
    places = [
        f"jobs/{crawled}?kind=crawl&tab={name}"
        for name in ("pages", "errors", "quality", "report")
    ]
    for place in (*SCREENS, *places):
        tab.go(place)
        settle(shown)
        expect(shown.get_by_role("heading").first).to_be_attached()
        assert not has_overflow(shown), place
        found = Axe().run(shown)
        told = [
            (rule["id"], [node["html"][:200] for node in rule["nodes"]])
            for rule in found.response["violations"]
        ]
        assert told == [], place


@pytest.mark.full
def test_a_page_is_scraped_by_keyboard(tab, site):
    shown = tab.page
    shown.get_by_role("textbox", name="url").focus()
    shown.keyboard.type(site.url("/article"))
    shown.keyboard.press("Control+Enter")
    result = shown.get_by_role("region", name="Result")
    expect(result.get_by_role("tab", name="Rendered")).to_be_visible()
    frame = result.frame_locator("iframe")
    expect(frame.get_by_role("heading").first).to_be_visible()
    result.get_by_role("button", name="Beside its Markdown").click()
    expect(result.locator("pre.code")).to_contain_text("#")
    expect(frame.get_by_role("heading").first).to_be_visible()
    result.get_by_role("tab", name="Rendered").focus()
    shown.keyboard.press("ArrowRight")
    expect(result.get_by_role("tab", name="Markdown")).to_be_focused()
    expect(result.locator("pre.code")).to_contain_text("#")
    shown.keyboard.press("End")
    expect(result.locator("pre.code")).to_contain_text('"metadata"')
    result.get_by_role("tab", name="Why").click()
    result.get_by_role("button", name="Show the blocks").click()
    expect(result.get_by_text("kept", exact=True).first).to_be_visible()
    field = result.get_by_role("textbox", name="CSS or XPath")
    field.fill("h1::text")
    field.press("Enter")
    expect(result.get_by_text("1 match", exact=True)).to_be_visible()
    field.fill("h1[")
    field.press("Enter")
    expect(result.get_by_role("alert")).to_contain_text("not a CSS selector: 'h1['")
    tab.faults.clear()  # the browser notes the answer 400


def test_no_chance_decides_on_a_small_page(tab, site):
    shown = tab.page
    shown.get_by_role("textbox", name="url").fill(site.url("/page/1"))
    shown.keyboard.press("Control+Enter")
    result = shown.get_by_role("region", name="Result")
    result.get_by_role("tab", name="Why").click()
    result.get_by_role("button", name="Show the blocks").click()
    expect(result).to_contain_text("all blocks but menus and footers are kept.")


def test_the_form_is_shown_as_equivalent_code(tab, site, service):
    shown = tab.page
    url = site.url("/page/1?q='quoted'")
    shown.get_by_role("textbox", name="url").fill(url)
    code = shown.get_by_role("region", name="The same call as code")
    for language, text in (
        ("curl", "/v2/scrape -H"),
        ("Python", "requests.post("),
        ("JavaScript", "await fetch("),
        ("shell", "scraper-service scrape "),
    ):
        code.get_by_role("tab", name=language).click()
        expect(code.locator("pre")).to_contain_text(text)
        expect(code.locator("pre")).to_contain_text("quoted")


def test_a_link_restores_the_form(tab, site):
    body = {"url": site.url("/page/1"), "formats": ["html"], "waitFor": 5}
    terms = urllib.parse.urlencode({"op": "scrape", "body": json.dumps(body)})
    tab.page.goto("about:blank")
    tab.page.goto(f"{tab.url}/#/play?{terms}")
    expect(tab.page.get_by_role("textbox", name="url")).to_have_value(body["url"])
    expect(tab.page.get_by_role("checkbox", name="html", exact=True)).to_be_checked()
    expect(tab.page.get_by_role("checkbox", name="markdown")).not_to_be_checked()


def test_wrong_values_are_reported_at_their_option(tab):
    shown = tab.page
    shown.get_by_role("button", name="Run scrape").click()
    expect(shown.get_by_role("alert")).to_contain_text("url")
    shown.get_by_role("textbox", name="url").fill("ftp://a.example/")
    shown.get_by_role("button", name="Run scrape").click()
    expect(shown.get_by_role("alert")).to_be_visible()
    expect(shown.get_by_role("textbox", name="url")).to_have_value("ftp://a.example/")
    tab.faults.clear()  # the browser notes the answer 400
    tab.go("play?op=crawl")
    limit = shown.get_by_role("spinbutton", name="limit", exact=True)
    limit.fill("0")
    expect(shown.get_by_text("at least 1 is expected")).to_be_visible()


def test_maps_searches_and_files(tab, site, tmp_path):
    shown = tab.page
    tab.go("play?op=map")
    shown.get_by_role("textbox", name="url").fill(site.url("/site/5/p/"))
    shown.get_by_role("button", name="Run map").click()
    expect(shown.get_by_role("heading", name="URLs")).to_be_visible()
    tab.go("play?op=parse")
    path = tmp_path / "tide.csv"
    path.write_text("hour,height\n4,5.1\n")
    shown.locator("input[type=file]").set_input_files(path)
    shown.get_by_role("button", name="Run parse").click()
    result = shown.get_by_role("region", name="Result")
    expect(
        result.frame_locator("iframe").get_by_role("cell", name="5.1")
    ).to_be_visible()


@pytest.mark.full
def test_pages_of_search_results_are_shown_like_scraped_pages(
    browser, start_service, site
):
    results = [{"url": site.url("/article"), "title": "Found", "text": "It"}]
    results += [{"url": site.url("/nowhere"), "title": "Lost", "text": "It"}]
    with SearchEngines({"web": results}) as engines:
        service = start_service(**engines.environment("searxng"))
        tab = Tab(browser, service.url)
        shown = tab.sign_in()
        body = {"query": "it", "scrapeOptions": {"formats": ["markdown"]}}
        tab.go(
            f"play?{urllib.parse.urlencode({'op': 'search', 'body': json.dumps(body)})}"
        )
        shown.get_by_role("button", name="Run search").click()
        result = shown.get_by_role("region", name="Result").first
        expect(result.get_by_text("web: 2")).to_be_visible()
        result.get_by_text("The page", exact=True).first.click()
        opened = result.get_by_role("region", name="Result")
        expect(opened).to_have_count(1)
        expect(
            opened.frame_locator("iframe").get_by_role("heading").first
        ).to_be_visible()
        opened.get_by_role("tab", name="Metadata").click()
        expect(
            opened.get_by_role("row", name=re.compile("^statusCode"))
        ).to_be_visible()
        tab.context.close()
        assert tab.faults == []


def test_team_limits_and_keys_are_shown(tab, service):
    shown = tab.go("usage")
    keys = shown.get_by_role("region", name="Keys")
    own = keys.get_by_role("row", name=re.compile("signed in with it"))
    expect(own.get_by_role("cell").first).to_contain_text(f"fc-…{KEY[-4:]}")
    limits = shown.get_by_role("region", name="Team and limits")
    expect(limits.get_by_role("row", name="Pages at a time")).to_be_visible()
    expect(limits.get_by_role("row", name="Calls a minute no limit")).to_be_visible()
    assert KEY not in shown.content()


def test_the_limits_of_calls_are_shown_by_mode(browser, start_service):
    service = start_service(SCRAPER_RATE_LIMITS="scrape=7,crawl=1500")
    tab = Tab(browser, service.url)
    tab.sign_in()
    limits = tab.go("usage").get_by_role("region", name="Team and limits")
    rows = limits.get_by_role("row", name=re.compile("^Calls a minute"))
    expect(rows).to_have_text(re.compile("scrape 7crawl 1,500$"))


def test_a_crawl_is_watched_paused_changed_killed_and_goes_on(
    browser, start_service, site, tmp_path
):
    service = start_service(SCRAPER_LEASE_S="2")
    tab = Tab(browser, service.url)
    shown = tab.sign_in()
    tab.go("play?op=crawl")
    shown.get_by_role("textbox", name="url").fill(site.url("/site/300-slow60/p/"))
    shown.get_by_role("spinbutton", name="limit", exact=True).fill("250")
    shown.get_by_role("button", name="Start crawl").click()
    delivered = shown.locator(".legend li").first
    expect(delivered).not_to_have_text("0 delivered")
    shown.get_by_role("button", name="Pause").click()
    expect(shown.get_by_text("paused", exact=True)).to_be_visible()
    expect(shown.locator(".legend")).to_contain_text("0 being fetched")
    shown.get_by_role("button", name="Change…").click()
    form = shown.get_by_role("form", name="Change the running job")
    form.get_by_role("spinbutton", name="limit", exact=True).fill("260")
    form.get_by_role("button", name="Apply").click()
    expect(shown.get_by_text("Changed:")).to_be_visible()
    shown.get_by_role("button", name="Resume").click()
    expect(shown.get_by_text("running", exact=True)).to_be_visible()
    before = int(delivered.inner_text().split()[0])
    expect(delivered).not_to_have_text(f"{before} delivered")

    port = urllib.parse.urlsplit(service.url).port
    kill(service)
    expect(shown.get_by_text("The service cannot be reached").first).to_be_visible()
    start_service(tmp_path, SCRAPER_LEASE_S="2", SCRAPER_PORT=str(port))
    expect(delivered).to_have_text("260 delivered", timeout=3 * WAIT_MS)
    expect(shown.get_by_text("completed", exact=True)).to_be_visible()
    parts = [
        int(text.split()[0])
        for text in shown.locator(".legend li").all_inner_texts()[:-1]
    ]
    known = shown.locator(".legend li").last.inner_text()
    assert f"{sum(parts)} URLs" in known
    shown.get_by_text("Download 260 pages").click()
    with shown.expect_download() as download:
        shown.get_by_role("link", name="JSON Lines").click()
    lines = download.value.path().read_text().splitlines()
    urls = {json.loads(line)["metadata"]["sourceURL"] for line in lines}
    assert (len(lines), len(urls)) == (260, 260)
    tab.context.close()
    assert [
        f
        for f in tab.faults
        if "ERR_CONNECTION" not in f and "incomplete" not in f.lower()
    ] == []


@pytest.mark.full
def test_a_job_is_downloaded_in_every_format(tab, crawled, service):
    shown = tab.page
    found = service.get(f"/v2/crawl/{crawled}").json
    pages, failed = found["completed"], found["total"] - found["completed"]
    summary = shown.get_by_text(f"Download {pages} pages")
    tab.go(f"jobs/{crawled}?kind=crawl")
    summary.click()
    files = shown.get_by_role("table", name="Files")
    expect(files.get_by_role("link")).to_have_count(6)
    expect(files.get_by_text(f"{pages} pages")).to_have_count(6)
    starts = {"CSV": b"url,title", "Markdown": b"PK", "Parquet": b"PAR1"}
    for name, start in {**starts, "WARC": b"\x1f\x8b", "WACZ": b"PK"}.items():
        with shown.expect_download() as download:
            files.get_by_role("link", name=name, exact=True).click()
        data = download.value.path().read_bytes()
        assert data.startswith(start)
        assert crawled[:8] in download.value.suggested_filename
    with shown.expect_download() as download:
        shown.get_by_role("link", name="the errors").click()
    assert len(download.value.path().read_text().splitlines()) == 1 + failed
    # A file that was sent has a size the next time.
    summary.click()
    summary.click()
    expect(files.get_by_text(re.compile(f"{pages} pages, [0-9.]+ k?B"))).to_have_count(
        5
    )
    assert Axe().run(shown).response["violations"] == []


@pytest.mark.full
def test_lists_of_any_length_make_few_rows(tab, crawled, site):
    shown = tab.page
    tab.go(f"jobs/{crawled}?kind=crawl")
    pages = shown.get_by_role("list", name="Pages")
    pages.get_by_role("button").first.click()
    expect(shown.get_by_role("region", name="Result")).to_be_visible()
    tab.go(f"jobs/{crawled}?kind=crawl&tab=urls")
    rows = shown.get_by_role("list", name="URLs").get_by_role("listitem")
    expect(rows.first).to_be_visible()
    rows.first.click()
    told = shown.get_by_role("region", name="This URL")
    expect(told).to_contain_text("Why")
    form = shown.get_by_role("form", name="A missing URL")
    for url, text in (
        ("https://elsewhere.example/", "allowExternalLinks would follow it"),
        (site.url("/site/12-flaky5/p/99"), "has a link to it"),
    ):
        form.get_by_label("URL").fill(url)
        form.get_by_role("button", name="Explain").click()
        expect(form.get_by_role("status")).to_contain_text(text)
    tab.go("jobs")
    jobs = shown.get_by_role("list", name="Jobs").get_by_role("listitem")
    expect(jobs.first).to_be_visible()
    shown.get_by_label("until").fill("2020-01-31")
    expect(shown.get_by_text("No jobs here")).to_be_visible()
    expect(shown.get_by_label("until")).to_have_value("2020-01-31")
    shown.get_by_label("until").fill("2999-01-31")
    expect(jobs.first).to_be_visible()


@pytest.mark.full
def test_sitemaps_are_no_pages_of_a_crawl(tab, service):
    with ScriptedSite({"/": page("/shop/lamp"), "/shop/lamp": page()}) as mapped:
        mapped.put("/sitemap.xml", sitemap(mapped.url("/shop/lamp")))
        listed = answer(f"Sitemap: {mapped.url('/sitemap.xml')}")
        mapped.put("/robots.txt", listed)
        job = service.post("/v2/crawl", {"url": mapped.url("/")}).json["id"]
        wait_until(lambda: service.get(f"/v2/crawl/{job}").json["status"] != "scraping")
    shown = tab.go(f"jobs/{job}?kind=crawl")
    pages = shown.get_by_role("list", name="Pages").get_by_role("listitem")
    expect(pages).to_have_count(2)
    expect(shown.get_by_text("are listed here")).to_have_count(0)
    shown.get_by_role("tab", name="URLs").click()
    urls = shown.get_by_role("list", name="URLs").get_by_role("listitem")
    expect(urls.filter(has_text="/robots.txtrobots")).to_have_count(1)
    shown.get_by_role("tab", name="Site tree").click()
    tree = shown.get_by_role("tabpanel")
    expect(tree.get_by_text("Site 2", exact=True)).to_be_visible()
    expect(tree.get_by_text(re.compile("robots|sitemap"))).to_have_count(0)


@pytest.mark.full
def test_a_list_of_any_length_is_one_tab_stop(tab, service):
    with ScriptedSite({}) as lists:
        links = [f"/{number}" for number in range(60)]
        lists.put("/", page(*links))
        body = {"url": lists.url("/"), "limit": 1, "sitemap": "skip"}
        job = service.post("/v2/crawl", body).json["id"]
        wait_until(lambda: service.get(f"/v2/crawl/{job}").json["status"] != "scraping")
    shown = tab.go(f"jobs/{job}?kind=crawl&tab=urls")
    rows = shown.get_by_role("list", name="URLs")
    expect(rows.get_by_role("button").first).to_be_visible()
    expect(shown.get_by_text("1 to 14 of 61: the list scrolls.")).to_be_visible()
    shown.get_by_role("button", name="Refresh").focus()
    shown.keyboard.press("Tab")
    expect(rows.get_by_role("button").first).to_be_focused()
    focused = rows.locator("button:focus")
    for key, text in (("End", "/59"), ("PageUp", "/46"), ("ArrowDown", "/47")):
        shown.keyboard.press(key)
        expect(focused).to_contain_text(f"{text}limit")
        expect(focused).to_be_in_viewport()
    expect(shown.get_by_text("48 to 61 of 61: the list scrolls.")).to_be_visible()
    shown.keyboard.press("Enter")
    told = shown.get_by_role("region", name="This URL")
    expect(told).to_contain_text("/47")
    shown.get_by_role("list", name="URLs").locator("button:focus").press("Tab")
    expect(rows.locator("button:focus")).to_have_count(0)


def test_failed_pages_are_grouped_and_retried(tab, crawled):
    shown = tab.page
    tab.go(f"jobs/{crawled}?kind=crawl&tab=errors")
    group = shown.locator("details.group").first
    group.locator("summary").click()
    group.get_by_role("button", name="Retry these").click()
    expect(shown.get_by_text("fetched again")).to_be_visible()
    expect(shown.get_by_text("completed", exact=True)).to_be_visible()


@pytest.mark.full
def test_other_formats_are_made_of_a_finished_crawl(tab, crawled):
    shown = tab.page
    tab.go(f"jobs/{crawled}?kind=crawl")
    shown.get_by_role("button", name="Other formats…").click()
    shown.get_by_label("links").check()
    shown.get_by_role("button", name="Make").click()
    shown.get_by_role("link", name="another job").click()
    expect(shown.get_by_text("completed", exact=True)).to_be_visible()


def test_the_quality_of_a_crawl_is_shown(tab, service):
    pages = {"/": page("/a", "/b", title="Lamps"), "/a": page(title="A lamp")}
    schema = {"type": "object", "properties": {"title": {}, "price": {}}}
    with ScriptedSite(pages) as site:
        scrape = {"formats": [{"type": "json", "schema": schema}]}
        body = {"url": site.url("/"), "scrapeOptions": scrape, "sitemap": "skip"}
        job = service.post("/v2/crawl", body).json["id"]
        wait_until(lambda: service.get(f"/v2/crawl/{job}").json["status"] != "scraping")
    shown = tab.go(f"jobs/{job}?kind=crawl&tab=quality")
    for name, count in (("200", "2"), ("404", "1"), ("title", "3"), ("price", "0")):
        row = shown.get_by_role("row", name=re.compile(f"^{name} "))
        expect(row.get_by_role("cell").first).to_have_text(count)
    expect(shown.get_by_text("How many of the pages with data")).to_be_visible()


def test_a_delivery_is_shown_with_its_response_and_sent_again(tab, site, service):
    with Receiver() as receiver:
        hook = {"url": receiver.url("/fails/1"), "events": ["completed"]}
        body = {"url": site.url("/page/1"), "limit": 1, "webhook": hook}
        job = service.post("/v2/crawl", body).json["id"]
        wait_until(lambda: receiver.received("/fails/1"))
        wait_until(lambda: deliveries(service, job)[0]["attempts"])
        shown = tab.go(f"jobs/{job}?kind=crawl&tab=deliveries")
        shown.get_by_role("button", name="Show").click()
        opened = shown.get_by_role("region", name="Delivery")
        expect(opened.locator("pre").first).to_contain_text('"type":"crawl.completed"')
        expect(opened.locator("pre").last).to_have_text("ok")
        expect(opened.get_by_text("500: answered 500")).to_be_visible()
        opened.get_by_role("button", name="Send again").click()
        wait_until(lambda: len(receiver.received("/fails/1")) == 2)
        opened.get_by_role("button", name="Close").click()
        wait_until(lambda: deliveries(service, job)[0]["state"] == "delivered")
        shown.get_by_role("button", name="Refresh").click()
        expect(shown.get_by_text("delivered", exact=True)).to_be_visible()


def deliveries(service, job):
    return service.get(f"/v2/crawl/{job}/deliveries").json["deliveries"]


def test_scripts_of_a_hostile_page_do_not_run(browser, service):
    text = page(
        "/a'\"><script>top.taken=1</script>",
        title=HOSTILE,
        text=HOSTILE + "[x](javascript:top.taken=1)",
        head=f'<meta name="description" content="{HOSTILE}">',
    )
    with ScriptedSite({"/": text, "/robots.txt": answer(HOSTILE)}) as hostile:
        tab = Tab(browser, service.url)
        shown = tab.sign_in()
        shown.get_by_role("textbox", name="url").fill(hostile.url("/"))
        shown.get_by_role("checkbox", name="html", exact=True).check()
        shown.get_by_role("button", name="Run scrape").click()
        result = shown.get_by_role("region", name="Result")
        expect(result.get_by_role("tab", name="Rendered")).to_be_visible()
        for name in result.get_by_role("tab").all_inner_texts():
            result.get_by_role("tab", name=name).click()
            settle(shown)
        tab.go("play?op=crawl")
        shown.get_by_role("textbox", name="url").fill(hostile.url("/"))
        shown.get_by_role("button", name="Start crawl").click()
        for name in ("Pages", "URLs", "Errors", "Site tree", "Politeness", "Options"):
            shown.get_by_role("tab", name=name).click()
            settle(shown)
        tab.go(f"jobs?q={urllib.parse.quote(HOSTILE)}")
        settle(shown)
        data = {"modes": ["json", "git-diff"], "schema": {"properties": {"title": {}}}}
        formats = [{"type": "changeTracking", **data}]
        made = create(service, scrape(hostile.url("/"), formats=formats), name=HOSTILE)
        run(service, made)
        hostile.put("/", page(title=f"{HOSTILE} 2", text=f"2 {HOSTILE}"))
        check = run(service, made)
        tab.go("monitors")
        settle(shown)
        tab.go(f"monitors/{made['id']}?check={check['id']}")
        shown.get_by_text("What has changed").click()
        for name in ("One column", "Side by side"):
            shown.get_by_role("button", name=name).click()
            expect(shown.get_by_role("table", name="Diff")).to_contain_text("taken")
        tab.go(f"monitors/{made['id']}/edit")
        expect(shown.locator("[id$=-name]")).to_have_value(HOSTILE)
        assert shown.evaluate("window.taken") is None
        assert "taken" not in shown.title()
    tab.context.close()
    assert tab.faults == []


@pytest.mark.full
def test_typed_values_survive_an_expired_session(tab, site):
    shown = tab.page
    url = shown.get_by_role("textbox", name="url")
    url.fill(site.url("/page/1"))
    more = shown.get_by_text("More options")
    more.click()
    actions = shown.get_by_role("textbox", name="actions")
    actions.fill('[{"type": "wa')
    tab.context.clear_cookies()
    tab.go("usage")
    expect(shown.get_by_text("Your session is over")).to_be_visible()
    shown.get_by_label("API key").fill("fc-wrong")
    shown.keyboard.press("Enter")
    expect(shown.get_by_role("alert")).to_contain_text("does not know this key")
    shown.get_by_label("API key").fill(KEY)
    shown.keyboard.press("Enter")
    tab.go("play")
    expect(url).to_have_value(site.url("/page/1"))
    more.click()
    expect(actions).to_have_value('[{"type": "wa')
    shown.get_by_role("button", name="Run scrape").click()
    expect(shown.get_by_role("alert")).to_have_text("Not valid JSON yet: actions. ")
    shown.get_by_role("button", name="Reset").click()
    expect(actions).to_have_value("")
    expect(url).to_have_value("")
    url.fill(site.url("/page/1"))
    shown.get_by_role("button", name="Run scrape").click()
    expect(shown.get_by_role("region", name="Result")).to_be_visible()
    shown.get_by_role("button", name="Sign out").click()
    expect(shown.get_by_label("API key")).to_be_visible()
    tab.faults[:] = [f for f in tab.faults if "401" not in f]


@pytest.mark.full
def test_typed_values_survive_an_outage_of_the_database(browser, start_service, site):
    try:
        server = Postgres()
    except PostgresMissing as error:
        pytest.skip(str(error))
    with server:
        service = start_service(SCRAPER_DATABASE_URL=server())
        tab = Tab(browser, service.url)
        shown = tab.sign_in()
        url = shown.get_by_role("textbox", name="url")
        url.fill(site.url("/page/1"))
        with server.away():
            tab.go("jobs")
            expect(shown.get_by_role("alert")).to_contain_text("database")
            tab.go("health")
            expect(shown.get_by_role("alert")).to_contain_text("A part does not work")
            row = shown.get_by_role("row", name=re.compile("^database"))
            expect(row).not_to_contain_text("ok")
            tab.go("jobs")
            expect(shown.get_by_role("alert")).to_contain_text("database")
        retry = shown.get_by_role("button", name="Try again")
        wait_until(lambda: service.get("/v2/jobs").status == 200)
        retry.click()
        expect(shown.get_by_text("No jobs here")).to_be_visible()
        tab.go("play")
        expect(url).to_have_value(site.url("/page/1"))
        shown.get_by_role("button", name="Run scrape").click()
        expect(shown.get_by_role("region", name="Result")).to_be_visible()
        tab.context.close()
        assert [f for f in tab.faults if "503" not in f] == []
        assert service.stop() == 0


@pytest.mark.full
def test_typed_values_survive_a_restart(browser, start_service, site, tmp_path):
    service = start_service(tmp_path)
    tab = Tab(browser, service.url)
    shown = tab.sign_in()
    url = shown.get_by_role("textbox", name="url")
    url.fill(site.url("/page/1"))
    port = service.url.rpartition(":")[2]
    kill(service)
    shown.get_by_role("button", name="Run scrape").click()
    expect(shown.get_by_role("alert")).to_contain_text("cannot be reached")
    tab.go("health")
    expect(shown.get_by_role("alert")).to_contain_text("cannot be reached")
    tab.go("play")
    start_service(tmp_path, SCRAPER_PORT=port)
    expect(url).to_have_value(site.url("/page/1"))
    shown.get_by_role("button", name="Run scrape").click()
    expect(shown.get_by_role("region", name="Result")).to_be_visible()
    tab.context.close()
    assert [f for f in tab.faults if "ERR_CONNECTION_REFUSED" not in f] == []


def test_a_deleted_job_shows_not_found(tab):
    gone = "00000000-0000-4000-8000-000000000000"
    tab.go(f"jobs/{gone}?kind=crawl")
    expect(tab.page.get_by_role("alert")).to_contain_text("Job not found")
    expect(tab.page.get_by_role("link", name="All jobs")).to_be_visible()
    tab.faults[:] = [f for f in tab.faults if "404" not in f]


def test_jobs_without_a_worker_cause_a_shown_warning(browser, start_service):
    service = start_service(SCRAPER_MAX_RUNNING_JOBS="0")
    wait_until(lambda: service.get("/health", key=None).json["warnings"])
    tab = Tab(browser, service.url)
    tab.sign_in()
    tab.go("health")
    warning = tab.page.get_by_role("alert")
    expect(warning).to_contain_text("No process runs crawls and batches")
    expect(tab.page.get_by_role("main")).to_contain_text("service: 1")
    tab.context.close()
    assert tab.faults == []
