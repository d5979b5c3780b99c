"""Monitors, as their callers see them (interface document, part 26)."""

from __future__ import annotations

import itertools
import json
import socket
import time
import uuid
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from scraper_service.storage import schema
from tests.support.crash import kill, sqlite_of
from tests.support.mail_server import MailReceiver
from tests.support.monitors import (
    RARELY,
    create,
    ended,
    run,
    scrape,
    states,
)
from tests.support.receiver import Receiver
from tests.support.scripted_site import ScriptedSite, answer, page, slow, text
from tests.support.waiting import wait_until

HOSTS = "127.0.0.2/31"
UNKNOWN = str(uuid.uuid4())
_numbers = itertools.count()


@pytest.fixture(scope="module")
def web():
    with ScriptedSite({}) as site:
        yield site


@pytest.fixture(scope="module")
def receiver():
    with Receiver() as running:
        yield running


@pytest.fixture
def spot():
    """A part of the site and of the receiver of its own."""
    return f"/{next(_numbers)}"


def test_a_monitor_has_all_its_keys(service):
    made = create(
        service,
        scrape("https://a.example/x"),
        {"type": "search", "queries": [" news "]},
        judgeEnabled=False,
        schedule={"cron": "0 4 * * *"},
    )
    assert set(made) == {
        *("id", "name", "status", "schedule", "nextRunAt", "lastRunAt"),
        *("currentCheckId", "lastCheckSummary", "goal", "webhook", "notification"),
        *("targets", "judgeEnabled", "retentionDays", "estimatedCreditsPerMonth"),
        *("createdAt", "updatedAt", "mutedUntil"),
    }
    assert made["schedule"] == {"cron": "0 4 * * *", "timezone": "UTC"}
    assert (made["status"], made["retentionDays"]) == ("active", 30)
    assert made["estimatedCreditsPerMonth"] == 30 * (1 + 2)
    first, second = made["targets"]
    assert first.pop("id") != second.pop("id")
    assert first == {"type": "scrape", "urls": ["https://a.example/x"]}
    assert second == {
        "type": "search",
        "queries": ["news"],
        "searchWindow": "24h",
        "maxResults": 10,
    }
    assert service.get(f"/v2/monitor/{made['id']}").json["data"]["id"] == made["id"]


def test_the_spelling_of_the_python_client_is_understood(service):
    formats = [{"type": "change_tracking", "modes": ["git-diff"]}, "raw_html"]
    made = create(
        service,
        {
            "type": "crawl",
            "url": "https://a.example/",
            "crawl_options": {"max_discovery_depth": 1, "regex_on_full_url": True},
            "scrape_options": {
                "only_main_content": False,
                "max_age": 10,
                "include_tags": ["max_age"],
                "formats": formats,
            },
        },
    )
    [target] = made["targets"]
    assert target["crawlOptions"] == {"maxDiscoveryDepth": 1, "regexOnFullURL": True}
    assert target["scrapeOptions"] == {
        "onlyMainContent": False,
        "maxAge": 10,
        "includeTags": ["max_age"],
        "formats": [{"type": "changeTracking", "modes": ["git-diff"]}, "rawHtml"],
    }


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"schedule": {"cron": "*/4 * * * *"}}, ["schedule", "cron"]),
        ({"schedule": {"text": "every 7 minutes"}}, ["schedule", "text"]),
        ({"schedule": {"text": "hourly", "cron": "0 * * * *"}}, ["schedule"]),
        ({"schedule": {}}, ["schedule"]),
        ({"schedule": {**RARELY, "timezone": "Mars/X"}}, ["schedule", "timezone"]),
        ({"targets": []}, ["targets"]),
        ({"name": "  "}, ["name"]),
        ({"retentionDays": 366}, ["retentionDays"]),
        ({"zeroDataRetention": True}, ["zeroDataRetention"]),
        ({"targets": [{"type": "map"}]}, ["targets", 0, "type"]),
        ({"targets": [{"type": "search", "queries": ["a"]}]}, ["goal"]),
        (
            {"targets": [scrape("https://a.example/", zeroDataRetention=True)]},
            ["targets", 0, "scrapeOptions"],
        ),
        (
            {"targets": [scrape("https://a.example/", formats=["rawBase64"])]},
            ["targets", 0, "scrapeOptions", "formats"],
        ),
        (
            {
                "targets": [
                    {
                        "type": "search",
                        "queries": ["a"],
                        "includeDomains": ["a.example"],
                        "excludeDomains": ["b.example"],
                    }
                ],
                "judgeEnabled": False,
            },
            ["targets", 0, "excludeDomains"],
        ),
        (
            {
                "targets": [
                    {
                        "type": "crawl",
                        "url": "https://a.example/",
                        "crawlOptions": {"webhook": "https://b.example/"},
                    }
                ]
            },
            ["targets", 0, "crawlOptions"],
        ),
    ],
)
def test_a_wrong_body_is_a_400_with_its_path(service, change, path):
    body = {
        "name": "x",
        "schedule": RARELY,
        "targets": [scrape("https://a.example/")],
        **change,
    }
    reply = service.post("/v2/monitor", body)
    assert reply.status == 400
    assert [each["path"] for each in reply.json["details"]] == [path]


