"""What pages sell: products and menus, from what they declare and what they show.

Nothing is made up: what the page does not say is left out.
"""

from scraper_service.content.shop.menus import menu
from scraper_service.content.shop.products import product

__all__ = ["menu", "product"]
