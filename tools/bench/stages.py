"""Measures the CPU time of the stages of a conversion, in one process.

The pages are those of a site of :mod:`tools.bench.linked`, converted with the options of the
crawls of :mod:`tools.bench.crawl`. A stage does not contain the stages inside it.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from functools import wraps
from typing import TYPE_CHECKING, Any

from scraper_service.content import convert
from scraper_service.content.main_content import model, reduction
from scraper_service.items import PageSource
from scraper_service.options.spider_arguments import crawl_options
from tools.bench import linked
from tools.bench.report import MACHINE, arguments, publish, table

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = "stages.md"
ORIGIN = "http://127.0.0.2"
PAGES, QUICK_PAGES = 300, 10
WATCHED_PAGES = 10  # pages of a crawl before the fingerprint of each page is made
WORK = {
    "main content": {"formats": "markdown,links"},
    "whole pages": {"formats": "markdown,links", "only_main_content": "false"},
    "links only": {"formats": ""},
}
# The functions of each stage: an owner, and the name of its function.
STAGES: dict[str, list[tuple[Any, str]]] = {
    "parse": [(convert, "parse")],
    "metadata": [(convert, "metadata"), (convert, "page_verdict")],
    "links to follow, fingerprint": [
        (convert, "page_links"),
        (convert, "canonical"),
        (convert, "fingerprint"),
    ],
    "cleaning": [(convert, "clean")],
    "main content: declarations": [(model, "read_declarations")],
    "main content: walk": [(reduction, "Walk")],
    "main content: kind of page": [
        (reduction, "structure_signs"),
        (reduction, "kind_of"),
    ],
    "main content: features": [(model, "table")],
    "main content: trees": [(model.Forest, "score")],
    "main content: rules": [(reduction, "decide")],
    "main content: reduction": [(reduction, "reduce")],
    "redundant elements": [
        (reduction, "drop_slide_copies"),
        (reduction, "drop_duplicate_blocks"),
        (reduction, "drop_repeated_pictures"),
        (reduction, "drop_toolbars"),
        (reduction, "drop_logos"),
    ],
    "Markdown": [(convert._Conversion, "_markdown")],
    "links": [(convert, "links")],
    "all else": [(convert, "render")],
}


class Clock:
    """The CPU time of each stage without the stages inside it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._inside = [0.0]  # time of the stages inside, for each open stage

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function`` with its time added to a stage."""

        @wraps(function, updated=())
        def run(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            start = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.thread_time() - start
                self.seconds[stage] += spent - self._inside.pop()
                self._inside[-1] += spent

        return run


def measure(pages: dict[str, bytes], work: str) -> dict[str, float]:
    """Return the milliseconds a page of each stage. The first pages are a warm-up."""
    options = crawl_options({"url": f"{ORIGIN}/pages/", **WORK[work]}).scrape
    sources = [
        PageSource(
            url=ORIGIN + path,
            status=200,
            body=body,
            content_type="text/html; charset=utf-8",
            find_links=True,
            find_words=number > WATCHED_PAGES,
        )
        for number, (path, body) in enumerate(pages.items())
    ]
    clock = Clock()
    places = [(stage, *place) for stage, own in STAGES.items() for place in own]
    former = [getattr(owner, name) for _, owner, name in places]
    for (stage, owner, name), function in zip(places, former, strict=True):
        setattr(owner, name, clock.timed(stage, function))
    try:
        for source in sources[: len(sources) // 10]:
            convert.render(source, options)
        clock.seconds = dict.fromkeys(STAGES, 0.0)
        for source in sources:
            convert.render(source, options)
            gc.freeze()  # as in a converter process
    finally:
        for (_, owner, name), function in zip(places, former, strict=True):
            setattr(owner, name, function)
    return {stage: 1000 * s / len(sources) for stage, s in clock.seconds.items()}


def report(source: str, site: str, count: int) -> str:
    pages = linked.site(source, count, ORIGIN, site)
    convert.prepare()
    size = sum(map(len, pages.values())) / len(pages) / 1000
    found = {work: measure(pages, work) for work in WORK}
    rows = [
        (stage, *(f"{found[work][stage]:.2f}" for work in WORK)) for stage in STAGES
    ]
    rows.append(("sum", *(f"{sum(found[work].values()):.2f}" for work in WORK)))
    kind = "pages of WCXB" if source else "generated pages"
    about = f"{len(pages)} {kind} of {size:.0f} kB on average, site {site}"
    unit = "CPU milliseconds a page in one process."
    parts = ("# Stages of a conversion", f"{MACHINE}; {about}. {unit}")
    return "\n\n".join((*parts, table(("Stage", *WORK), rows))) + "\n"


def main() -> int:
    parser = arguments(__doc__, RESULT)
    parser.add_argument(
        "--pages", default=os.environ.get("WCXB", ""), help="directory or archive"
    )
    parser.add_argument("--site", choices=linked.SITES, default="mixed")
    options = parser.parse_args()
    count = QUICK_PAGES if options.quick else PAGES
    publish(report(options.pages, options.site, count), RESULT, save=options.save)
    return 0


if __name__ == "__main__":
    sys.exit(main())