def test_a_goal_without_a_model_is_kept_with_a_warning(service):
    body = {"name": "x", "schedule": RARELY, "targets": [scrape("https://a.example/")]}
    reply = service.post("/v2/monitor", {**body, "goal": "Prices"})
    assert reply.status == 200
    assert reply.json["data"]["goal"] == "Prices"
    assert reply.json["data"]["judgeEnabled"] is False
    assert "language model" in reply.json["warning"]
    reply = service.post("/v2/monitor", {**body, "goal": "x", "judgeEnabled": True})
    assert (reply.status, reply.json["code"]) == (400, "LANGUAGE_MODEL_REQUIRED")
    assert reply.json["details"][0]["path"] == ["judgeEnabled"]


def test_a_warning_is_returned_if_no_mail_server_is_set(service):
    email = {"enabled": True, "recipients": ["a@b.example"]}
    body = {"name": "x", "schedule": RARELY, "targets": [scrape("https://a.example/")]}
    reply = service.post("/v2/monitor", {**body, "notification": {"email": email}})
    assert "No mail is sent" in reply.json["warning"]
    stored = {"email": {**email, "includeDiffs": False}}
    assert reply.json["data"]["notification"] == stored


@pytest.mark.parametrize(
    "address", ["a", "a@[.c", ":a@b.c", "a!;@b.c", "a,b@c.example", "ä@b.example"]
)
def test_an_invalid_mail_address_is_refused(service, address):
    email = {"enabled": True, "recipients": ["a.b+c@dé.example", address]}
    body = {"name": "x", "schedule": RARELY, "targets": [scrape("https://a.example/")]}
    reply = service.post("/v2/monitor", {**body, "notification": {"email": email}})
    assert reply.status == 400
    [issue] = reply.json["details"]
    assert issue["path"] == ["notification", "email", "recipients", 1]
    assert f"'{address}'" in issue["message"]
    assert "name@example.com" in issue["message"]


def test_a_patch_replaces_only_the_fields_it_contains(service):
    made = create(service, scrape("https://a.example/"), webhook="https://h.example/x")
    path = f"/v2/monitor/{made['id']}"
    assert made["webhook"]["url"] == "https://h.example/x"
    reply = service.request("PATCH", path, {"webhook": None, "status": "paused"})
    assert reply.json["data"]["webhook"] is None
    assert reply.json["data"]["nextRunAt"] is None
    schedule = {"text": "daily at 5:30 PM", "timezone": "Europe/Berlin"}
    reply = service.request("PATCH", path, {"schedule": schedule, "status": "active"})
    data = reply.json["data"]
    expected = {"cron": "30 17 * * *", "timezone": "Europe/Berlin"}
    assert data["schedule"] == expected
    assert data["nextRunAt"] is not None
    reply = service.request("PATCH", path, {"origin": "sdk"})
    assert reply.status == 400
    assert "at least one" in reply.json["details"][0]["message"]
    assert service.get(path).json["data"]["schedule"] == expected


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_unknown_monitor_is_a_404(service, method):
    body = {"name": "y"} if method == "PATCH" else None
    reply = service.request(method, f"/v2/monitor/{UNKNOWN}", body)
    assert (reply.status, reply.json["error"]) == (404, "Monitor not found")
    reply = service.request(method, "/v2/monitor/x", body)
    message = "Invalid monitor ID format: must be a UUID, got 'x'"
    assert (reply.status, reply.json["error"]) == (400, message)
    reply = service.get(f"/v2/monitor/{UNKNOWN}/checks/y")
    message = "Invalid monitor ID format: that of the check must be a UUID, got 'y'"
    assert (reply.status, reply.json["error"]) == (400, message)


def test_checks_are_found_by_their_monitor_only(service):
    made = create(service, scrape("https://a.example/"))
    path = f"/v2/monitor/{made['id']}/checks"
    assert service.get(path).json == {"success": True, "data": [], "total": 0}
    reply = service.get(f"{path}/{UNKNOWN}")
    assert (reply.status, reply.json["error"]) == (404, "Monitor check not found")
    assert service.get(f"{path}?limit=0").status == 400
    assert service.get(f"{path}?status=changed").status == 400


def test_lists_have_the_newest_first(start_service):
    service = start_service()
    ids = [create(service, scrape("https://a.example/"))["id"] for _ in range(3)]
    reply = service.get("/v2/monitor?limit=2")
    assert [each["id"] for each in reply.json["data"]] == ids[:0:-1]
    assert reply.json["total"] == 3
    reply = service.get("/v2/monitor?limit=2&offset=2")
    assert [each["id"] for each in reply.json["data"]] == ids[:1]


# -- checks --------------------------------------------------------------------------------


