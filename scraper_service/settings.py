"""Every setting of the service: Scrapy's where we differ from it, then our own.

Each may be given as ``SCRAPER_<NAME>`` in the environment or as ``-s NAME=VALUE`` on
the command line; lists are comma-separated, switches are ``true`` or ``false``.
"""

from __future__ import annotations

import os
from ipaddress import ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy.settings import default_settings as _defaults

from scraper_service.errors import variable

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# tldextract would download the public suffix list, synchronously, on first use.
os.environ.setdefault("TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS", "")

# -- Scrapy: what runs -----------------------------------------------------------------
# Components are no settings: add-ons bring them, those of our own spiders even where a
# project has others here.
ADDONS = {"scraper_service.addon.ScraperAddon": 500}
BOT_NAME = "scraper-service"
COMMANDS_MODULE = "scraper_service.commands"
NEWSPIDER_MODULE = "spiders"
SPIDER_LOADER_WARN_ONLY = False
SPIDER_MODULES = ["spiders"]
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

# -- Scrapy: consoles that execute code: off ---------------------------
MEMUSAGE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
STATS_DUMP = False
TELNETCONSOLE_ENABLED = False

# -- Scrapy: limits ----------------------------------------------------------------------
CONCURRENT_ITEMS = 1  # Scrapy starts that many tasks for every response
# Wide open: HostPace holds the hosts, and who waits for one must not hold up others.
CONCURRENT_REQUESTS = 0
CONCURRENT_REQUESTS_PER_DOMAIN = 1_000_000  # 0 would be none
DOWNLOAD_DELAY = 0
DOWNLOAD_MAXSIZE = 20 * 2**20  # bytes of a body, as sent and decoded
DOWNLOAD_TIMEOUT = 60  # s, where a scrape gives no time-out
DOWNLOAD_WARNSIZE = 0
METAREFRESH_MAXDELAY = 10  # s; a page that refreshes later stays
REDIRECT_MAX_TIMES = 10  # hops of every kind
# Those of Scrapy but for one of a download handler that is not used: its module takes
# a third of a second to import.
RETRY_EXCEPTIONS = [
    name for name in _defaults.RETRY_EXCEPTIONS if ".handlers." not in str(name)
]
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"
RETRY_HTTP_CODES = [429, 503]  # of pages of jobs; a single scrape is not repeated
RETRY_TIMES = 3  # after them; then the answer is the page
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"  # the oldest caller first
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 64 * 2**20  # bytes of bodies of one job's crawler
WARN_ON_GENERATOR_RETURN_VALUE = False  # it would be looked up for each page

# -- Scrapy: how requests look -------------------------------------------------------------
COOKIES_ENABLED = True
DEFAULT_REQUEST_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip, deflate, br, zstd",
    "Accept-Language": "en-US,en;q=0.9",
}
USER_AGENT = "Mozilla/5.0 (compatible; scraper-service/0.1; +https://scrapy.org)"

# -- Logs --------------------------------------------------------------------------------
LOG_LEVEL = "INFO"
LOG_VERSIONS: list[str] = []

# -- The service: where it listens and keeps its data ------------------------------------
DATABASE_URL = ""  # postgresql://USER:PASSWORD@HOST/DATABASE; empty: SQLite in DATA_DIR
DATA_DIR = "data"  # the job database and the key secret
HOST = "127.0.0.1"  # address to listen on
# Open client connections. A further one closes the connection that has waited longest
# for a request, or is refused where all others have one under way.
MAX_CONNECTIONS = 2000
# The same from one peer: an IPv4 address or an IPv6 network of 64 bits. Those of
# TRUSTED_PROXIES have no limit of their own.
MAX_PEER_CONNECTIONS = 500
MAX_PENDING_SCRAPES = 1000  # single scrapes under way; further ones are answered 429
MIN_DISK_MB = 100  # MiB left in DATA_DIR; with fewer the service is not ready
PORT = 3002  # 0 takes a free one
PUBLIC_URL = ""  # of the addresses in answers; empty: the host of the request
SHUTDOWN_TIMEOUT_S = 30  # time for work under way after SIGTERM

