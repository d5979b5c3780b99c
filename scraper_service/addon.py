"""Scrapy add-ons: what other projects can switch on, and what our spiders are made of.

A project switches on the first one, with
``ADDONS = {"scraper_service.addon.ScraperAddon": 500}``. Nothing here overrides what a
project's own settings say: defaults of ours have a lower priority, and components are
put where Scrapy has its own (``DOWNLOADER_MIDDLEWARES_BASE`` and the like), so that
``ITEM_PIPELINES`` and others only add to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy.settings import default_settings as scrapys

from scraper_service import settings as ours
from scraper_service.items import DATA_LOSS, PageSource
from scraper_service.library import DEFAULT_FORMATS, conversion_options, converted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scraper_service.library import Converted

HANDLER = "scraper_service.crawling.download.handler.PageDownloadHandler"
LIMITS = ("DOWNLOAD_MAXSIZE", "DOWNLOAD_TIMEOUT")  # Scrapy's: 1 GiB, 180 s
COMPONENTS: Mapping[str, Mapping[str, int | str | None]] = {
    "DOWNLOAD_HANDLERS": {
        "file": None,  # addresses of callers and pages are http(s) only
        "ftp": None,
        "http": HANDLER,
        "https": HANDLER,
        "s3": None,
    },
    "DOWNLOADER_MIDDLEWARES": {
        "scraper_service.crawling.download.uploads.UploadedFiles": 290,
        "scraper_service.crawling.blocked_sites.BlockedSitesMiddleware": 300,
        "scraper_service.crawling.robots_middleware.RobotsMiddleware": 310,
        "scraper_service.crawling.page_cache.PageCache": 320,
        "scraper_service.crawling.download.request_options.RequestOptionsMiddleware": 350,
        "scraper_service.crawling.middlewares.RetryAfter": 550,
        "scraper_service.crawling.middlewares.SafeRedirect": 600,
        "scraper_service.crawling.middlewares.FreshCookies": 700,
        # Off: they are not used, or work on the body in the reactor.
        "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
        "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": None,
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
        "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    },
    "EXTENSIONS": {
        "scraper_service.crawling.job_process.JobProcess": 0,
        "scraper_service.crawling.report_recorder.JobRecorder": 0,
        # A loop for each crawler; runs by hand have lines of ours.
        "scrapy.extensions.logstats.LogStats": None,
    },
    "FEED_EXPORTERS": {
        "csv": "scraper_service.feeds.TableExporter",
        "xml": "scraper_service.feeds.XmlExporter",
    },
    # Before those of users, which are from 0 to 1000: they get what feeds get, after it
    # is stored.
    "ITEM_PIPELINES": {
        "scraper_service.crawling.model_pipeline.ModelPipeline": -950,
        "scraper_service.crawling.pipelines.PagePipeline": -900,
        "scraper_service.crawling.change_tracking.ChangePipeline": -700,
        "scraper_service.crawling.duplicates.RepeatsPipeline": -600,
        "scraper_service.crawling.pipelines.FeedPipeline": -500,
        "scraper_service.crawling.page_index.SearchIndexPipeline": -400,
        "scraper_service.feeds.FlatItems": -100,
    },
    "SPIDER_MIDDLEWARES": {
        # A page with status 404 is a result, not an error.
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
        "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
        # They look at requests only, and cost every page some layers of generators.
        "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
        "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
        "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    },
}


class ScraperAddon:
    """Our download handler, and what :func:`convert_response` needs, for any spider.

    Settings of ours that the project does not have get our defaults, and so do
    ``DOWNLOAD_MAXSIZE`` and ``DOWNLOAD_TIMEOUT``.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        for name, value in vars(ours).items():
            if name.isupper() and not hasattr(scrapys, name):
                settings.setdefault(name, value, priority="default")
        for name in LIMITS:
            settings.set(name, getattr(ours, name), priority="addon")
        _add(settings, "DOWNLOAD_HANDLERS", {"http": HANDLER, "https": HANDLER})


class ServiceAddon:
    """What our own spiders need; :class:`spiders.base.PageSpider` switches it on."""

    def update_settings(self, settings: BaseSettings) -> None:
        for name, components in COMPONENTS.items():
            _add(settings, name, components)


def _add(settings: BaseSettings, name: str, values: Mapping[str, Any]) -> None:
    name += "_BASE"
    settings.set(name, {**settings.getdict(name), **values}, priority="addon")


async def convert_response(
    response: Response,
    crawler: Crawler,
    *,
    formats: Sequence[str | Mapping[str, Any]] = DEFAULT_FORMATS,
    schema: Mapping[str, Any] | None = None,
    prompt: str | None = None,
    **options: Any,
) -> Converted:
    """Convert a response in a converter process, for callbacks of spiders.

    Arguments and result are those of :func:`scraper_service.convert`; ``crawler`` is
    the spider's, with :class:`ScraperAddon` switched on. The crawl goes on meanwhile;
    ``CONVERTER_TIMEOUT_S`` and ``CONVERTER_MEMORY_MB`` are the limits of one response.

    Raises :exc:`InvalidOptions` and :exc:`ConversionFailed`.
    """
    from scraper_service.crawling.converter_pool.pool import ConverterPool  # noqa: PLC0415

    url = response.url if response.url.startswith(("http://", "https://")) else ""
    page = conversion_options(url, formats, schema, prompt, options)
    headers = response.headers
    encodings = b",".join(headers.getlist("Content-Encoding")).decode("latin-1")
    source = PageSource(
        url=page.url,
        status=response.status,
        body=response.body,
        content_type=(headers.get("Content-Type") or b"").decode("latin-1"),
        content_encodings=tuple(
            name.strip().lower() for name in encodings.split(",") if name.strip()
        ),
        is_cut=DATA_LOSS in response.flags,
    )
    # The crawl has its own limit; what it let in is not refused here.
    source = evolve(source, max_bytes=max(source.max_bytes, len(source.body)))
    pool = ConverterPool.shared(crawler.settings)
    # Of a job: it waits for its turn, where a single scrape would be refused.
    found = await pool.convert(source, page.scrape, pool.timeout_s, job_id="local")
    return converted(found)