def test_pages_are_new_then_same_then_changed(service, web, spot):
    web.put(f"{spot}/a", page(text="The price is 10."))
    web.put(f"{spot}/b", page(text="It does not change."))
    made = create(service, scrape(web.url(f"{spot}/a"), web.url(f"{spot}/b")))
    first = run(service, made)
    assert states(first) == {"a": "new", "b": "new"}
    assert first["status"] == "completed"
    assert first["billingStatus"] == "not_applicable"
    assert (first["estimatedCredits"], first["actualCredits"]) == (2, 2)
    assert states(run(service, made)) == {"a": "same", "b": "same"}
    web.put(f"{spot}/a", page(text="The price is 20."))
    third = run(service, made)
    assert states(third) == {"a": "changed", "b": "same"}
    [found] = [each for each in third["pages"] if each["status"] == "changed"]
    assert found["diff"]["text"].startswith("--- previous\n+++ current\n@@")
    assert "-The price is 10." in found["diff"]["text"]
    assert "+The price is 20." in found["diff"]["text"]
    [file] = found["diff"]["json"]["files"]
    assert (file["from"], file["to"]) == ("previous", "current")
    assert "snapshot" not in found
    for key, price in (("previousScrapeId", "10"), ("currentScrapeId", "20")):
        data = service.get(f"/v2/scrape/{found[key]}").json["data"]
        assert f"The price is {price}." in data["markdown"]
    [result] = third["targetResults"]
    assert result["targetId"] == made["targets"][0]["id"]
    assert found["currentScrapeId"] in result["expectedJobs"]
    after = service.get(f"/v2/monitor/{made['id']}").json["data"]
    assert after["lastCheckSummary"] == third["summary"]
    assert after["lastRunAt"] == third["finishedAt"]
    assert after["currentCheckId"] is None


@pytest.mark.full
def test_an_outage_is_an_error_and_does_not_lose_the_snapshot(service, web, spot):
    web.put(f"{spot}/a", page(text="The price is 10."))
    made = create(service, scrape(web.url(f"{spot}/a")))
    run(service, made)
    web.put(f"{spot}/a", answer("down", 503))
    down = run(service, made)
    assert states(down) == {"a": "error"}
    assert (down["status"], down["pages"][0]["statusCode"]) == ("failed", 503)
    assert "503" in down["pages"][0]["error"]
    assert down["error"]
    web.put(f"{spot}/a", page(text="The price is 20."))
    assert "-The price is 10." in run(service, made)["pages"][0]["diff"]["text"]


def test_a_page_is_removed_once_and_new_when_it_comes_back(service, web, spot):
    web.put(f"{spot}/a", page())
    made = create(service, scrape(web.url(f"{spot}/a"), web.url(f"{spot}/none")))
    assert states(run(service, made)) == {"a": "new", "none": "error"}
    web.put(f"{spot}/a", answer("gone", 404))
    assert states(run(service, made)) == {"a": "removed", "none": "error"}
    assert states(run(service, made)) == {"a": "error", "none": "error"}
    web.put(f"{spot}/a", page())
    assert states(run(service, made)) == {"a": "new", "none": "error"}


SCHEMA = {
    "type": "object",
    "properties": {"price": {"type": "number"}, "name": {"type": "string"}},
}


ABOUT = "A lamp of brass for a desk, with a shade of paper and a long cord. " * 5


def shop(price, text=ABOUT):
    return page(
        text=text,
        head='<script type="application/ld+json">'
        + json.dumps(
            {
                "@context": "https://schema.org",
                "@type": "Product",
                "name": "Lamp",
                "offers": {"@type": "Offer", "price": price, "priceCurrency": "EUR"},
            }
        )
        + "</script>",
    )


@pytest.mark.parametrize("modes", [["json"], ["json", "git-diff"]])
def test_data_are_compared_by_field(service, web, spot, modes):
    web.put(f"{spot}/a", shop(10))
    tracking = {"type": "changeTracking", "modes": modes, "schema": SCHEMA}
    made = create(service, scrape(web.url(f"{spot}/a"), formats=[tracking]))
    first = run(service, made)
    assert first["pages"][0]["snapshot"]["json"]["price"] == 10
    web.put(f"{spot}/a", shop(10, ABOUT + "It is new."))
    is_mixed = len(modes) == 2
    assert states(run(service, made)) == {"a": "changed" if is_mixed else "same"}
    web.put(f"{spot}/a", shop(12.5, ABOUT + "It is new."))
    [found] = run(service, made)["pages"]
    assert found["diff"] == {"json": {"price": {"previous": 10, "current": 12.5}}}
    assert found["snapshot"]["json"]["price"] == 12.5


def test_ignored_differences_are_no_change(service, web, spot):
    web.put(f"{spot}/a", page(text="12 people look at this. It costs 10 euros."))
    compare = {"ignorePatterns": ["[0-9]+ people look at this"]}
    target = {**scrape(web.url(f"{spot}/a")), "compare": compare}
    made = create(service, target)
    assert made["targets"][0]["compare"] == compare
    run(service, made)
    web.put(f"{spot}/a", page(text="99 people look at this. It costs 10 euros."))
    assert states(run(service, made)) == {"a": "same"}
    web.put(f"{spot}/a", page(text="99 people look at this. It costs 11 euros."))
    assert states(run(service, made)) == {"a": "changed"}