# Networks of proxies whose X-Forwarded-Host and -Proto count, and which may open more
# than MAX_PEER_CONNECTIONS.
TRUSTED_PROXIES = ["127.0.0.0/8", "::1/128"]

# -- The service: who may call -----------------------------------------------------------
API_KEYS: list[str] = []  # fixed keys beside those of `keys create`, a team each
AUTH_ENABLED = True  # False: every caller is one team, with or without a key
# Keys are hashed with it, sessions and headers of jobs encrypted: the same for all
# services and nodes on one database. Empty: made once, kept in DATA_DIR.
KEY_SECRET = ""

# Calls per minute and team by mode, such as `scrape=100,crawl=15`; a mode that is not
# named, or 0, is unlimited. Teams may have their own: `scraper-service teams set`.
RATE_LIMITS: list[str] = []
# Hosts that nothing is fetched from, their subdomains included.
BLOCKED_SITES: list[str] = []

# -- The service: jobs -------------------------------------------------------------------
CACHE_RETENTION_S = 604_800  # raw sources for maxAge are kept that long
CHANGE_RETENTION_S = 31_536_000  # what tracked pages were like: a year
EXTRACT_PAGES = 50  # that an extract reads below an address, where it has no limit
JOB_CONCURRENCY = 16  # requests in flight per job; hosts are limited by themselves
JOB_RUNNER = (
    "scraper_service.services.job_runner.LocalRunner"  # or ...scrapyd.ScrapydRunner
)
JOB_SOURCE = "scraper_service.crawling.job_process.join_job"  # of `-a job_id=...`
LEASE_S = 15  # after a process is gone, until its addresses are given to others
MAX_ACTIVE_JOBS = 20_000  # of one team, running or waiting; further ones: 429
MAX_PENDING_MAPS = 200  # running ones and those that wait; further ones: 429
MAX_QUEUED_SCRAPES = 500  # of one team, over its concurrency; further ones: 429
MAX_RUNNING_JOBS = 20  # crawlers at a time in one process; teams take turns
MAX_RUNNING_MAPS = 8  # at a time in one process, up to four files of a site each
MAX_RUNNING_OPERATIONS = 50  # extracts and the like at a time in one process
OPERATION_TIMEOUT_S = 3600  # then what an extract or the like has read so far counts
PAGE_SERIALIZER = "scraper_service.api.page_json.page_json"  # what is stored of a page

# -- The service: jobs on scrapyd, with JOB_RUNNER = scraper_service.services.scrapyd.runner.ScrapydRunner
# Addresses of the nodes, as `http://user:password@10.0.0.5:6800`.
SCRAPYD_NODES: list[str] = []
# At most, one of them at first; the next one starts when the job has more addresses
# open than those before it ask for at once.
SCRAPYD_PROCESSES_PER_JOB = 1
SCRAPYD_PROJECT = "scraper_service"  # the name that the nodes know this project by

# -- The service: search -----------------------------------------------------------------
BRAVE_API_KEY = ""
BRAVE_URL = "https://api.search.brave.com/res/v1"  # or what answers like it
MAX_PENDING_SEARCHES = 200  # at a time in one process; further ones: 429
SEARCH_INDEX = True  # whether pages are kept for searches, as long as for maxAge
# Engines, the first one is asked first: searxng, brave, serper, ddgs, own (what teams
# have scraped themselves), or import paths. Empty: those that are configured.
SEARCH_PROVIDERS: list[str] = []
SEARCH_TIMEOUT_S = 10  # for one answer of an engine
SEARXNG_URL = ""  # of an instance that has the format json switched on
SERPER_API_KEY = ""
SERPER_URL = "https://google.serper.dev"  # or what answers like it

