"""What a page has in its text and no reader sees."""

from scraper_service.content.html.hidden.declarations import Hiding
from scraper_service.content.html.hidden.elements import HidingRules, may_be_shown
from scraper_service.content.html.hidden.instructions import instruction_in

__all__ = ["Hiding", "HidingRules", "instruction_in", "may_be_shown"]
