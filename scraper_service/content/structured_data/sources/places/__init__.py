"""Places that hold a kind of value without a label: headings, prices, times, links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.structured_data.sources.places.around import (
    is_apart,
    is_foreign,
    lead,
    longest_part,
    main_heading,
    one_line,
    shared,
)
from scraper_service.content.structured_data.sources.places.contact import (
    emails,
    hours,
    images,
    links,
    named_links,
    phones,
    postal_addresses,
    social,
)
from scraper_service.content.structured_data.sources.places.counting import (
    counts,
    linked_counts,
    ranks,
    ratings,
    reading_times,
    review_counts,
    votes,
)
from scraper_service.content.structured_data.sources.places.naming import (
    brands,
    located,
    titles,
)
from scraper_service.content.structured_data.sources.places.people import (
    dates,
    person,
    persons,
)
from scraper_service.content.structured_data.sources.places.prose import bodies, briefs
from scraper_service.content.structured_data.sources.places.selling import (
    current_price,
    job_types,
    old_price,
    salaries,
    sells,
    stock,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scraper_service.content.structured_data.sources.scope import Found, Scope

__all__ = [
    "PLACES",
    "bodies",
    "briefs",
    "counts",
    "current_price",
    "dates",
    "emails",
    "images",
    "is_apart",
    "is_foreign",
    "lead",
    "linked_counts",
    "links",
    "located",
    "longest_part",
    "main_heading",
    "named_links",
    "one_line",
    "person",
    "persons",
    "phones",
    "review_counts",
    "sells",
    "shared",
    "social",
    "titles",
    "votes",
]

# By the name of the concept; for pages and for records.
PLACES: dict[str, Callable[[Scope], Iterator[Found]]] = {
    "price": current_price,
    "low_price": current_price,
    "old_price": old_price,
    "availability": stock,
    "rating": ratings,
    "reviews_count": review_counts,
    "rank": ranks,
    "image": images,
    "images": images,
    "email": emails,
    "emails": emails,
    "phone": phones,
    "phones": phones,
    "address": postal_addresses,
    "social": social,
    "hours": hours,
    "job_type": job_types,
    "salary": salaries,
    "duration": reading_times,
    "brand": brands,
}