@pytest.mark.parametrize(
    ("compare", "path"),
    [
        ({"ignorePatterns": ["("]}, ["ignorePatterns", 0]),
        ({"ignorePatterns": [""]}, ["ignorePatterns", 0]),
        ({"minCharacters": -1}, ["minCharacters"]),
        ({"fields": {"a": {"minPercent": -1}}}, ["fields", "a", "minPercent"]),
        ({"fields": {"a": {"least": 1}}}, ["fields", "a"]),
        ({"selectors": ["p"]}, []),
    ],
)
def test_a_wrong_rule_of_a_comparison_is_a_400_with_its_path(service, compare, path):
    target = {**scrape("https://a.example/"), "compare": compare}
    body = {"name": "x", "schedule": RARELY, "targets": [target]}
    reply = service.post("/v2/monitor", body)
    assert reply.status == 400
    found = [each["path"] for each in reply.json["details"]]
    assert found == [["targets", 0, "compare", *path]]


def test_a_crawl_reports_pages_that_it_does_not_find_any_more(service, web, spot):
    web.put(f"{spot}/", page(f"{spot}/a", f"{spot}/b"))
    for name in "ab":
        web.put(f"{spot}/{name}", page(text=f"Page {name}"))
    target = {
        "type": "crawl",
        "url": web.url(f"{spot}/"),
        "crawlOptions": {"sitemap": "skip"},
    }
    made = create(service, target)
    first = run(service, made)
    assert states(first) == {"": "new", "a": "new", "b": "new"}
    assert first["actualCredits"] == 3
    crawl_id = first["targetResults"][0]["crawlId"]
    crawl = service.get(f"/v2/crawl/{crawl_id}").json
    assert (crawl["status"], crawl["completed"]) == ("completed", 3)
    web.put(f"{spot}/", page(f"{spot}/a"))
    second = run(service, made)
    assert states(second) == {"": "changed", "a": "same", "b": "removed"}
    assert second["pages"][-1]["currentScrapeId"] is None
    assert second["pages"][-1]["previousScrapeId"] is not None
    assert states(run(service, made)) == {"": "same", "a": "same"}


def test_pages_are_not_removed_while_the_pages_that_link_them_fail(service, web, spot):
    for name, links in {"": ["hub"], "hub": ["a"], "a": ["b"], "b": []}.items():
        paths = [f"{spot}/{each}" for each in links]
        web.put(f"{spot}/{name}", page(*paths, title=f"Page {name}"))
    hub = page(f"{spot}/a", title="Page hub")
    rows = f"<url><loc>{web.url(f'{spot}/s')}</loc></url>"
    listed = answer(f"<urlset>{rows}</urlset>", Content_Type="application/xml")
    web.put(f"{spot}/sitemap.xml", listed)
    web.put(f"{spot}/s", page(title="Page s"))
    target = {"type": "crawl", "url": web.url(f"{spot}/")}
    made = create(service, target)
    assert set(states(run(service, made))) == {"", "hub", "a", "b", "s"}
    web.put(f"{spot}/hub", answer("no", status=403))
    web.put(f"{spot}/sitemap.xml", answer("no", status=403))
    for _ in range(2):
        check = run(service, made)
        assert states(check) == {"": "same", "hub": "error"}
        assert check["targetResults"][0]["warning"].startswith(
            "The check did not find 3 pages"
        )
    web.put(f"{spot}/hub", hub)
    web.put(f"{spot}/sitemap.xml", answer("gone", status=404))
    check = run(service, made)
    assert states(check) == {
        **dict.fromkeys(["", "hub", "a", "b"], "same"),
        "s": "removed",
    }
    assert "warning" not in check["targetResults"][0]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        ("/", {"": "error", "listed": "error"}),
        ("/listed", {"": "same", "linked": "same", "x": "same", "listed": "error"}),
        ("/linked", {"": "same", "listed": "same", "y": "same"}),
    ],
)
def test_pages_that_robots_txt_refuses_are_not_removed(
    start_service, refused, expected
):
    """Neither are those behind them. A link that is refused is no page of the crawl."""
    service = start_service(SCRAPER_ROBOTS_MAX_AGE_S="1")
    with ScriptedSite({}) as web:
        rows = f"<url><loc>{web.url('/listed')}</loc></url>"
        listed = answer(f"<urlset>{rows}</urlset>", Content_Type="application/xml")
        web.put("/sitemap.xml", listed)
        links = {"": ["linked"], "linked": ["x"], "listed": ["y"], "x": [], "y": []}
        for name, targets in links.items():
            paths = [f"/{each}" for each in targets]
            web.put(f"/{name}", page(*paths, title=f"Page {name}"))
        made = create(service, {"type": "crawl", "url": web.url("/")})
        run(service, made)
        web.put("/robots.txt", text(f"User-agent: *\nDisallow: {refused}\n"))
        time.sleep(1.1)
        check = run(service, made)
        assert states(check) == expected
        assert (
            "may have hidden what is still there"
            in check["targetResults"][0]["warning"]
        )
        web.put("/robots.txt", text("User-agent: *\n"))
        time.sleep(1.1)
        assert states(run(service, made)) == dict.fromkeys(links, "same")


def test_a_crawl_that_ends_at_its_limit_removes_nothing(service, web, spot):
    web.put(f"{spot}/", page(f"{spot}/a", f"{spot}/b"))
    for name in "ab":
        web.put(f"{spot}/{name}", page(text=f"Page {name}"))
    target = {
        "type": "crawl",
        "url": web.url(f"{spot}/"),
        "crawlOptions": {"sitemap": "skip"},
    }
    made = create(service, target)
    run(service, made)
    known = made["targets"][0]
    known["crawlOptions"] = {"sitemap": "skip", "limit": 1}
    path = f"/v2/monitor/{made['id']}"
    assert service.request("PATCH", path, {"targets": [known]}).status == 200
    assert states(run(service, made)) == {"": "same"}


