"""How a page presents itself: colours, fonts, logo and shapes, from its own markup."""

from scraper_service.content.branding.branding import branding

__all__ = ["branding"]