# -- The service: prices, in credits -----------------------------------------------------
CREDITS_JSON = 4  # on top, for data by a schema or a prompt
CREDITS_PER_EXTRACT_PAGE = 5  # of an extract, for each page its data is from
CREDITS_PER_MAP = 1
CREDITS_PER_PAGE = 1
CREDITS_PER_PDF_PAGE = 1  # in place of CREDITS_PER_PAGE, for each page parsed
CREDITS_PER_SEARCH = 2  # for each ten results that are begun
CREDITS_STEALTH = 4  # on top, if a stealth proxy was used
CREDITS_ZERO_RETENTION = 1  # on top
TOKENS_PER_CREDIT = 15  # in the answers that count tokens

# -- The service: converter processes ----------------------------------------------------
CONVERTER = "scraper_service.crawling.converter_pool.pool.ConverterPool"
ENGINES = "scraper_service.crawling.download.engines.Engines"
ROBOTS_POLICY = "scraper_service.crawling.robots.RobotsPolicy"
CONVERTER_MEMORY_MB = 1024  # address space of one process
CONVERTER_PROCESSES = 0  # 0: one per processor; one more while all are slow
CONVERTER_QUEUE_MB = 256  # MiB of inputs of all teams; see the converter queue
CONVERTER_TASKS = 1000  # conversions before a process is replaced
CONVERTER_TIMEOUT_S = 60  # time for one page, less where its caller waits for less
MARKDOWN_CONVERTER = "native"  # or html2text, for that library's own output

# -- The service: what it may reach ------------------------------------------------------
# Networks that pages may come from besides the public internet, as `10.1.0.0/16` or,
# for some ports only, `10.1.0.0/16@80+8080`. Operators only; never per request.
EGRESS_ALLOW: list[str] = []
HOST_CONCURRENCY = 8  # requests in flight per host, in all processes; the most

# -- The service: webhooks -----------------------------------------------------------------
WEBHOOK_BODIES_MB = 64  # MiB of large events under way, to all receivers together
WEBHOOK_CONCURRENCY = 4  # requests in flight per receiver, of different jobs
WEBHOOK_RETRY_S = ["60", "300", "900"]  # before each further attempt; then given up
# What deliveries are signed with: a secret for all teams, or `<team id>:<secret>`. The
# first of a team is in X-Firecrawl-Signature, all of them in X-Scraper-Signature.
WEBHOOK_SECRETS: list[str] = []
WEBHOOK_TIMEOUT_S = 10  # for one attempt
# Where the events of jobs without a webhook of their own are sent; `{job_id}` in it
# stands for the id of the job. Empty for nowhere.
WEBHOOK_URL = ""

# -- The service: watchers of jobs, by WebSocket or event stream --------------------------
MAX_TEAM_WATCHERS = 100  # open at a time in one process; further ones: 429
MAX_WATCHERS = 1000  # of all teams together
WATCHER_PING_S = 20  # between two signs of life to one who has nothing to read
WATCHER_STALL_S = 30  # who takes nothing for so long is cut off

# -- The service: language model ---------------------------------------------------------
# A server that speaks the chat-completions protocol, hosted or on this machine, such as
# `https://api.openai.com/v1` or `http://127.0.0.1:11434/v1`; empty for none: then rules
# answer, and say so.
LLM_BASE_URL = ""
LLM_API_KEY = ""  # sent as `Authorization: Bearer`; empty for none
LLM_MODEL = ""  # its name on that server
LANGUAGE_MODEL = "scraper_service.llm.requests.ChatModel"
LLM_ANSWER_TOKENS = 4096  # the most that one answer may have
LLM_CONCURRENCY = 4  # requests in flight of one process
LLM_PIECE_TOKENS = 8000  # longer pages are read in pieces of so many
LLM_TIMEOUT_S = 60  # for one request, less where its caller waits for less
# The most tokens that a page may take, its answers included, and all pages of a job,
# and of a key in a day (UTC); 0: without limit. Rules answer what is above.
LLM_TOKENS_PER_PAGE = 100_000
LLM_TOKENS_PER_JOB = 5_000_000
LLM_TOKENS_PER_KEY = 0

