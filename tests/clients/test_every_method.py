"""All public clients, unmodified, for the whole contract: one table, no cell of it wrong."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SETTINGS, why_no_browser
from tests.compat.__main__ import (
    answer_of,
    install_loaders,
    install_scripts,
    outcomes,
)
from tests.support import shop
from tests.support.scripted_site import ScriptedSite, slow

pytestmark = pytest.mark.timeout(600)
LEAST = {
    "Python v2": 30,
    "Python v2, async": 30,
    "Python v1": 20,
    "Python v1, async": 20,
    "JavaScript v2": 25,
    "JavaScript v1": 20,
    "MCP": 10,
    "firecrawl-cli": 22,
    "n8n": 30,
    "LangChain": 5,
    "langchain-firecrawl": 10,
    "LlamaIndex": 4,
    "Haystack": 4,
    "OpenAI tools": 6,
    "Agents SDK, HTTP": 6,
    "Agents SDK, stdio": 6,
    "mcporter": 11,
}


@pytest.mark.slow
def test_every_method_of_every_client(start_service, tmp_path, chat):
    if why := why_no_browser():
        pytest.skip(why)
    scripts, loaders = tmp_path / "js", tmp_path / "loaders"
    if why := install_scripts(scripts) or install_loaders(loaders):
        pytest.skip(f"the clients cannot be installed: {why}")
    with ScriptedSite({**shop.pages(), "/slow": slow("<p>late</p>", 5)}) as site:
        chat.behave(answer=answer_of(site.url("/shop/lamp")))
        service = start_service(**SETTINGS, **chat.environment)
        found = outcomes(service, site.url("").rstrip("/"), scripts, loaders)
    wrong = [f"{x.client} {x.method}: {x.result}" for x in found if not x.is_right]
    assert not wrong, "\n".join(wrong)
    for client, least in LEAST.items():
        assert sum(x.client == client for x in found) >= least, client