def test_pages_of_a_check_can_be_filtered_by_state_and_position(service, web, spot):
    for n in range(3):
        web.put(f"{spot}/{n}", page(text=f"Page {n}"))
    urls = [web.url(f"{spot}/{n}") for n in (0, 1, 2, 3)]
    made = create(service, scrape(*urls))
    check = run(service, made)
    path = f"/v2/monitor/{made['id']}/checks/{check['id']}"
    first = service.get(f"{path}?limit=2").json
    assert first["next"] == first["data"]["next"]
    rest = service.get(first["next"].removeprefix(service.url)).json
    assert "next" not in rest
    assert "next" not in rest["data"]
    found = [*first["data"]["pages"], *rest["data"]["pages"]]
    assert found == check["pages"]
    new = service.get(f"{path}?status=new&limit=2").json
    assert "status=new" in new["next"]
    assert {each["status"] for each in new["data"]["pages"]} == {"new"}
    [error] = service.get(f"{path}?status=error").json["data"]["pages"]
    assert error["url"] == urls[3]


def test_a_second_run_during_a_check_is_a_409(service, web, spot):
    web.put(f"{spot}/a", slow(page(), 3))
    made = create(service, scrape(web.url(f"{spot}/a")))
    path = f"/v2/monitor/{made['id']}"
    first = service.post(f"{path}/run", {"origin": "sdk"})
    assert first.status == 200
    second = service.post(f"{path}/run")
    assert second.status == 409
    assert second.json["error"] == "A monitor check is already running"
    assert service.get(path).json["data"]["currentCheckId"] == first.json["id"]
    assert states(ended(service, made, first.json["id"])) == {"a": "new"}


def test_a_webhook_gets_one_event_per_page_and_one_at_the_end(
    service, web, receiver, spot
):
    web.put(f"{spot}/a", page(text="old"))
    hook = {"url": receiver.url(f"{spot}/ok"), "metadata": {"m": 1}}
    made = create(
        service, scrape(web.url(f"{spot}/a"), web.url(f"{spot}/no")), webhook=hook
    )
    run(service, made)
    web.put(f"{spot}/a", page(text="new"))
    check = run(service, made)
    received = wait_until(
        lambda: len(found := receiver.received(f"{spot}/ok")) >= 6 and found
    )
    events = [each.json for each in received if each.json["id"] == check["id"]]
    assert [each["type"] for each in events] == [
        *["monitor.page"] * 2,
        "monitor.check.completed",
    ]
    assert all(each["metadata"] == {"m": 1} for each in events)
    by_state = {each["data"][0]["status"]: each for each in events[:2]}
    changed, failed = by_state["changed"], by_state["error"]
    assert changed["success"] is True
    assert "error" not in changed
    assert changed["data"][0]["diff"]["text"].startswith("--- previous")
    assert changed["data"][0]["monitorId"] == made["id"]
    assert changed["data"][0]["checkId"] == check["id"]
    assert "isMeaningful" not in changed["data"][0]
    assert failed["success"] is False
    assert "404" in failed["error"]
    last = events[2]
    assert last["success"] is False  # the check is partial
    assert last["data"] == [
        {
            "monitorId": made["id"],
            "checkId": check["id"],
            "status": "partial",
            "summary": check["summary"],
        }
    ]
    path = f"/v2/monitor/{made['id']}/checks/{check['id']}"
    wait_until(
        lambda: (
            service.get(path).json["data"]["notificationStatus"]
            == {"webhook": "delivered", "channels": "none"}
        )
    )


def test_mail_is_sent_once_per_check_with_news(start_service, web, spot):
    web.put(f"{spot}/a", page(text="The price is 10."))
    with MailReceiver() as mail:
        service = start_service(SCRAPER_SMTP_URL=mail.url)
        email = {"enabled": True, "recipients": ["x@b.example"], "includeDiffs": True}
        body = {
            "name": "Prices\nBcc: y@b.example",
            "schedule": RARELY,
            "targets": [scrape(web.url(f"{spot}/a"))],
            "notification": {"email": email},
        }
        reply = service.post("/v2/monitor", body)
        assert "warning" not in reply.json
        made = reply.json["data"]
        run(service, made)
        run(service, made)  # the same: nothing to tell
        web.put(f"{spot}/a", page(text="The price is 20."))
        check = run(service, made)
        wait_until(lambda: len(mail.messages) >= 2)
        first, second = mail.messages
    assert first["Subject"] == "Prices Bcc: y@b.example: 1 new"
    assert second["Subject"].endswith("1 changed")
    assert (second["To"], second["Bcc"]) == ("x@b.example", None)
    assert second["Message-ID"] == f"<{check['id']}@a.example>"
    assert "+The price is 20." in second.get_content()


def mute(service, monitor, until):
    path = f"/v2/monitor/{monitor['id']}"
    reply = service.request("PATCH", path, {"mutedUntil": until})
    assert reply.status == 200, reply.json
    return reply.json["data"]["mutedUntil"]


