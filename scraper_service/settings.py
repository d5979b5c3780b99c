"""Every setting of the service: Scrapy's where we differ from it, then our own.

Each may be given as ``SCRAPER_<NAME>`` in the environment or as ``-s NAME=VALUE`` on
the command line; lists are comma-separated, switches are ``true`` or ``false``.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_network
from typing import TYPE_CHECKING

from scrapy.settings import default_settings as _defaults

from scraper_service.errors import variable
from scraper_service.options.parsing import guesses
from scraper_service.options.urls import caller_url, url_parts

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# tldextract would download the public suffix list, synchronously, on first use.
os.environ.setdefault("TLDEXTRACT_PUBLIC_SUFFIX_LIST_URLS", "")

# -- Scrapy: components ----------------------------------------------------------------
# The add-ons of our spiders. They bring our components, also into a project that lists
# others in these settings.
ADDONS = {"scraper_service.addon.ScraperAddon": 500}
ASYNCIO_EVENT_LOOP = "scraper_service.crawling.download.event_loop.EventLoop"
BOT_NAME = "scraper-service"
COMMANDS_MODULE = "scraper_service.cli.scrapy_commands"
# The run names the command that writes these formats.
FEED_EXPORTERS = {
    "parquet": "scrapy.exporters.BaseItemExporter",
    "zip": "scrapy.exporters.BaseItemExporter",
}
NEWSPIDER_MODULE = "scraper_service.spiders"
SPIDER_LOADER_WARN_ONLY = False
SPIDER_MODULES = ["scraper_service.spiders"]
TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

# -- Scrapy: consoles that execute code, off -------------------------------------------
MEMUSAGE_ENABLED = False
REMOTE_CONTROL_ENABLED = False
STATS_DUMP = False
TELNETCONSOLE_ENABLED = False

# -- Scrapy: limits --------------------------------------------------------------------
# Tasks that Scrapy starts for every response.
CONCURRENT_ITEMS = 1
# No limit of Scrapy's own: HOST_CONCURRENCY limits each host, and a request that waits
# for its host must not delay requests to other hosts.
CONCURRENT_REQUESTS = 0
CONCURRENT_REQUESTS_PER_DOMAIN = 1_000_000  # 0 would allow no request
DOWNLOAD_DELAY = 0
# Largest body of a response in bytes, as sent and after decompression.
DOWNLOAD_MAXSIZE = 20 * 2**20
# Seconds for one download where the scrape gives no timeout.
DOWNLOAD_TIMEOUT = 60
DOWNLOAD_WARNSIZE = 0
# Longest delay in seconds of a meta refresh that is followed.
METAREFRESH_MAXDELAY = 10
# Largest number of redirects of a page, of every kind together.
REDIRECT_MAX_TIMES = 10
# Scrapy's list without the exceptions of a download handler that we do not use: its
# module takes a third of a second to import.
RETRY_EXCEPTIONS = [
    name for name in _defaults.RETRY_EXCEPTIONS if ".handlers." not in str(name)
]
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"
# Statuses after which a page of a job is fetched again. A single scrape is not.
RETRY_HTTP_CODES = [429, 503]
# Further attempts at a page of a job. After them the response is the page.
RETRY_TIMES = 3
SCHEDULER_MEMORY_QUEUE = "scrapy.squeues.FifoMemoryQueue"  # the oldest caller first
# Bytes of response bodies that the crawler of one job keeps at a time.
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 64 * 2**20
WARN_ON_GENERATOR_RETURN_VALUE = False  # Scrapy would look it up for each page

# -- Scrapy: requests ------------------------------------------------------------------
COOKIES_ENABLED = True
DEFAULT_REQUEST_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Encoding": "gzip, deflate, br, zstd",
    "Accept-Language": "en-US,en;q=0.9",
}
# The header User-Agent of every request, robots.txt included.
USER_AGENT = "Mozilla/5.0 (compatible; scraper-service/1.0)"

# -- Address and data ------------------------------------------------------------------
# URL of the job database: postgresql://USER:PASSWORD@HOST/DATABASE. Empty: SQLite in
# DATA_DIR.
DATABASE_URL = ""
# Folder of the job database, the key secret and the files. Only its user can read it.
DATA_DIR = "data"
# Address to listen on.
HOST = "127.0.0.1"
# Port to listen on; 0 takes a free one.
PORT = 3002
# Port on which a process of `scraper-service worker` has /health and /metrics; 0 for none.
WORKER_PORT = 0
# Base of the URLs in responses. Empty: the host of the request; in webhooks then the
# address that the service listens on.
PUBLIC_URL = ""
# Networks of reverse proxies. Their X-Forwarded-Host and X-Forwarded-Proto count, and
# they may open more connections than MAX_PEER_CONNECTIONS.
TRUSTED_PROXIES = ["127.0.0.0/8", "::1/128"]
# Open client connections. A further one closes the connection that has waited longest
# for a request, or is refused if all others have a running request.
MAX_CONNECTIONS = 2000
# The same for one IPv4 address, or one IPv6 network with a prefix of 64 bits.
MAX_PEER_CONNECTIONS = 500
# Free space in DATA_DIR below which the service is not ready.
MIN_DISK_MB = 100
# Time after SIGTERM in which calls are still accepted, while /health/ready is a 503 and
# each response closes its connection: for load balancers to choose other services.
DRAIN_S = 0
# Time after SIGTERM and DRAIN_S until running work is ended.
SHUTDOWN_TIMEOUT_S = 30

# -- Access ----------------------------------------------------------------------------
# Fixed keys in addition to those of `keys create`, each with a team of its own. `fc-change-me`
# is refused unless HOST is a loopback address.
API_KEYS: list[str] = []
# False lets everybody call without a key, as one team.
AUTH_ENABLED = True
# Secret that keys are hashed with, and that encrypts sessions and the headers of jobs.
# All services and nodes of one database need the same. Empty: made once, in DATA_DIR.
KEY_SECRET = ""
# Calls per minute and team by mode, such as `scrape=100,crawl=15`. A mode without an
# entry, or with 0, is unlimited. `teams set` gives a team rates of its own.
RATE_LIMITS: list[str] = []
# Hosts that nothing is fetched from, with their subdomains.
BLOCKED_SITES: list[str] = []

# Offer the API as tools for agents (Model Context Protocol) at /mcp.
MCP = True
# Tools to offer, such as `firecrawl_scrape`. Empty: all that work.
MCP_TOOLS: list[str] = []
# Tokens of an answer of a tool, if the call names no other number.
MCP_MAX_TOKENS = 10_000
# Values of the header Origin that may call /mcp, such as `https://agents.example.net`,
# besides the service's own and calls without the header.
MCP_ORIGINS: list[str] = []

# Who may read /metrics: loopback (callers on this machine, not through a proxy, and
# METRICS_KEY), open (everybody), off.
METRICS = "loopback"
# Key for /metrics, sent as `Authorization: Bearer`. Empty: no key is accepted.
METRICS_KEY = ""

# -- Prices in credits -----------------------------------------------------------------
# Price of a page.
CREDITS_PER_PAGE = 1
# Price of a page that has not changed since the last check of its monitor, instead of all
# other prices of pages: it costs no conversion, and mostly no body.
CREDITS_UNCHANGED = 1
# Price of each parsed page of a PDF, instead of CREDITS_PER_PAGE.
CREDITS_PER_PDF_PAGE = 1
# Added for data by a JSON Schema or a prompt.
CREDITS_JSON = 4
# Added if the page came through a stealth proxy.
CREDITS_STEALTH = 4
# Added for zeroDataRetention.
CREDITS_ZERO_RETENTION = 1
# Price of a map.
CREDITS_PER_MAP = 1
# Price of each started block of ten results of a search.
CREDITS_PER_SEARCH = 2
# Price of each page that the data of an extract come from.
CREDITS_PER_EXTRACT_PAGE = 5
# Price of each started minute of a session of the browser.
CREDITS_PER_SESSION_MINUTE = 2
# The same for a session in which a language model has taken steps by a prompt.
CREDITS_PER_PROMPT_MINUTE = 7
# Tokens per credit in the responses that count tokens.
TOKENS_PER_CREDIT = 15

# -- Scrapes and jobs ------------------------------------------------------------------
# Days that results are kept after their last change, where a request has no
# retentionDays. May have a fraction.
RETENTION_DAYS = 1
# The most days that requests may ask for with retentionDays.
MAX_RETENTION_DAYS = 365
# Whether crawls and batches keep the response of each page with the job, for archives and
# other formats; keepSources of a request wins. A job then takes about twice the space.
KEEP_SOURCES = True
# Disk quota of a team in MiB: pages, responses, files, uploads and results that it has
# stored, compressed. 0 is none; `teams set --disk-mb` changes it for a team. Without space,
# calls that store pages get a 402, and crawls and batches pause.
TEAM_DISK_MB = 0
# Time that the raw sources of pages are kept for maxAge.
CACHE_RETENTION_S = 604_800
# Age of a page up to which a sitemap that says it has not changed spares the fetch in a check
# of a monitor. Sitemaps may be wrong. 0: every page is fetched.
LASTMOD_TRUST_S = 604_800
# Time that the last version of a page is kept for changeTracking: a year.
CHANGE_RETENTION_S = 31_536_000
# Running single scrapes in one process. Further ones get a 429.
MAX_PENDING_SCRAPES = 1000
# Scrapes of one team that wait for its concurrency. Further ones get a 429.
MAX_QUEUED_SCRAPES = 500
# Requests in flight per job. HOST_CONCURRENCY limits each host.
JOB_CONCURRENCY = 16
# Jobs of one team that run or wait. Further ones get a 429.
MAX_ACTIVE_JOBS = 20_000
# Jobs that run at a time in one process. Further ones wait; teams alternate. 0 for an API
# process whose jobs run in others: `scraper-service worker`.
MAX_RUNNING_JOBS = 20
# Maps that run at a time in one process, each with up to four sitemaps at once.
MAX_RUNNING_MAPS = 8
# Maps that run or wait in one process. Further ones get a 429.
MAX_PENDING_MAPS = 200
# Extract, agent, deep research and llms.txt jobs that run at a time in one process; 0 as in
# MAX_RUNNING_JOBS.
MAX_RUNNING_OPERATIONS = 50
# Time after which such a job ends with what it has read so far; an agent fails.
OPERATION_TIMEOUT_S = 3600
# Monitors of one team.
MAX_MONITORS = 1000
# Checks of monitors that run at a time in one process; 0 as in MAX_RUNNING_JOBS.
MONITOR_CONCURRENCY = 4
# Time after which a check ends with the pages it has.
MONITOR_CHECK_TIMEOUT_S = 3600
# Server for mail of monitors: `smtp://USER:PASSWORD@HOST:PORT/?from=ADDRESS`, or `smtps://`.
# Without it no mail is sent.
SMTP_URL = ""
# Channels of messages of monitors: NAME=URL,NAME=URL with URLs of Apprise (extra
# `notifications`), such as `team=slack://TOKEN_A/TOKEN_B/TOKEN_C`. Teams name them. Their
# connections are under the egress rule.
NOTIFICATION_CHANNELS: list[str] = []
# Pages that an extract reads below a URL with /*, where it has no limit.
EXTRACT_PAGES = 50
# Days after which a paused job is cancelled.
PAUSE_MAX_DAYS = 7
# Time after the last sign of life of a process until other processes take over its
# pages.
LEASE_S = 15
# Import path of the class that runs jobs: in this process, or on scrapyd nodes with
# scraper_service.services.scrapyd.runner.ScrapydRunner.
JOB_RUNNER = "scraper_service.services.job_runner.LocalRunner"
# Import path of the function that lets a spider join a job by `-a job_id=...`.
JOB_SOURCE = "scraper_service.crawling.job_process.join_job"
# Import path of the function that makes the stored JSON of a page.
PAGE_SERIALIZER = "scraper_service.api.responses.page_json"

# -- scrapyd nodes ---------------------------------------------------------------------
# URLs of the nodes, such as `http://user:password@10.0.0.5:6800`.
SCRAPYD_NODES: list[str] = []
# Processes per job at most. A job starts with one process and gets the next one when it
# has more URLs open than its processes fetch at once.
SCRAPYD_PROCESSES_PER_JOB = 1
# Name of this project on the nodes.
SCRAPYD_PROJECT = "scraper_service"

# -- Egress and politeness -------------------------------------------------------------
# Private networks that pages may come from, such as `10.1.0.0/16`, or for some ports
# only `10.1.0.0/16@80+8080`. No request can change it.
EGRESS_ALLOW: list[str] = []
# Requests in flight per host, over all jobs, scrapes and processes. A host that is new
# to a process starts with one.
HOST_CONCURRENCY = 8
# Proxies to fetch through: `http://USER:PASSWORD@HOST:PORT` for every page,
# `stealth=http://...` for pages with the proxy `stealth`, or that a site refused.
PROXIES: list[str] = []
# Proxy to everything outside, such as `http://USER:PASSWORD@proxy.example.net:3128`:
# pages without an entry of PROXIES, search engines, language models, webhooks. HTTPS_PROXY
# and similar variables have no effect.
OUTGOING_PROXY = ""
# Hosts, with their subdomains, and networks that are reached without OUTGOING_PROXY.
OUTGOING_PROXY_EXCEPT = ["localhost", "127.0.0.1/32", "::1/128"]
# Product token by which groups of a robots.txt are chosen. Empty: that of USER_AGENT.
ROBOTS_AGENT = ""
# Memory for the robots.txt rules of all sites, per process.
ROBOTS_CACHE_MB = 64
# Time until a robots.txt is fetched again; at most 24 h (RFC 9309, section 2.4).
ROBOTS_MAX_AGE_S = 86_400
# Time until it is fetched again after a server error. It doubles with each failure.
ROBOTS_RETRY_S = 300
# Time for a robots.txt with all its redirects.
ROBOTS_TIMEOUT_S = 30

# -- Search ----------------------------------------------------------------------------
# Engines in the order of their use: searxng, brave, serper, ddgs, own (the team's own
# pages), or import paths. Empty: all that are configured.
SEARCH_PROVIDERS: list[str] = []
# URL of a SearXNG instance that has the format json switched on.
SEARXNG_URL = ""
# Key for Brave Search.
BRAVE_API_KEY = ""
# URL of Brave's API, or of a server with the same API.
BRAVE_URL = "https://api.search.brave.com/res/v1"
# Key for Serper.
SERPER_API_KEY = ""
# URL of Serper's API, or of a server with the same API.
SERPER_URL = "https://google.serper.dev"
# False keeps no index of the pages that teams scrape.
SEARCH_INDEX = True
# Time for one response of an engine.
SEARCH_TIMEOUT_S = 10
# Running searches in one process. Further ones get a 429.
MAX_PENDING_SEARCHES = 200

# -- Language model --------------------------------------------------------------------
# URL of a server with the chat-completions API, such as `https://api.openai.com/v1` or
# `http://127.0.0.1:11434/v1`. Empty: rules answer, and the response says so.
LLM_BASE_URL = ""
# Name of the model on that server.
LLM_MODEL = ""
# Key that is sent as `Authorization: Bearer`. Empty: no header.
LLM_API_KEY = ""
# Import path of the client class.
LANGUAGE_MODEL = "scraper_service.llm.requests.ChatModel"
# Requests in flight per process.
LLM_CONCURRENCY = 4
# Time for one request; less where its caller waits for less.
LLM_TIMEOUT_S = 60
# Tokens of a page in one request. Longer pages are read in pieces.
LLM_PIECE_TOKENS = 8000
# Tokens of one answer at most.
LLM_ANSWER_TOKENS = 4096
# Tokens of one page, answers included; 0 is unlimited. Above it, rules answer.
LLM_TOKENS_PER_PAGE = 100_000
# Tokens of all pages of a job; 0 is unlimited.
LLM_TOKENS_PER_JOB = 5_000_000
# Tokens of an API key per day (UTC); 0 is unlimited.
LLM_TOKENS_PER_KEY = 0

# -- Browser ---------------------------------------------------------------------------
# When pages are rendered: auto (where it is needed), never, always.
RENDER = "auto"
# Path of Chromium. Empty: Playwright's own, else the one of the PATH; the headless shell first.
CHROMIUM_PATH = ""
# Chromium's sandbox. It works for users other than root, with user namespaces.
BROWSER_SANDBOX = True
# Pages open at a time; 0: by processors and memory. Pages that were open when a browser
# died are open in addition, up to a quarter as many.
BROWSER_CONCURRENCY = 0
# Scrapes that may wait for the browser. Further ones fail; pages of jobs always wait.
BROWSER_QUEUE = 500
# Pages after which a browser is replaced.
BROWSER_PAGES = 500
# Age at which a browser is replaced.
BROWSER_AGE_S = 3600
# Time without a page after which the browser ends.
BROWSER_IDLE_S = 120
# Sessions of the browser that a team may have open at a time, each with a browser of its own;
# 0 switches sessions off. Half of the memory of the machine limits those of all teams.
BROWSER_SESSIONS = 4
# Let callers connect to the browser of a session with Playwright or Puppeteer (cdpUrl). Then
# the browser of a session has a port on 127.0.0.1, which other users of the machine can reach.
BROWSER_CDP = False
# Languages whose code callers may run as a step of a browser session: node, python, or both;
# none: no code. It runs isolated by bubblewrap: see docs/how-to/browser.md, Code of callers. The browser
# of a session then has a port on 127.0.0.1, as with BROWSER_CDP.
INTERACT_CODE = "none"
# Form of screenshots and PDFs in responses: files (signed URLs), or inline (data: URLs).
ARTEFACTS = "files"
# Object storage for these files and for the responses that jobs keep: s3://BUCKET/PREFIX,
# gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, of one job database only; extra `object-storage`.
# Credentials and endpoint come from the environment of the service. Empty: files in DATA_DIR,
# responses in the database.
ARTEFACT_STORE = ""
# Import path of the class that starts the browser.
PLAYWRIGHT_BROWSER_PROVIDER = "scrapy_playwright.provider.PlaywrightBrowserProvider"

# -- Converter processes ---------------------------------------------------------------
# Processes that convert pages; 0: one per processor. One more converts small pages while
# all of them are busy with slow pages.
CONVERTER_PROCESSES = 0
# Time for one page; less where its caller waits for less.
CONVERTER_TIMEOUT_S = 60
# Address space of one process.
CONVERTER_MEMORY_MB = 1024
# Pages that wait for a converter, and pages over 1 MB that are being read. A team may use
# as much as is free. Above it jobs and large pages wait; small scrapes get a 429.
CONVERTER_QUEUE_MB = 256
# Conversions after which a process is replaced.
CONVERTER_TASKS = 1000
# Writer of Markdown: native, or html2text for that library's Markdown.
MARKDOWN_CONVERTER = "native"
# Import path of the converter pool.
CONVERTER = "scraper_service.crawling.converter_pool.page_conversion.ConverterPool"
# Import path of the class that chooses between HTTP and browser.
ENGINES = "scraper_service.crawling.middlewares.Engines"
# Import path of the class that reads robots.txt.
ROBOTS_POLICY = "scraper_service.crawling.robots.RobotsPolicy"

# -- Webhooks --------------------------------------------------------------------------
# URL for the events of jobs without a webhook of their own. `{job_id}` in it stands for
# the id of the job.
WEBHOOK_URL = ""
# Secrets that sign deliveries: `SECRET` for all teams, `TEAM_ID:SECRET` for one. The
# first one of a team signs X-Firecrawl-Signature, all of them sign X-Scraper-Signature.
WEBHOOK_SECRETS: list[str] = []
# Seconds before each further attempt at a delivery. After the last one it has failed.
WEBHOOK_RETRY_S = ["60", "300", "900"]
# Time for one attempt.
WEBHOOK_TIMEOUT_S = 10
# Requests in flight per receiver, each of another job.
WEBHOOK_CONCURRENCY = 4
# Large events that are being sent, to all receivers together.
WEBHOOK_BODIES_MB = 64

# -- WebSockets and event streams ------------------------------------------------------
# Streams open in one process. Further ones get a 429.
MAX_WATCHERS = 1000
# The same for one team.
MAX_TEAM_WATCHERS = 100
# Time between two pings to a client that has nothing to read.
WATCHER_PING_S = 20
# Time after which a client that stops reading a stream or an export is disconnected.
WATCHER_STALL_S = 30
# Running exports of one team in one process of the service. Further ones get a 429.
EXPORT_CONCURRENCY = 4
# The same for all teams. Each export is a process of some 30 MB, for Parquet 160 MB.
MAX_EXPORTS = 16

# -- Audit log -------------------------------------------------------------------------
# Days that entries of the audit log are kept: who changed keys, teams and jobs, from which
# IP address. 0 keeps none.
AUDIT_DAYS = 365

# -- Ledger ----------------------------------------------------------------------------
# Days that the charge of each page and call is kept. The usage of the last 366 days needs
# them; balances do not. 0 keeps all.
LEDGER_DAYS = 400

# -- Logs ------------------------------------------------------------------------------
# False writes no line for each request to the service. Requests to /health and /metrics
# never have one.
ACCESS_LOG = True
# True writes each line of the log of a service, of a node's process and of `scrapy crawl`
# as a JSON object, false as text.
LOG_JSON = False
# Least severe level that is logged: DEBUG, INFO, WARNING, ERROR, CRITICAL.
LOG_LEVEL = "INFO"
LOG_VERSIONS: list[str] = []

# -- Not settings: limits of the values, and the environment ---------------------------
_kinds = {name: type(value) for name, value in globals().items() if name.isupper()}
# Import paths: ours, and what an object at another one has.
_imported = {
    "JOB_RUNNER": (JOB_RUNNER, "wake"),
    "JOB_SOURCE": (JOB_SOURCE, "__call__"),
    "PAGE_SERIALIZER": (PAGE_SERIALIZER, "__call__"),
    "PLAYWRIGHT_BROWSER_PROVIDER": (PLAYWRIGHT_BROWSER_PROVIDER, "__call__"),
    "CONVERTER": (CONVERTER, "shared"),
    "ENGINES": (ENGINES, "shared"),
    "ROBOTS_POLICY": (ROBOTS_POLICY, "shared"),
}
_choices = {
    "ARTEFACTS": ("files", "inline"),
    "LOG_LEVEL": ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
    "METRICS": ("loopback", "open", "off"),
    "RENDER": ("auto", "never", "always"),
}
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
    "MAX_EXPORTS": 1,
    "MAX_PENDING_MAPS": 1,
    "MAX_RUNNING_MAPS": 1,
    "MAX_MONITORS": 1,
    "MCP_MAX_TOKENS": 200,
    "MONITOR_CHECK_TIMEOUT_S": 1,
    "EXPORT_CONCURRENCY": 1,
    "EXTRACT_PAGES": 1,
    "OPERATION_TIMEOUT_S": 1,
    "PAUSE_MAX_DAYS": 1,
    "RETENTION_DAYS": 0.01,
    "MAX_RETENTION_DAYS": 0.01,
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
_fractions = {"RETENTION_DAYS", "MAX_RETENTION_DAYS"}
#: Former settings, and what replaces them.
removed = {
    "BLOCKLIST_URL": "download its list to the file blocklist.txt in SCRAPER_DATA_DIR",
    **dict.fromkeys(
        ("BROWSER_CDP_URL", "BROWSER_CDP_DIRECT", "BROWSER_PROXY_ADDRESS"),
        "a Chromium on this machine renders pages, see SCRAPER_CHROMIUM_PATH",
    ),
    "SENTRY_DSN": "the log has each error with its traceback, see SCRAPER_LOG_JSON",
}
_of_commands = {"KEY", "SERVER"}  # the key and the URL that commands use
_maxima = {
    "PORT": 65_535,
    "WORKER_PORT": 65_535,
    "RETENTION_DAYS": 36_500,
    "MAX_RETENTION_DAYS": 36_500,
    "ROBOTS_MAX_AGE_S": 86_400,
    "SCRAPYD_PROCESSES_PER_JOB": 1000,
}
_known = {*_kinds, *(name for name in dir(_defaults) if name.isupper())}
for _name, _value in os.environ.items():
    if _name.startswith("SCRAPER_") and _name.removeprefix("SCRAPER_") in _known:
        globals()[_name.removeprefix("SCRAPER_")] = _value


def is_setting(name: str | None) -> bool:
    """Return True for the name of a setting, without its prefix."""
    return name in _known


def unknown_settings() -> str:
    """Say which ``SCRAPER_...`` variables of the environment set nothing; "" without any."""
    names = sorted(
        name
        for name in os.environ
        if name.startswith("SCRAPER_")
        and name.removeprefix("SCRAPER_") not in _known | _of_commands
    )
    if not names:
        return ""
    hint = guesses(names, [variable(name) for name in _kinds]).strip()
    return f"no setting has the name {', '.join(names)}{hint and f'; {hint}'}"


def check_settings(settings: BaseSettings) -> None:
    """Raise :exc:`ValueError` naming the first setting that has an unusable value."""
    _check_former()
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
    if url := settings["PUBLIC_URL"]:
        _check_base_url("PUBLIC_URL", url)
    _check_model(settings)
    _check_imports(settings)
    if url := settings["ARTEFACT_STORE"]:
        from scraper_service.storage.files.blob_stores import check_store_url  # noqa: PLC0415

        check_store_url(url)
    usual, most = settings["RETENTION_DAYS"], settings["MAX_RETENTION_DAYS"]
    if float(usual) > float(most):
        raise ValueError(
            f"SCRAPER_RETENTION_DAYS must not exceed SCRAPER_MAX_RETENTION_DAYS, {most},"
            f" got {usual}"
        )
    # Imported here: every process reads this module, few of them check it.
    from scraper_service.options.limits import (  # noqa: PLC0415
        parse_languages,
        parse_rates,
        parse_sites,
    )

    parse_rates(settings.getlist("RATE_LIMITS"))
    parse_sites(settings.getlist("BLOCKED_SITES"))
    parse_languages(settings.getlist("INTERACT_CODE"))


def _check_former() -> None:
    for name, reason in removed.items():
        if os.environ.get(variable(name), "").lower() not in {"", "0", "false"}:
            raise ValueError(f"{variable(name)} is no longer offered: {reason}")


def _check_number(name: str, value: object) -> None:
    low, high = _minima.get(name, 0), _maxima.get(name)
    text = f"{variable(name)} must be a number from {low}"
    text += f" to {high}" if high else " up"
    try:
        number = float(str(value))
    except ValueError:
        raise ValueError(f"{text}, got {value!r}") from None
    is_whole = name in _fractions or number == int(number)
    if not (low <= number <= (high or number) and is_whole):
        text += "" if name in _fractions else ", without fraction"
        raise ValueError(f"{text}, got {value!r}")


def _check_imports(settings: BaseSettings) -> None:
    from scrapy.utils.misc import load_object  # noqa: PLC0415  # as above

    for name, (ours, member) in _imported.items():
        if (path := settings[name]) == ours:
            continue  # a process imports it when it needs it
        try:
            found = load_object(path)
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ValueError(f"{variable(name)}: {error}") from error
        if not hasattr(found, member):
            raise ValueError(
                f"{variable(name)} must be the import path of a class or function with"
                f" {member}, got {path!r}"
            )


def _check_network(name: str, text: str) -> None:
    try:
        ip_network(text.strip())
    except ValueError as error:
        raise ValueError(
            f"{variable(name)} must be IP networks, such as 10.1.0.0/16: {error}"
        ) from None


def _check_model(settings: BaseSettings) -> None:
    url = settings["LLM_BASE_URL"]
    names = [name for name in ("LLM_MODEL", "LLM_API_KEY") if settings[name]]
    if not url and names:
        raise ValueError(f"SCRAPER_LLM_BASE_URL must be set with {variable(names[0])}")
    if url and not settings["LLM_MODEL"]:
        raise ValueError("SCRAPER_LLM_MODEL must be set with SCRAPER_LLM_BASE_URL")
    if url:
        _check_base_url("LLM_BASE_URL", url)


def _check_base_url(name: str, url: str) -> None:
    """Raise :exc:`ValueError` unless paths can be added to ``url``."""
    parts = url_parts(url)
    usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    if not usable or "@" in parts.netloc or re.search(r"[\s?#\\]", url):
        raise ValueError(
            f"{variable(name)} must be an http(s) URL with a host, without user, query"
            f" and fragment, got {url.rpartition('@')[2]!r}"
        )


def _check_webhook(url: str) -> None:
    example = url.replace("{job_id}", "00000000-0000-0000-0000-000000000000")
    try:
        whole = caller_url(example) == example
    except ValueError:
        whole = False
    if not whole:
        raise ValueError(f"SCRAPER_WEBHOOK_URL must be an http(s) URL, got {url!r}")
