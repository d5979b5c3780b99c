"""Values that need no label on the page, such as headings, prices, dates and links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scraper_service.content.structured_data.places import contact, names, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scraper_service.content.structured_data.scope import Candidate, Scope

# Generators of candidates by the name of the concept, for pages and for records.
PLACES: dict[str, Callable[[Scope], Iterator[Candidate]]] = {
    "price": numbers.current_price,
    "low_price": numbers.current_price,
    "currency": numbers.current_price,
    "old_price": numbers.old_price,
    "availability": numbers.stock,
    "rating": numbers.ratings,
    "reviews_count": numbers.review_counts,
    "rank": numbers.ranks,
    "job_type": numbers.job_types,
    "salary": numbers.salaries,
    "duration": numbers.reading_times,
    "image": contact.images,
    "images": contact.images,
    "email": contact.emails,
    "emails": contact.emails,
    "phone": contact.phones,
    "phones": contact.phones,
    "address": contact.postal_addresses,
    "social": contact.social,
    "hours": contact.hours,
}
# Further generators by concept and by shape, for records only.
OF_RECORDS: dict[str, Callable[[Scope], Iterator[Candidate]]] = {
    "author": names.persons,
    "description": names.briefs,
}
BY_SHAPE: dict[str, Callable[[Scope], Iterator[Candidate]]] = {
    "date": names.dates,
    "person": names.persons,
    "prose": names.bodies,
}
# Names of elements that hold the value of a concept in records.
NAMED = {
    "votes_count": "vote votes voters upvoter score upvotes likes points",
    "rating": "rating score stars",
    **dict.fromkeys(
        ("city", "country", "location", "venue"),
        "location venue city place region address where",
    ),
}
