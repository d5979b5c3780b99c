"""Scrapy add-ons: one for other projects, one for the spiders of this package.

Other projects enable :class:`ScraperAddon` with
``ADDONS = {"scraper_service.addon.ScraperAddon": 500}``. The settings of a project keep
precedence. The add-ons change Scrapy's base settings (``DOWNLOADER_MIDDLEWARES_BASE``
and the like). Settings such as ``ITEM_PIPELINES`` therefore only add components.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from attrs import evolve
from scrapy.settings import default_settings as scrapys

from scraper_service import settings as ours
from scraper_service.items import DATA_LOSS, PageSource
from scraper_service.library import DEFAULT_FORMATS, conversion_options, make_result
from scraper_service.services.observability.tracing import ENDPOINT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from scraper_service.library import Converted

HANDLER = "scraper_service.crawling.download.handler.PageDownloadHandler"
CLASSES = {
    "DOWNLOADER": "scraper_service.crawling.scrapy_shortcuts.DirectDownloader",
    "ITEM_PROCESSOR": "scraper_service.crawling.scrapy_shortcuts.DirectPipelines",
    "LOG_FORMATTER": "scraper_service.crawling.scrapy_shortcuts.DirectLog",
    "STATS_CLASS": "scraper_service.crawling.scrapy_shortcuts.DirectStats",
}
LIMITS = ("DOWNLOAD_MAXSIZE", "DOWNLOAD_TIMEOUT")  # Scrapy's defaults: 1 GiB, 180 s
COMPONENTS: Mapping[str, Mapping[str, int | str | None]] = {
    "DOWNLOAD_HANDLERS": {
        "file": None,  # only http(s) URLs are fetched
        "ftp": None,
        "http": HANDLER,
        "https": HANDLER,
        "s3": None,
    },
    "DOWNLOADER_MIDDLEWARES": {
        "scraper_service.crawling.middlewares.UploadedFiles": 290,
        "scraper_service.crawling.middlewares.BlockedSitesMiddleware": 300,
        "scraper_service.crawling.robots.RobotsMiddleware": 310,
        "scraper_service.crawling.download.stored_responses.PageCache": 320,
        "scraper_service.crawling.middlewares.RequestOptionsMiddleware": 350,
        "scraper_service.crawling.download.stored_responses.UnchangedPages": 360,
        "scraper_service.crawling.middlewares.RetryAfter": 550,
        "scraper_service.crawling.middlewares.SafeRedirect": 600,
        "scraper_service.crawling.middlewares.FreshCookies": 700,
        "scraper_service.crawling.scrapy_shortcuts.RequestStats": 850,
        # Off: unused, or they process bodies in the reactor thread.
        "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
        "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware": None,
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
        "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
        "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
        "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
        "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    },
    "EXTENSIONS": {
        "scraper_service.crawling.scrapy_shortcuts.DirectItems": 0,
        "scraper_service.crawling.job_process.JobProcess": 0,
        "scraper_service.crawling.observability.JobLog": 0,
        "scraper_service.crawling.observability.JobRecorder": 0,
        "scraper_service.feeds.Feeds": 0,
        # Off: it ends no run whose feeds cannot be written.
        "scrapy.extensions.feedexport.FeedExporter": None,
        # Off: one timer per crawler; cli/scrapy_commands/crawl.py logs its own lines.
        "scrapy.extensions.logstats.LogStats": None,
    },
    "FEED_EXPORTERS": {
        "csv": "scraper_service.feeds.TableExporter",
        "xml": "scraper_service.feeds.XmlExporter",
    },
    # Pipelines of users have orders from 0 to 1000. They run later and get stored
    # items, as feeds do.
    "ITEM_PIPELINES": {
        "scraper_service.crawling.pipelines.questions.ModelPipeline": -950,
        "scraper_service.crawling.pipelines.pages.PagePipeline": -900,
        "scraper_service.crawling.pipelines.change_tracking.ChangePipeline": -700,
        "scraper_service.crawling.pipelines.pages.RepeatsPipeline": -600,
        "scraper_service.crawling.pipelines.change_tracking.SincePipeline": -550,
        "scraper_service.crawling.pipelines.pages.StorePipeline": -500,
        "scraper_service.crawling.pipelines.pages.SearchIndexPipeline": -400,
        "scraper_service.feeds.FlatItems": -100,
    },
    "SPIDER_MIDDLEWARES": {
        # A page with status 404 is a result, not an error.
        "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
        "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
        # Off: they only inspect requests, and add generator layers to every page.
        "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
        "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
        "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    },
}


OFF = {"{}", "", "0", "False", "false"}  # values of settings as texts
# Extensions, and the settings that enable them. Unused extensions would only
# take a tenth of a second for their imports: the server of aiohttp, libraries of items.
OPTIONAL: Mapping[str, Sequence[str]] = {
    "scraper_service.feeds.Feeds": ("FEEDS", "FEED_URI"),
    "scrapy.extensions.remote_control.RemoteControl": ("REMOTE_CONTROL_ENABLED",),
    "scrapy.extensions.telnet.TelnetConsole": ("TELNETCONSOLE_ENABLED",),
}
# With spans for OpenTelemetry.
TRACED: Mapping[str, int] = {
    "scraper_service.services.observability.tracing.JobSpan": 0
}


class ScraperAddon:
    """The add-on for other projects: download handler and settings of this package.

    :func:`convert_response` needs these settings. A setting that the project lacks gets
    the default of this package, as do ``DOWNLOAD_MAXSIZE`` and ``DOWNLOAD_TIMEOUT``.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        for name, value in vars(ours).items():
            if name.isupper() and not hasattr(scrapys, name):
                settings.setdefault(name, value, priority="default")
        for name in LIMITS:
            settings.set(name, getattr(ours, name), priority="addon")
        _add(settings, "DOWNLOAD_HANDLERS", {"http": HANDLER, "https": HANDLER})


