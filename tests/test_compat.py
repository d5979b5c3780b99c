"""All public clients, unmodified, for the whole contract: one table, no cell of it wrong."""

from __future__ import annotations

import pytest

from tests import shop
from tests.compat.__main__ import install, outcomes
from tests.scripted_site import ScriptedSite, slow

pytestmark = pytest.mark.timeout(600)
LEAST = {
    "Python v2": 30,
    "Python v2, async": 30,
    "Python v1": 20,
    "Python v1, async": 20,
    "JavaScript v2": 25,
    "JavaScript v1": 20,
    "MCP": 6,
}


@pytest.mark.slow
def test_every_method_of_every_client(start_service, tmp_path):
    if why := install(tmp_path):
        pytest.skip(f"the JavaScript clients cannot be installed: {why}")
    with ScriptedSite({**shop.pages(), "/slow": slow("<p>late</p>", 5)}) as site:
        service = start_service()
        found = outcomes(service, site.url("").rstrip("/"), tmp_path)
    wrong = [f"{x.client} {x.method}: {x.result}" for x in found if not x.is_right]
    assert not wrong, "\n".join(wrong)
    for client, least in LEAST.items():
        assert sum(x.client == client for x in found) >= least, client