def test_a_test_message_names_refused_recipients(start_service):
    with MailReceiver(refused={"bad@b.example": "550 no such user"}) as mail:
        service = start_service(SCRAPER_SMTP_URL=mail.url)
        recipients = ["bad@b.example", "x@b.example"]
        email = {"enabled": True, "recipients": recipients}
        made = create(
            service, scrape("https://a.example/"), notification={"email": email}
        )
        path = f"/v2/monitor/{made['id']}/notification/test"
        [sent] = service.post(path, {}).json["data"]
    assert sent["delivered"] is False
    assert sent["error"].endswith("mail for bad@b.example.")
    assert [each["To"] for each in mail.messages] == ["bad@b.example, x@b.example"]


@pytest.mark.full
def test_a_muted_monitor_sends_no_mail_until_its_time_is_over(
    start_service, web, receiver, spot
):
    with MailReceiver() as mail:
        service = start_service(
            SCRAPER_SMTP_URL=mail.url, SCRAPER_EGRESS_ALLOW="127.0.0.2/31"
        )
        email = {"enabled": True, "recipients": ["x@b.example"]}
        made = create(
            service,
            scrape(web.url(f"{spot}/a")),
            notification={"email": email},
            webhook=receiver.url(f"/ok{spot}/"),
        )
        for version, (until, shown) in enumerate(
            [
                ("forever", "forever"),
                ("2999-01-31T12:00:00+01:00", "2999-01-31T11:00:00.000Z"),
                (None, None),
                (None, None),
            ]
        ):
            web.put(f"{spot}/a", page(text=f"The price is {version}."))
            assert mute(service, made, until) == shown
            run(service, made)
        wait_until(lambda: len(mail.messages) >= 2)
        wait_until(lambda: len(receiver.received(f"/ok{spot}/")) >= 8)
    assert len(mail.messages) == 2
    assert all(each["Subject"].endswith("1 changed") for each in mail.messages)


@pytest.mark.parametrize(
    "until",
    ["tomorrow", "", 5, True, "2001-01-31", "9999-12-31T23:59:59-14:00", "0001-01-01"],
)
def test_a_wrong_time_of_muting_is_a_400_with_its_path(service, until):
    made = create(service, scrape("https://a.example/"))
    path = f"/v2/monitor/{made['id']}"
    reply = service.request("PATCH", path, {"mutedUntil": until})
    assert reply.status == 400
    assert [each["path"] for each in reply.json["details"]] == [["mutedUntil"]]


def test_a_deleted_monitor_stops_its_check(service, web, spot):
    web.put(f"{spot}/a", slow(page(), 60))
    made = create(service, scrape(web.url(f"{spot}/a")))
    path = f"/v2/monitor/{made['id']}"
    check = service.post(f"{path}/run").json["id"]
    wait_until(lambda: f"{spot}/a" in web.paths())
    assert service.request("DELETE", path).json == {"success": True}
    for gone in ("", "/checks", f"/checks/{check}"):
        assert service.get(path + gone).status == 404
    assert service.request("DELETE", path).status == 404
    assert check not in json.dumps(service.get("/v2/jobs").json)


@pytest.mark.full
def test_time_zones_work_without_the_files_of_the_system(start_service):
    service = start_service(PYTHONTZPATH="")
    schedule = {"cron": "0 4 * * *", "timezone": "Asia/Kolkata"}
    made = create(service, scrape("http://127.0.0.2:9/a"), schedule=schedule)
    assert made["schedule"] == schedule
    assert made["nextRunAt"].endswith("T22:30:00.000Z")


@pytest.mark.full
def test_a_monitor_is_deleted_though_its_caller_leaves(start_service, tmp_path):
    service = start_service()
    made = create(service, scrape("http://127.0.0.2:9/a"))
    count = 300
    with sa.create_engine(sqlite_of(tmp_path)).begin() as connection:
        add_checks(connection, made["id"], count)
    host, _, port = service.url.rpartition("/")[2].partition(":")
    call = f"DELETE /v2/monitor/{made['id']} HTTP/1.1\r\nHost: {host}\r\n"
    call += f"Authorization: Bearer {service.key}\r\n\r\n"
    engine = sa.create_engine(sqlite_of(tmp_path), poolclass=sa.NullPool)

    def ask(query):
        with engine.connect() as connection:
            return connection.scalar(sa.text(query))

    shown = f"SELECT count(*) FROM job WHERE expires_at > {time.time() + 3600}"
    assert ask(shown) == count
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(call.encode())
        wait_until(lambda: ask("SELECT count(*) FROM monitor") == 0)
    wait_until(lambda: ask(shown) == 0)


