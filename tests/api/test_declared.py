"""``product``, ``menu`` and ``branding`` through the API and a real client."""

from __future__ import annotations

import pytest
from firecrawl import Firecrawl

from tests.content.test_declared import OFFER, PAGE, linked
from tests.support.scripted_site import ScriptedSite, text

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PAGES = {
    "/kettle": linked({"@type": "Product", "name": "Kettle", "offers": OFFER}),
    "/brand": PAGE + '<link rel="stylesheet" href="/a.css">',
    "/menu": linked(
        {
            "@type": "Menu",
            "hasMenuItem": {"@type": "MenuItem", "name": "Tea", "offers": OFFER},
        }
    ),
    "/text": text("Just text."),
}


@pytest.fixture(scope="module")
def shop():
    with ScriptedSite(PAGES) as site:
        yield site


def test_client(service, shop):
    client = Firecrawl(api_key=service.key, api_url=service.url)
    sold = client.scrape(shop.url("/kettle"), formats=["product", "markdown"]).product
    assert sold.title == "Kettle"
    assert sold.variants[0].availability.in_stock is True
    assert sold.variants[0].price.amount == 39.9
    served = client.scrape(shop.url("/menu"), formats=["menu"]).menu
    assert served.is_menu
    assert served.sections[0].items[0].name == "Tea"
    brand = client.scrape(shop.url("/brand"), formats=["branding"])
    assert brand.branding.color_scheme == "light"
    assert brand.branding.images["favicon"] == "https://shop.example/i.svg".replace(
        "https://shop.example", shop.address
    )
    assert "a.css" in brand.warning
    assert brand.metadata.credits_used == 1


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_formats_without_data_on_the_page_are_null_with_a_warning(
    service, shop, version
):
    body = {"url": shop.url("/brand"), "formats": ["product", "menu", "markdown"]}
    found = service.post(f"/{version}/scrape", body).json["data"]
    assert found["product"] is None
    assert "No product" in found["warning"]
    assert found["menu"]["isMenu"] is False
    body = {"url": shop.url("/text"), "formats": ["branding", "markdown"]}
    found = service.post(f"/{version}/scrape", body).json["data"]
    assert (found["branding"], found["markdown"]) == (None, "Just text.")
    assert "Only a web page" in found["warning"]
