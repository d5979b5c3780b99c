"""The pages of a small shop: products with structured data, and an about page."""

from __future__ import annotations

import json
from typing import Any

from tests.support.scripted_site import answer, page

PRODUCTS = {"lamp": ("Brass Lamp", 20.5), "chair": ("Oak Chair", 35.0)}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "price": {"type": "number"},
        "currency": {"type": "string"},
        "founder": {"type": "string"},
    },
    "required": ["name"],
}


def pages() -> dict[str, Any]:
    """Return the pages by path."""
    links = [f"/shop/{key}" for key in PRODUCTS]
    made: dict[str, Any] = {
        "/": page("/shop", "/about", *links, title="The Shop", text="We sell things."),
        "/shop": page(*links, title="All products"),
        "/about": page(
            title="About the shop",
            text="The shop was founded by Ida Example in the year 1999.</p>"
            "<dl><dt>Founder</dt><dd>Ida Example</dd></dl><p>Come and see.",
        ),
        "/gone": answer("gone", 404),
    }
    for key, (name, price) in PRODUCTS.items():
        made[f"/shop/{key}"] = _product(name, price)
    return made


def _product(name: str, price: float) -> str:
    facts = {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": name,
        "offers": {"@type": "Offer", "price": price, "priceCurrency": "EUR"},
    }
    data = f'<script type="application/ld+json">{json.dumps(facts)}</script>'
    described = f'<meta name="description" content="All about the {name}.">'
    text = f"The {name} is a thing that everybody wants. Price: {price} EUR."
    return page(title=name, text=text, head=data + described)
