"""What an installation says of itself, and paths that it does not have."""

from __future__ import annotations

import pytest

ID = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
# Interface document, 2 and 20: what the reference offers and this service does not.
ELSEWHERE = [
    *(("POST", f"/v2/{path}") for path in ("agent", "browser", "monitor", "feedback")),
    *(("GET", f"/v2/{path}") for path in ("agent", "browser", "monitor")),
    *(("DELETE", f"/v2/{path}/{ID}") for path in ("agent", "browser", "monitor")),
    ("GET", f"/v2/agent/{ID}/trace"),
    ("POST", f"/v2/browser/{ID}/execute"),
    ("POST", f"/v2/scrape/{ID}/interact"),
    ("DELETE", f"/v2/scrape/{ID}/interact"),
    ("POST", f"/v2/monitor/{ID}/run"),
    ("GET", f"/v2/monitor/{ID}/checks"),
    ("POST", f"/v2/search/{ID}/feedback"),
    ("POST", "/v2/parse/upload-url"),
    ("GET", "/v2/search/developer"),
    ("GET", "/v2/search/research/papers"),
    ("POST", "/v2/search/gov"),
    ("POST", "/v2/support/ask"),
    ("POST", "/v2/x402/search"),
    ("POST", "/v1/x402/search"),
    ("POST", "/v2/llmstxt"),
    ("POST", "/v2/deep-research"),
    ("POST", "/v1/parse"),
    ("GET", "/v1/capabilities"),
    ("POST", "/v0/scrape"),
]


def told(reply):
    assert reply.status == 200
    data = reply.json["data"]
    features = {each["name"]: each for each in data["features"]}
    formats = {each["name"]: each for each in data["formats"]}
    for each in (*features.values(), *formats.values()):
        assert each["available"] == ("reason" not in each)
    return data, features, formats


def test_what_is_off_has_a_reason_that_names_what_to_do(service):
    data, features, formats = told(service.get("/v2/capabilities"))
    assert "RENDER" in features["browser"]["reason"]
    assert "LLM_BASE_URL" in features["model"]["reason"]
    assert "SEARXNG_URL" in features["webSearch"]["reason"]
    assert features["searchIndex"]["available"]
    assert features["authentication"]["available"]
    assert "LLM_BASE_URL" in formats["question"]["reason"]
    assert not formats["audio"]["available"]
    assert data["searchEngines"] == ["own"]
    assert data["database"] == "sqlite"
    assert data["version"][0].isdigit()
    assert {each["name"] for each in data["notOffered"]} >= {"agent", "monitor"}


def test_what_is_set_up_is_on_and_no_secret_is_told(start_service):
    service = start_service(
        SCRAPER_LLM_BASE_URL="http://127.0.0.1:9/v1",
        SCRAPER_LLM_MODEL="m",
        SCRAPER_LLM_API_KEY="sk-hidden",
        SCRAPER_SEARXNG_URL="http://127.0.0.1:9",
        SCRAPER_SEARCH_PROVIDERS=None,
        SCRAPER_AUTH_ENABLED="false",
        SCRAPER_SEARCH_INDEX="false",
    )
    reply = service.get("/v2/capabilities", key=None)
    data, features, formats = told(reply)
    on = {name for name, each in features.items() if each["available"]}
    assert {"model", "webSearch"} <= on
    assert not {"authentication", "searchIndex"} & on
    assert formats["question"]["available"]
    assert "SearXNG" in data["searchEngines"]
    assert "hidden" not in str(reply.json)
    assert "127.0.0.1" not in str(reply.json)


@pytest.mark.parametrize(("method", "path"), ELSEWHERE)
def test_what_is_not_offered_is_the_usual_404(service, method, path):
    reply = service.request(method, path, {} if method == "POST" else None)
    assert reply.status == 404
    assert reply.json == {"success": False, "error": "Not found"}