# -- The service: robots.txt -------------------------------------------------------------
ROBOTS_AGENT = ""  # product token that groups are chosen by; empty: that of USER_AGENT
ROBOTS_CACHE_MB = 64  # MiB of rules that a process keeps, of all sites together
ROBOTS_MAX_AGE_S = 86_400  # until a robots.txt is fetched again; at most 24 h, RFC 9309
ROBOTS_RETRY_S = 300  # the same where the site failed; doubles with each failure
ROBOTS_TIMEOUT_S = 30  # for a robots.txt with all its redirects

# -- The service: browser ----------------------------------------------------------------
ARTEFACTS = "files"  # screenshots as addresses of files of ours; or inline, as data:
BROWSER_AGE_S = 3600  # after that a browser is replaced
BROWSER_CONCURRENCY = 0  # pages open at a time; 0: by processors and memory
BROWSER_IDLE_S = 120  # without pages, until the browser ends
BROWSER_PAGES = 500  # after that a browser is replaced
BROWSER_QUEUE = 500  # pages that may wait for the browser; further ones fail
BROWSER_SANDBOX = True  # Chromium's own; it needs another user than root
CHROMIUM_PATH = ""  # empty: Playwright's own, else the first Chromium of the PATH
PLAYWRIGHT_BROWSER_PROVIDER = "scrapy_playwright.provider.PlaywrightBrowserProvider"
RENDER = "auto"  # the browser where it is needed; or never, or always

# -- The service: proxies of the operator ------------------------------------------------
# `http://USER:PASSWORD@HOST:PORT`, for every page; `stealth=http://...` for those whose
# caller asks for it, or that were refused otherwise.
PROXIES: list[str] = []
BLOCKLIST_URL = ""  # what `scraper-service blocklist update` downloads

# -- Not settings: what the values have to be, and where others come from ----------------
_kinds = {name: type(value) for name, value in globals().items() if name.isupper()}
_choices = {"ARTEFACTS": ("files", "inline"), "RENDER": ("auto", "never", "always")}
_minima = {
    "BROWSER_PAGES": 1,
    "CONVERTER_MEMORY_MB": 256,  # it could not load what it needs
    "CONVERTER_QUEUE_MB": 1,
    "CONVERTER_TIMEOUT_S": 1,
    "HOST_CONCURRENCY": 1,
    "JOB_CONCURRENCY": 1,
    "LEASE_S": 1,
    "LLM_ANSWER_TOKENS": 16,
    "LLM_CONCURRENCY": 1,
    "LLM_PIECE_TOKENS": 200,
    "LLM_TIMEOUT_S": 1,
    "MAX_ACTIVE_JOBS": 1,
    "MAX_PENDING_MAPS": 1,
    "MAX_RUNNING_JOBS": 1,
    "MAX_RUNNING_MAPS": 1,
    "MAX_RUNNING_OPERATIONS": 1,
    "EXTRACT_PAGES": 1,
    "OPERATION_TIMEOUT_S": 1,
    "MAX_CONNECTIONS": 1,
    "MAX_PEER_CONNECTIONS": 1,
    "MAX_PENDING_SCRAPES": 1,
    "MAX_PENDING_SEARCHES": 1,
    "MAX_TEAM_WATCHERS": 1,
    "MAX_WATCHERS": 1,
    "ROBOTS_CACHE_MB": 1,
    "ROBOTS_RETRY_S": 1,
    "ROBOTS_TIMEOUT_S": 1,
    "SCRAPYD_PROCESSES_PER_JOB": 1,
    "SEARCH_TIMEOUT_S": 1,
    "WATCHER_PING_S": 1,
    "WATCHER_STALL_S": 1,
    "WEBHOOK_BODIES_MB": 1,
    "WEBHOOK_CONCURRENCY": 1,
    "WEBHOOK_TIMEOUT_S": 1,
}
_of_commands = {"KEY", "SERVER"}  # SCRAPER_SERVER says which service they ask
_maxima = {
    "PORT": 65_535,
    "ROBOTS_MAX_AGE_S": 86_400,
    "SCRAPYD_PROCESSES_PER_JOB": 1000,
}
_known = {*_kinds, *(name for name in dir(_defaults) if name.isupper())}
for _name, _value in os.environ.items():
    if _name.startswith("SCRAPER_") and _name.removeprefix("SCRAPER_") in _known:
        globals()[_name.removeprefix("SCRAPER_")] = _value


