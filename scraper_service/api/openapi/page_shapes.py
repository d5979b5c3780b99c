"""The shape of a page in responses, webhooks and streams (docs/api.md, Documents of a page)."""

from __future__ import annotations

from scraper_service.api.schemas import (
    ANY,
    BOOL,
    COUNT,
    ID,
    INTEGER,
    TEXT,
    TIME,
    URL,
    ShapeT,
    array,
    either,
    mapping,
    old_shape,
    one_of,
    or_null,
    own,
    ref,
    said,
)
from scraper_service.items import LOSS_KINDS
from scraper_service.options.format_table import FORMATS

_TEXTS = either(TEXT, array(TEXT))

LOSSES = array(
    old_shape(
        {
            "kind": one_of(*LOSS_KINDS),
            "count": COUNT,
            "reason": said(TEXT, "Why, and the option that would bring it."),
            "urls?": array(URL),
            "texts?": said(array(TEXT), "Labels and captions of what was lost."),
        }
    )
)
METADATA = old_shape(
    {
        "sourceURL": said(TEXT, "The URL as the caller wrote it; of a file its name."),
        "url?": said(TEXT, "The URL after redirects."),
        "statusCode?": said(INTEGER, "The status of the site."),
        "error?": said(TEXT, "Why the page failed, or the phrase of its status."),
        "contentType?": TEXT,
        "xRobotsTag?": TEXT,
        "lastModified?": own(said(TIME, "The header Last-Modified.")),
        "sitemapLastmod?": own(said(TEXT, "The lastmod of the URL in a sitemap.")),
        "scrapeId": said(ID, "For GET /scrape/{id}."),
        "sourceScrapeId?": own(
            said(ID, "Of a reprocessed page: the page whose response was read.")
        ),
        "engine?": own(one_of("http", "browser")),
        "proxyUsed": one_of("basic", "stealth"),
        "cacheState?": one_of("hit", "miss"),
        "cachedAt?": TIME,
        "unchanged?": own(
            said(
                BOOL, "True if the page of the last check stands for an unchanged one."
            )
        ),
        "changeStatus?": own(one_of("new", "changed")),
        "creditsUsed?": COUNT,
        "verdict?": own(_TEXTS),
        "verdictEvidence?": own(_TEXTS),
        "duplicateOf?": own(TEXT),
        "embeddedUrl?": own(
            said(TEXT, "The embedded document whose text is that of the page.")
        ),
        "answeredBy?": own(one_of("rules", "model", "both", "selectors")),
        "tokensUsed?": own(COUNT),
        "numPages?": said(COUNT, "The parsed pages of a file."),
        "totalPages?": said(COUNT, "All pages of a file."),
        "tokenCount?": own(said(COUNT, "Tokens of the whole Markdown, estimated.")),
        "losses?": own(said(LOSSES, "Parts of the page that no format contains.")),
        "redacted?": own(said(mapping(COUNT), "Replaced personal data by kind.")),
        "chunk?": own(
            old_shape(
                {
                    "page": COUNT,
                    "pageCount": COUNT,
                    "tokenCount": COUNT,
                    "nextPage?": COUNT,
                }
            )
        ),
        "concurrencyLimited?": BOOL,
        "concurrencyQueueDurationMs?": COUNT,
        "timezone?": TEXT,
        "title?": _TEXTS,
        "description?": _TEXTS,
        "language?": _TEXTS,
        "ogLocaleAlternate?": array(TEXT),
    },
    _TEXTS,
)

_CHANGE = old_shape(
    {
        "type": one_of("add", "del", "normal"),
        "content": TEXT,
        "ln?": COUNT,
        "ln1?": COUNT,
        "ln2?": COUNT,
        "normal?": BOOL,
    }
)
_CHUNK = old_shape(
    {
        "content": TEXT,
        "changes": array(_CHANGE),
        "oldStart?": COUNT,
        "oldLines?": COUNT,
        "newStart?": COUNT,
        "newLines?": COUNT,
    }
)
_FILE = old_shape({"from": or_null(TEXT), "to": or_null(TEXT), "chunks": array(_CHUNK)})
CHANGES = old_shape(
    {
        "previousScrapeAt": or_null(TIME),
        "changeStatus": one_of("new", "same", "changed", "removed"),
        "visibility": one_of("visible", "hidden"),
        "diff?": old_shape({"text": TEXT, "json": old_shape({"files": array(_FILE)})}),
        "json?": said(ANY, "Of each changed field, previous and current."),
    }
)

ACTIONS = old_shape(
    {
        "screenshots": said(array(TEXT), "URLs of files."),
        "scrapes": array(old_shape({"url": TEXT, "html": TEXT})),
        "javascriptReturns": array(old_shape({"type": TEXT, "value": ANY})),
        "pdfs": said(array(TEXT), "URLs of files."),
    }
)

_OBJECT = or_null(mapping(ANY))
# The results of formats that are no text, by the key in a page.
_RESULTS: dict[str, ShapeT] = {
    "comparedText": own(
        said(TEXT, "Of a monitor: the Markdown of the parts that it compares.")
    ),
    "links": array(TEXT),
    "images": array(TEXT),
    "screenshot": said(TEXT, "The URL of a file."),
    "json": ANY,
    "extract": ANY,
    "changeTracking": CHANGES,
    "attributes": array(
        old_shape({"selector": TEXT, "attribute": TEXT, "values": array(TEXT)})
    ),
    "product": _OBJECT,
    "menu": _OBJECT,
    "branding": _OBJECT,
}
#: The members of a search result beside its own: those of its page, if it was scraped.
RESULT_MEMBERS: dict[str, ShapeT] = {
    **{
        f"{row.key}?": _RESULTS.get(row.key, TEXT) for row in FORMATS if not row.missing
    },
    "actions?": ACTIONS,
    "pages?": array(old_shape({"pageNumber": COUNT, "markdown": TEXT})),
    "blocks?": array(
        old_shape({"pageNumber": COUNT, "status": TEXT, "items": array(mapping(ANY))})
    ),
    "metadata?": ref("Metadata"),
    "warning?": TEXT,
}
PAGE = {**old_shape(RESULT_MEMBERS), "required": ["metadata"]}