def add_checks(connection, monitor_id, count):
    """Store ended checks of a monitor."""
    team = connection.scalar(sa.select(schema.monitor.c.team_id))
    now, ids = time.time(), [str(uuid.uuid4()) for _ in range(count)]
    ended = {"state": "completed", "completed_at": now, "expires_at": now + 86400}
    for number, job_id in enumerate(ids, 1):
        values = {"id": job_id, "number": number, "team_id": team, "version": 2}
        values |= {"kind": "monitor_check", "url": "", "options": "{}"}
        values |= {"created_at": now, "retention_s": 86400, **ended}
        values |= dict.fromkeys(("open", "done", "failed", "pages", "held"), 0)
        values |= {"credits": 0}
        connection.execute(sa.insert(schema.job).values(**values))
        connection.execute(
            sa.insert(schema.operation).values(job_id=job_id, memory="{}")
        )
        values = {"job_id": job_id, "monitor_id": monitor_id, "status": "completed"}
        values |= {"trigger": "scheduled", "counts": "{}", "results": "[]"}
        values |= {"created_at": now, "updated_at": now}
        connection.execute(sa.insert(schema.monitor_check).values(**values))


def test_a_check_is_in_the_list_of_jobs(service, web, spot):
    web.put(f"{spot}/a", page())
    made = create(service, scrape(web.url(f"{spot}/a")))
    check = run(service, made)
    jobs = service.get("/v2/jobs?kind=monitor_check&limit=1").json["jobs"]
    [found] = jobs
    assert (found["id"], found["monitorId"]) == (check["id"], made["id"])
    assert (found["state"], found["target"]) == ("completed", "Prices")
    reply = service.get(found["url"].removeprefix(service.url))
    assert reply.json["data"]["id"] == check["id"]
    assert service.get(f"/v2/jobs/{check['id']}").status == 200
    calls = service.get("/v2/team/activity?endpoint=monitor&limit=1").json["data"]
    assert [(call["id"], call["target"]) for call in calls] == [(check["id"], "Prices")]


@pytest.mark.full
def test_a_check_goes_on_after_a_crash_and_reports_each_page_once(
    start_service, web, receiver, spot, tmp_path
):
    settings = {"SCRAPER_EGRESS_ALLOW": HOSTS, "SCRAPER_LEASE_S": "2"}
    data = tmp_path / "data"
    service = start_service(data, **settings)
    for n in range(8):
        found = page(text=f"Page {n}")
        web.put(f"{spot}/{n}", slow(found, 0.3) if n % 2 else found)
    web.put(f"{spot}/last", slow(page(text="The last"), 2))
    urls = [web.url(f"{spot}/{n}") for n in (*range(8), "last")]
    made = create(service, scrape(*urls), webhook=receiver.url(f"{spot}/ok"))
    check = service.post(f"/v2/monitor/{made['id']}/run").json["id"]
    path = f"/v2/monitor/{made['id']}/checks/{check}"
    wait_until(lambda: service.get(path).json["data"]["summary"]["new"] >= 2)
    kill(service)
    service = start_service(data, **settings)
    found = ended(service, made, check)
    assert (found["status"], found["summary"]["new"]) == ("completed", 9)
    assert sorted(each["url"] for each in found["pages"]) == sorted(urls)
    assert found["actualCredits"] == 9
    wait_until(
        lambda: [
            each
            for each in receiver.received(f"{spot}/ok")
            if each.json["type"] == "monitor.check.completed"
        ]
    )
    told = {each.id for each in receiver.received(f"{spot}/ok")}
    assert len(told) == 10


def test_a_check_that_times_out_keeps_its_finished_pages(start_service, web, spot):
    service = start_service(SCRAPER_MONITOR_CHECK_TIMEOUT_S="3")
    web.put(f"{spot}/a", page())
    web.put(f"{spot}/b", slow(page(), 60))
    made = create(service, scrape(web.url(f"{spot}/a"), web.url(f"{spot}/b")))
    check = run(service, made)
    assert check["status"] == "partial"
    assert "longer than 3 s" in check["error"]
    assert states(check)["a"] == "new"


def test_new_search_results_are_reported_once(start_service, web, spot):
    # The team's own pages are the search engine of this service.
    service = start_service(SCRAPER_SEARCH_INDEX="true")
    web.put(f"{spot}/a", page(title="Zeppelin", text="The zeppelin flies at dawn."))
    body = {"url": web.url(f"{spot}/a")}
    assert service.post("/v2/scrape", body).status == 200
    target = {"type": "search", "queries": ["zeppelin"], "searchWindow": "7d"}
    made = create(service, target, judgeEnabled=False)
    first = run(service, made)
    [found] = first["pages"]
    assert (found["status"], found["metadata"]["searchStatus"]) == ("new", "alert")
    [result] = first["targetResults"]
    assert (result["searchCompleted"], result["matches"]) == (True, 1)
    assert result["searchCredits"] == 2 == first["actualCredits"]
    assert result["warning"]
    [again] = run(service, made)["pages"]
    assert (again["status"], again["metadata"]["searchStatus"]) == (
        "same",
        "already_seen",
    )


def test_a_model_judges_changes_by_the_goal(clever, chat, web, spot):
    chat.behave(
        answer={
            "meaningful": False,
            "confidence": "high",
            "reason": "Only a date.",
            "meaningfulChanges": [],
        }
    )
    web.put(f"{spot}/a", page(text="old"))
    made = create(clever, scrape(web.url(f"{spot}/a")), goal="Prices")
    assert made["judgeEnabled"] is True
    run(clever, made)
    web.put(f"{spot}/a", page(text="new"))
    check = run(clever, made)
    [found] = check["pages"]
    assert found["status"] == "changed"
    assert found["judgment"]["meaningful"] is False
    assert found["judgment"]["reason"] == "Only a date."
    assert check["actualCredits"] == 2