def unknown_settings() -> list[str]:
    """Return the ``SCRAPER_...`` variables of the environment that set nothing."""
    return sorted(
        name
        for name in os.environ
        if name.startswith("SCRAPER_")
        and name.removeprefix("SCRAPER_") not in _known | _of_commands
    )


def check_settings(settings: BaseSettings) -> None:
    """Raise :exc:`ValueError` naming the first setting that has an unusable value."""
    for name, kind in _kinds.items():
        value = settings[name]
        if kind is bool:
            if str(value).lower() not in {"true", "false", "1", "0"}:
                text = f"{variable(name)} must be true or false, got {value!r}"
                raise ValueError(text)
        elif kind in {int, float}:
            _check_number(name, value)
        elif name in _choices and value not in _choices[name]:
            allowed = ", ".join(_choices[name])
            text = f"{variable(name)} must be one of {allowed}, got {value!r}"
            raise ValueError(text)
    for text in settings.getlist("TRUSTED_PROXIES"):
        _check_network("TRUSTED_PROXIES", text)
    for text in settings.getlist("WEBHOOK_RETRY_S"):
        _check_number("WEBHOOK_RETRY_S", text)
    if url := settings["WEBHOOK_URL"]:
        _check_webhook(url)
    _check_model(settings)
    # Imported here: every process reads this module, few of them check it.
    from scraper_service.options.limits import parse_rates, parse_sites  # noqa: PLC0415

    parse_rates(settings.getlist("RATE_LIMITS"))
    parse_sites(settings.getlist("BLOCKED_SITES"))


def _check_number(name: str, value: object) -> None:
    low, high = _minima.get(name, 0), _maxima.get(name)
    text = f"{variable(name)} must be a number from {low}"
    text += f" to {high}" if high else " up"
    try:
        number = float(str(value))
    except ValueError:
        raise ValueError(f"{text}, got {value!r}") from None
    if not low <= number <= (high or number) or number != int(number):
        raise ValueError(f"{text}, without fraction, got {value!r}")


def _check_network(name: str, text: str) -> None:
    try:
        ip_network(text.strip())
    except ValueError as error:
        raise ValueError(
            f"{name} must be IP networks, such as 10.1.0.0/16: {error}"
        ) from None


def _check_model(settings: BaseSettings) -> None:
    url = settings["LLM_BASE_URL"]
    names = [name for name in ("LLM_MODEL", "LLM_API_KEY") if settings[name]]
    if not url and names:
        raise ValueError(f"SCRAPER_LLM_BASE_URL must be set with {variable(names[0])}")
    if url and not settings["LLM_MODEL"]:
        raise ValueError("SCRAPER_LLM_MODEL must be set with SCRAPER_LLM_BASE_URL")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname
    except ValueError:
        usable = False
    if url and (not usable or parts.query or parts.username):
        raise ValueError(
            "SCRAPER_LLM_BASE_URL must be an http(s) address without user and query, got"
            f" {url.rpartition('@')[2]!r}"
        )


def _check_webhook(url: str) -> None:
    from scraper_service.options.urls import caller_url  # noqa: PLC0415

    example = url.replace("{job_id}", "00000000-0000-0000-0000-000000000000")
    try:
        whole = caller_url(example) == example
    except ValueError:
        whole = False
    if not whole:
        raise ValueError(f"SCRAPER_WEBHOOK_URL must be an http(s) address, got {url!r}")
