"""What an installation says of itself, and paths that it does not have."""

from __future__ import annotations

import pytest

from scraper_service.api.errors import NO_SUCH_PATH

ID = "0b5f0a3e-41b1-4f0e-8a59-2f5f7e2b9d11"
# Interface document, 2 and 20: what the reference offers and this service does not.
ELSEWHERE = [
    ("GET", f"/v2/agent/{ID}/trace"),
    ("GET", f"/v2/agent/{ID}/snapshots/{ID}"),
    ("GET", f"/v2/agent/threads/{ID}"),
    ("POST", "/v1/agent"),
    ("POST", "/v1/browser"),
    ("GET", f"/v2/interact/{ID}/replay"),
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
    ("GET", "/v1/feedback"),
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


def test_a_disabled_feature_has_a_reason_that_names_the_setting(service):
    data, features, formats = told(service.get("/v2/capabilities"))
    assert "RENDER" in features["browser"]["reason"]
    assert "RENDER" in features["browserSessions"]["reason"]
    assert "LLM_BASE_URL" in features["model"]["reason"]
    assert "LLM_BASE_URL" in features["agent"]["reason"]
    assert "SEARXNG_URL" in features["webSearch"]["reason"]
    assert features["searchIndex"]["available"]
    assert features["authentication"]["available"]
    assert "LLM_BASE_URL" in formats["question"]["reason"]
    assert not formats["audio"]["available"]
    assert data["searchEngines"] == ["own"]
    assert data["database"] == "sqlite"
    assert data["version"][0].isdigit()
    assert {each["name"] for each in data["notOffered"]} >= {"threads", "replay"}


def test_configured_features_are_on_and_secrets_are_not_shown(start_service):
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
    assert {"agent", "model", "webSearch"} <= on
    assert not {"authentication", "searchIndex"} & on
    assert formats["question"]["available"]
    assert "SearXNG" in data["searchEngines"]
    assert "hidden" not in str(reply.json)
    assert "127.0.0.1" not in str(reply.json)


@pytest.mark.parametrize(("method", "path"), ELSEWHERE)
def test_a_route_that_is_not_offered_is_a_plain_404(service, method, path):
    reply = service.request(method, path, {} if method == "POST" else None)
    assert reply.status == 404
    assert reply.json == {"success": False, "error": NO_SUCH_PATH}


def test_unknown_paths_are_plain_404s(service):
    for path in ("/v2/none-such", "/v2/crawl/a/agents", "/v2", "/v2/search/none"):
        assert service.get(path).json["error"] == NO_SUCH_PATH


IGNORED = "no effect here: "


def test_options_without_effect_are_named_in_a_warning(service, site):
    url = site.url("/text")
    reply = service.post("/v2/scrape", {"url": url, "useMock": "x", "domainTools": []})
    assert reply.json["data"]["warning"].endswith(f"{IGNORED}useMock.")
    plain = {"url": url, "toolDetail": "compact", "useIndex": False, "origin": "x"}
    assert "warning" not in service.post("/v2/scrape", plain).json["data"]
    body = {"url": url, "limit": 1, "scrapeOptions": {"useIndex": True}}
    for version in ("v1", "v2"):
        reply = service.post(f"/{version}/crawl", body)
        assert reply.json["warning"].endswith(f"{IGNORED}scrapeOptions.useIndex.")
        reply = service.post(f"/{version}/batch/scrape", {"urls": [url], "useMock": 1})
        assert reply.json["warning"].endswith(f"{IGNORED}useMock.")
    safety = {"threatProtection": {"riskScoreThreshold": 50, "blacklist": []}}
    for given in (safety, {"scrapeOptions": safety}):
        reply = service.post("/v2/crawl", {"url": url, "limit": 1, **given})
        assert "threatProtection.riskScoreThreshold." in reply.json["warning"]
    page = service.post("/v2/scrape", {"url": url, **safety}).json["data"]
    assert page["warning"].endswith(f"{IGNORED}threatProtection.riskScoreThreshold.")
    reply = service.post("/v2/map", {"url": url, "delay": 2, "useMock": 1})
    assert f"{IGNORED}delay, useMock." in reply.json["warning"]
    reply = service.post("/v2/search", {"query": "x", "safe": True})
    assert f"{IGNORED}safe." in reply.json["warning"]


def test_options_without_effect_of_a_large_body_are_named_too(service, site):
    urls = [site.url(f"/text?{number:0200}") for number in range(1500)]
    body = {"urls": urls, "useMock": 1, "maxConcurrency": 1}
    reply = service.post("/v2/batch/scrape", body)
    assert reply.json["warning"].endswith(f"{IGNORED}useMock.")
    service.request("DELETE", f"/v2/batch/scrape/{reply.json['id']}")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("includePath", "'includePaths'"),
        ("include_paths", "'includePaths'"),
        ("maxDiscoverDepth", "'maxDiscoveryDepth'"),
        ("maxDepth", "'maxDiscoveryDepth'"),
        ("include", "'includePaths'"),
        ("formats", "'scrapeOptions.formats'"),
        ("wait_for", "'scrapeOptions.waitFor'"),
    ],
)
def test_an_unknown_key_close_to_a_known_key_gets_a_suggestion(service, key, meant):
    reply = service.post("/v2/crawl", {"url": "https://example.org", key: []})
    [issue] = reply.json["details"]
    assert f"did you mean {meant}? " in issue["message"]
    reply = service.post("/v2/crawl", {"url": "https://example.org", "zzz": 1})
    assert "did you mean" not in reply.json["details"][0]["message"]


def test_an_unknown_object_with_known_keys_gets_a_suggestion(service):
    options = {"formats": ["markdown"], "waitFor": 1, "zzz": 1}
    body = {"urls": ["https://example.org"], "scrapeOptions": options}
    [issue] = service.post("/v2/batch/scrape", body).json["details"]
    question = "did you mean 'formats' and 'waitFor' outside of 'scrapeOptions'? "
    assert question in issue["message"]