class ServiceAddon:
    """The add-on for the spiders of this package, with all :data:`COMPONENTS`.

    :class:`scraper_service.spiders.base.PageSpider` enables it.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        for name, components in COMPONENTS.items():
            _add(settings, name, components)
        unused = [
            path
            for path, names in OPTIONAL.items()
            if all(str(settings[name] or "") in OFF for name in names)
        ]
        _add(settings, "EXTENSIONS", dict.fromkeys(unused))
        if os.environ.get(ENDPOINT):
            _add(settings, "EXTENSIONS", TRACED)
        for name, path in CLASSES.items():
            settings.set(name, path, priority="addon")


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

    Arguments and result are those of :func:`scraper_service.convert`. ``crawler`` is
    the spider's crawler, with :class:`ScraperAddon` enabled. The crawl continues during
    the conversion. ``CONVERTER_TIMEOUT_S`` and ``CONVERTER_MEMORY_MB`` limit each
    response.

    Raises :exc:`InvalidOptions` and :exc:`ConversionFailed`.
    """
    from scraper_service.content.decode import encoding_names  # noqa: PLC0415
    from scraper_service.crawling.converter_pool.page_conversion import ConverterPool  # noqa: PLC0415

    url = response.url if response.url.startswith(("http://", "https://")) else ""
    page = conversion_options(url, formats, schema, prompt, options)
    headers = response.headers
    source = PageSource(
        url=page.url,
        status=response.status,
        body=response.body,
        content_type=(headers.get("Content-Type") or b"").decode("latin-1"),
        content_encodings=encoding_names(headers.getlist("Content-Encoding")),
        is_cut=DATA_LOSS in response.flags,
    )
    # The crawl has a size limit of its own, so no response is too large here.
    source = evolve(source, max_bytes=max(source.max_bytes, len(source.body)))
    pool = ConverterPool.shared(crawler.settings)
    # With a job id the call waits in a full queue. A single scrape would be refused.
    found = await pool.convert(source, page.scrape, pool.timeout_s, job_id="local")
    return make_result(found)
