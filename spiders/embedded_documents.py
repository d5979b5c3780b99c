"""Pages without text of their own: the text of the one document that they embed.

The document is fetched under the rules of its page: its robots.txt, scope of egress, time,
cache and limits of size. It takes one request more, and the page stays one page.
"""

from __future__ import annotations

import json
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy.utils.misc import load_object

from scraper_service.content.losses import join_rows, without_document
from scraper_service.content.page_status import EMPTY_SHELL, OK, verdict_warning
from scraper_service.crawling.page_state import STATE, PageState
from scraper_service.discovery.canonical_urls import site_of
from scraper_service.errors import ServiceUnavailable
from scraper_service.options.formats import EMBEDDED, FORMATS, result_name
from scraper_service.options.limits import BROWSER
from scraper_service.options.urls import origin, request_url, url_parts

if TYPE_CHECKING:
    from scrapy.http import Response

    from scraper_service.items import PageContent


#: Formats of the page itself, also if its text is that of a document.
_OF_PAGE = frozenset(row.tag for row in FORMATS if EMBEDDED in row.not_of)
_VERDICT = frozenset({"verdict", "verdict_evidence", "word_count", "reading_time"})
_PAGE_ERROR = "scraper_service.crawling.page_errors.page_error"


def choose_document(
    content: PageContent, url: str, *, only_files: bool = False
) -> str | None:
    """Return the URL of the only document of the site of ``url`` that a page embeds.

    Files go before pages. None without a document, and for several of a kind.
    """
    site = _site(url)
    own = [
        each
        for each in content.embedded
        if _site(each[0]) == site and (each[1] or not only_files)
    ]
    for group in ([x for x, is_file in own if is_file], [x for x, _ in own]):
        if group:
            return group[0] if len(group) == 1 and group[0] != url else None
    return None


def _site(url: str) -> str:
    return site_of(url_parts(url).netloc.rpartition("@")[2].lower())


async def with_document(
    spider: Any, content: PageContent, response: Response
) -> PageContent:
    """Return the content of a page with the text of the document that it embeds.

    The page itself is returned if there is no such document. If the document cannot be
    read, it is a loss with the reason, and the verdict of the page is not ``ok``.
    """
    # The browser has put the frames into the page.
    is_rendered = PageState.of(response).engine == BROWSER
    url = choose_document(content, response.url, only_files=is_rendered)
    if url is None:
        return content
    try:
        inner, document = await _read(spider, url, content, response)
    except ServiceUnavailable:
        raise
    except Exception as error:
        return _without(content, url, load_object(_PAGE_ERROR)(error).message)
    if inner.error is not None:
        return _without(content, url, inner.error.message)
    if document.status >= 400:
        return _without(content, url, f"The site answered {document.status}.")
    if inner.known.get("verdict", OK) not in {OK, "truncated"}:
        why = inner.known.get("verdict_evidence", "The document is not what it seems.")
        return _without(content, url, str(why))
    if inner.values.get("markdown") == b'""':
        return _without(content, url, "The document has no text.")
    return _merge_page(content, inner, url, document)


async def _read(
    spider: Any, url: str, content: PageContent, response: Response
) -> tuple[PageContent, Response]:
    """Fetch and convert a document. Raises what a download raises."""
    request = response.request
    assert request is not None
    assert spider.crawler.engine is not None
    page = PageState.of(request)
    formats = tuple(x for x in page.options.formats if result_name(x) not in _OF_PAGE)
    options = evolve(
        page.options,
        formats=formats,  # type: ignore[arg-type]
        actions=(),
        wait_for_ms=0,
    )
    # Without a lease nothing else in a job takes the document for a page.
    state = PageState(
        options=options,
        scrape_id=page.scrape_id,
        source_url=url,
        deadline=page.deadline,
        team_id=page.team_id,
        account=page.account,
        robots_agents=page.robots_agents,
        first_origin=page.first_origin or origin(response.url),
    )
    document = await spider.crawler.engine.download_async(
        request.replace(
            url=request_url(url),
            meta={
                STATE: state,
                "cookiejar": request.meta["cookiejar"],
                "download_fail_on_dataloss": False,
            },
            cookies=None,
            headers={},
            dont_filter=True,
        )
    )
    source = spider.page_source(
        document,
        find_links=False,
        lead=json.loads(content.values.get("markdown", b'""')),
        **spider.text_facts(response),
    )
    time_left = page.deadline - time.monotonic()
    inner = await spider.pool.convert(source, options, time_left, **spider.owner(page))
    assert content.fetch is not None
    if content.fetch.kept is not None and inner.error is None:
        source_kept = spider.kept_response(document, source, inner.packed)
        inner = evolve(inner, fetch=evolve(content.fetch, kept=source_kept), packed=b"")
    return inner, document


def _merge_page(
    content: PageContent, inner: PageContent, url: str, document: Response
) -> PageContent:
    """Return the document with the URL, title, links and raw HTML of its page."""
    own = {name: text for name, text in content.values.items() if name in _OF_PAGE}
    values = {**inner.values, **own}
    if "images" in values:
        images = [json.loads(x.values.get("images", b"[]")) for x in (content, inner)]
        urls = list(dict.fromkeys(chain.from_iterable(images)))
        values["images"] = json.dumps(urls, ensure_ascii=False).encode()
    outer = {k: value for k, value in content.known.items() if k not in _VERDICT}
    warned = verdict_warning({k: str(v) for k, v in content.known.items()})
    warnings = [text for text in content.warnings if text != warned]
    return evolve(
        inner,
        values=values,
        known={"verdict": OK, **inner.known, **outer},
        other={**inner.other, **content.other},
        losses=join_rows(without_document(content.losses, url), inner.losses),
        warnings=tuple(dict.fromkeys((*warnings, *inner.warnings))),
        found=content.found,
        found_times=content.found_times,
        links=content.links,
        canonical=content.canonical,
        fingerprint=content.fingerprint,
        embedded_url=document.url,
        fetch=inner.fetch or content.fetch,
    )


def _without(content: PageContent, url: str, reason: str) -> PageContent:
    """Return a page whose document could not be read, for ``reason``."""
    loss = {
        "kind": "embeddedDocument",
        "count": 1,
        "reason": f"The document could not be read: {reason}",
        "urls": [url],
    }
    rows: tuple[Any, ...] = content.losses
    if rows:  # only if a format has losses
        rows = join_rows(without_document(rows, url), (loss,))
    # A comparison would take the missing text for a change.
    values = {k: x for k, x in content.values.items() if k != "change_tracking"}
    known, warnings = dict(content.known), content.warnings
    if known.get("verdict") == OK:
        known["verdict"] = EMPTY_SHELL
        known["verdict_evidence"] = f"Hardly any text except {url}."
        warned = verdict_warning({k: str(v) for k, v in known.items()})
        warnings = (*warnings, str(warned))
    text = f"The document that the page embeds could not be read: {reason}"
    return evolve(
        content,
        values=values,
        known=known,
        losses=rows,
        warnings=(*warnings, text),
    )