def test_a_missing_sitemap_is_no_page_of_a_check(service, web, spot):
    web.put(f"{spot}/", page())
    made = create(service, {"type": "crawl", "url": web.url(f"{spot}/")})
    assert states(run(service, made)) == {"": "new"}


# -- due times -----------------------------------------------------------------------------


def set_due(database, seconds_ago):
    """Make all monitors due: their next run time lies ``seconds_ago`` in the past."""
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    with engine.begin() as connection:
        query = sa.text("UPDATE monitor SET next_at = :at")
        connection.execute(query, {"at": time.time() - seconds_ago})
    engine.dispose()


def scheduled(service, monitor):
    checks = service.get(f"/v2/monitor/{monitor['id']}/checks").json["data"]
    assert all(each["trigger"] == "scheduled" for each in checks)
    return [each for each in checks if each["status"] not in {"queued", "running"}]


@pytest.mark.full
def test_several_services_start_each_check_once(
    start_service, postgres, web, spot, tmp_path
):
    database = postgres()
    settings = {"SCRAPER_DATABASE_URL": database, "SCRAPER_KEY_SECRET": "s" * 32}
    first, second = (
        start_service(tmp_path / name, **settings) for name in ("one", "two")
    )
    web.put(f"{spot}/a", page())
    made = [create(first, scrape(web.url(f"{spot}/a"))) for _ in range(8)]
    for number in (1, 2):
        set_due(database, 1)
        for each in made:
            wait_until(lambda m=each, n=number: len(scheduled(second, m)) == n)
    found = [check for each in made for check in scheduled(first, each)]
    assert {each["status"] for each in found} == {"completed"}
    assert len(found) == 16
    assert web.paths().count(f"{spot}/a") == 16


@pytest.mark.full
def test_missed_check_times_cause_a_single_check(start_service, web, spot, tmp_path):
    data = tmp_path / "data"
    service = start_service(data)
    web.put(f"{spot}/a", page())
    minute = (datetime.now(UTC).minute + 30) % 60
    made = create(
        service, scrape(web.url(f"{spot}/a")), schedule={"cron": f"{minute} * * * *"}
    )
    service.stop()
    set_due(sqlite_of(data), 3 * 3600)
    service = start_service(data)
    [check] = wait_until(lambda: scheduled(service, made))
    due = datetime.fromisoformat(check["scheduledFor"])
    late = datetime.now(UTC) - due
    assert due.minute == minute
    assert late.total_seconds() < 3600  # the last one of three
    after = service.get(f"/v2/monitor/{made['id']}").json["data"]
    assert datetime.fromisoformat(after["nextRunAt"]) > due
    assert states(run(service, made)) == {"a": "same"}


@pytest.mark.full(keep=2)
@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/hook",
        "http://169.254.169.254/",
        "http://[::1]:8080/hook",
        "http://localhost/hook",
        "http://2130706433/hook",  # 127.0.0.1
    ],
)
def test_a_webhook_with_a_private_ip_address_is_a_400(start_service, url):
    service = start_service()
    body = {
        "name": "Hooked",
        "schedule": {"text": "hourly"},
        "targets": [scrape("https://a.example/")],
        "webhook": {"url": url},
    }
    made = service.post("/v2/monitor", body)
    assert made.status == 400, made.json
    assert made.json["details"][0]["path"] == ["webhook", "url"]
    assert "SCRAPER_EGRESS_ALLOW" in made.json["details"][0]["message"]
    del body["webhook"]
    monitor = service.post("/v2/monitor", body).json["data"]
    path = f"/v2/monitor/{monitor['id']}"
    changed = service.request("PATCH", path, {"webhook": {"url": url}})
    assert (changed.status, changed.json["details"][0]["path"]) == (
        400,
        ["webhook", "url"],
    )


def test_comparison_selectors_are_refused_with_the_options_to_use(service):
    compare = {"includeSelectors": [".price"], "excludeSelectors": [".visitors"]}
    target = {**scrape("https://a.example/"), "compare": compare}
    reply = service.post("/v2/monitor", {"name": "F", "targets": [target]})
    assert reply.status == 400, reply.json
    messages = [each["message"] for each in reply.json["details"]]
    assert any("use includeTags of scrapeOptions" in each for each in messages)
    assert any("use excludeTags of scrapeOptions" in each for each in messages)


def test_fields_need_data(service):
    target = {**scrape("https://a.example/"), "compare": {"fields": {"price": {}}}}
    body = {"name": "F", "schedule": {"text": "hourly"}, "targets": [target]}
    reply = service.post("/v2/monitor", body)
    assert reply.status == 400, reply.json
    assert reply.json["details"][0]["path"] == ["targets", 0, "compare", "fields"]


def test_a_webhook_with_an_empty_event_list_gets_no_events(
    service, web, receiver, spot
):
    web.put(f"{spot}/a", page())
    hook = {"url": receiver.url(f"/ok{spot}/"), "events": []}
    check = run(service, create(service, scrape(web.url(f"{spot}/a")), webhook=hook))
    assert check["notificationStatus"] == {"webhook": "none", "channels": "none"}
