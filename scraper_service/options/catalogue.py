"""The table of options: names, values, defaults and help, one row each.

The request bodies of both versions of the API, spider arguments, the command line, the
key of the page cache and ``docs/reference/options.md`` are read from these rows. A new option is
one row here, its attribute in the options class, and the code that obeys it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

from attrs import asdict, evolve, fields, frozen

from scraper_service.options import values
from scraper_service.options.formats import Markdown, Screenshot
from scraper_service.options.jobs import (
    AGENT_EVENTS,
    EFFORTS,
    EXTRACT_EVENTS,
    MAX_AGENT_URLS,
    MAX_BATCH_URLS,
    MAX_DELAY_S,
    MAX_DEPTH,
    MAX_EXTRACT_URLS,
    MAX_LLMS_URLS,
    MAX_MODEL_NAME,
    MAX_QUESTION,
    MAX_RESEARCH_S,
    MAX_RESEARCH_URLS,
    MIN_DAYS,
    MIN_RESEARCH_S,
    SITEMAP_MODES,
)
from scraper_service.options.json_schema import Schema
from scraper_service.options.map_search import (
    DEFAULT_LIMIT,
    DEFAULT_TIMEOUT_MS,
    MAX_MAP_LIMIT,
    MAX_QUERY,
    MAX_RESULTS,
    MAX_SEARCH,
    SOURCES,
)
from scraper_service.options.parsing import (
    NO_DEFAULT,
    PROMPT,
    Anything,
    Array,
    Bool,
    Key,
    Number,
    Object,
    Tagged,
    Text,
    Then,
    ValueKind,
    build,
    choice,
    integer,
    need,
    pick,
)
from scraper_service.options.scrape import (
    MAX_WAIT_MS,
    MIN_TOKENS,
    OVERALL_TIMEOUT_MS,
    SESSION_NAME,
    PdfParser,
    ScrapeOptions,
    session_name,
)
from scraper_service.options.urls import url_parts

Entrance: TypeAlias = Literal["v1", "v2", "shell"]

MAX_USER_AGENT = 256  # characters
DAY_MS = 86_400_000

#: The default of an option that every request must have.
REQUIRED: Final = object()
#: The default of an option that a version computes from other options.
COMPUTED: Final = object()
USUAL: Final = object()


@frozen
class Each:
    """A fact of an option that differs between the versions and the shell.

    The shell is spider arguments and the command line.
    """

    v1: Any
    v2: Any
    #: Not given: the attribute for a name, else the fact of version 2.
    shell: Any = USUAL


@frozen
class Flag:
    """How the command line spells an option."""

    #: Names separated by spaces; the last one stands in messages.
    names: str
    #: The name of the value in the help text.
    metavar: str | None = None
    #: The sentence of help where that of the option does not fit the flag.
    help: str | None = None


@frozen
class Option:
    """A row of the catalogue."""

    #: The attribute of the options class, and the name of the spider argument.
    attribute: str
    #: The key in a JSON request. In :class:`Each`, None stands for no such key, and
    #: ``shell`` names the spider argument.
    key: str | Each
    #: The values that a request may have, with their range.
    kind: ValueKind | Each
    #: The value of a request without the key, :data:`REQUIRED` or :data:`COMPUTED`.
    default: Any
    #: One sentence for readers of the reference and of the command line's help.
    help: str
    #: None for an option that the command line takes in ``--options`` only.
    flag: Flag | None = None
    #: True if a stored page answers only requests with the same value. A function
    #: returns the part of the value that counts; its second argument is the URL.
    in_cache_key: bool | Callable[[Any, str], Any] = False
    #: False for a key that stands outside of ``scrapeOptions`` only.
    is_nested: bool = True
    #: True for an option that the reference API does not have.
    is_own: bool = False
    #: True for an option of :func:`scraper_service.convert`, which has no network.
    is_of_library: bool = False

    def name(self, entrance: Entrance) -> str | None:
        """Return the name of the option at an entrance, None if it has none there."""
        if not isinstance(self.key, Each):
            return self.attribute if entrance == "shell" else self.key
        name = getattr(self.key, entrance)
        return self.attribute if name is USUAL else name

    def value_kind(self, entrance: Entrance) -> Any:
        """Return the kind of values that the option has at an entrance."""
        return _at(entrance, self.kind)

    def default_value(self, entrance: Entrance) -> Any:
        """Return the default of the option at an entrance."""
        return _at(entrance, self.default)


def _at(entrance: Entrance, fact: Any) -> Any:
    """Return a fact that may be :class:`Each` as it is at an entrance."""
    if not isinstance(fact, Each):
        return fact
    found = getattr(fact, entrance)
    return fact.v2 if found is USUAL else found


TableT: TypeAlias = tuple[Option, ...]


def keys(options: TableT, version: Entrance) -> dict[str, Key]:
    """Return the keys of a request that set ``options`` at an entrance."""
    named = ((option.name(version), option) for option in options)
    given = defaults(options, version)
    return {
        name: Key(
            option.value_kind(version),
            option.attribute,
            required=option.default_value(version) is REQUIRED,
            help=option.help,
            default=given.get(option.attribute, NO_DEFAULT),
            is_own=option.is_own,
        )
        for name, option in named
        if name is not None
    }


def respell(
    options: TableT, attribute: str, version: Literal["v1", "v2"] = "v2", **facts: Any
) -> dict[str, Key]:
    """Return the key of one option for another use, with the ``facts`` that differ."""
    found = keys(select(options, attribute), version)
    return {name: evolve(key, **facts) for name, key in found.items()}


def select(options: TableT, *attributes: str) -> TableT:
    """Return the rows of some attributes, in the order of the table."""
    return tuple(each for each in options if each.attribute in attributes)


def defaults(options: TableT, entrance: Entrance) -> dict[str, Any]:
    """Return the defaults of ``options`` at an entrance by attribute."""
    found = {each.attribute: each.default_value(entrance) for each in options}
    return {
        name: value
        for name, value in found.items()
        if value is not REQUIRED and value is not COMPUTED
    }


def cache_facts(url: str, options: object) -> Iterator[Any]:
    """Yield what of a page's options must be equal for a stored page to answer."""
    for option in SCRAPE:
        value = getattr(options, option.attribute)
        if callable(option.in_cache_key):
            yield option.in_cache_key(value, url)
        elif option.in_cache_key:
            yield value


def _if_unverified(skips: bool, url: str) -> bool:
    return skips and url_parts(url).scheme == "https"


def _visitor(location: Any, url: str) -> list[str] | None:
    return [location.country, *location.languages] if location else None


def _screenshot(formats: Any, url: str) -> dict[str, Any] | None:
    shot = next((each for each in formats if isinstance(each, Screenshot)), None)
    return asdict(shot) if shot else None


def _webhook(prefix: str) -> Option:
    kind = values.webhook_kind(prefix)
    return Option("webhook", "webhook", kind, None, "The receiver of the job's events.")


# A row is: attribute, key, kind, default, help, flag. Each keeps its two or three lines.
# fmt: off

URL = Option("url", "url", values.URL, REQUIRED,
    "The URL; http:// is added if it has no scheme.")

_AUDIT = Object(
    {"username": need(Text(1024), "name", "The name of the user.")}, pick("name"))
#: The caller, for the log only.
CALLER: TableT = (
    Option("origin", "origin", Text(1024), COMPUTED,
        "The name of the client."),
    Option("integration", "integration", Text(256), None,
        "The name of a platform that integrates the client."),
    Option("audit_username", Each("auditMetadata", "auditMetadata"),
        Each(_AUDIT, _AUDIT, Text(1024)), None,
        "The user on whose behalf the client calls."),
)

#: The attributes of :class:`~scraper_service.options.scrape.ScrapeOptions`.
SCRAPE: TableT = (
    Option("only_main_content", "onlyMainContent", Bool(), True,
        "Keep only the main content, without navigation, header and footer.",
        Flag("--whole-page", help="Keep navigation, header and footer."),
        is_of_library=True),
    Option("only_clean_content", Each(None, "onlyCleanContent"), Bool(), False,
        "Let a language model remove what is not content from the Markdown."),
    Option("include_tags", "includeTags", values.SELECTORS, (),
        "Keep only elements that match a CSS selector.", Flag("--include-tags", "CSS"),
        is_of_library=True),
    Option("exclude_tags", "excludeTags", values.SELECTORS, (),
        "Leave out elements that match a CSS selector.", Flag("--exclude-tags", "CSS"),
        is_of_library=True),
    Option("headers", "headers", values.HEADERS, (),
        "Send a header.", Flag("-H --header", "NAME:VALUE")),
    Option("timeout_ms", "timeout",
        Each(values.CAPPED_TIMEOUT, integer(1, OVERALL_TIMEOUT_MS)), Each(30_000, None),
        "Give up after this time, in milliseconds.",
        Flag("--timeout", "MS", "Give up after MS.")),
    Option("wait_for_ms", "waitFor", integer(0, MAX_WAIT_MS), 0,
        "Wait on the loaded page in a browser, in milliseconds."),
    Option("mobile", "mobile", Bool(), False,
        "Emulate a mobile device.", in_cache_key=True),
    Option("block_ads", "blockAds", Bool(), True,
        "Block advertisements and trackers in the browser.", in_cache_key=True),
    # A response whose certificate was not verified must not reach a caller who verifies.
    Option("skip_tls_verification", "skipTlsVerification", Bool(), Each(False, True),
        "Accept certificates that cannot be verified.", in_cache_key=_if_unverified),
    Option("location", "location", values.LOCATION, None,
        "The country and the languages of the visitor.", in_cache_key=_visitor),
    Option("formats", "formats", Each(values.FORMATS_V1, values.FORMATS_V2),
        Each(COMPUTED, (Markdown(),)),
        "The formats of the result.", Flag("-f --format", "FORMAT"),
        in_cache_key=_screenshot),
    Option("remove_base64_images", "removeBase64Images", Bool(), True,
        "Remove images with data: URLs from the Markdown.", is_of_library=True),
    Option("parsers", Each("parsePDF", "parsers"),
        Each(values.PARSERS_V1, values.PARSERS_V2), (PdfParser(),),
        "The parsers of files.", is_of_library=True),
    Option("actions", "actions", Each(values.ACTIONS_V1, values.ACTIONS_V2), (),
        "Steps in a browser before the page is taken."),
    Option("fast_mode", "fastMode", Bool(), False,
        "Prefer speed over completeness."),
    Option("proxy", "proxy", values.PROXY, Each("basic", "auto"),
        "The kind of proxy."),
    Option("max_age_ms", "maxAge", integer(0), Each(v1=0, v2=2 * DAY_MS, shell=0),
        "Accept a stored page up to this age, in milliseconds; 0 always fetches.",
        Flag("--max-age", "SECONDS", "Take what was fetched up to SECONDS ago.  [default: 0]")),
    Option("min_age_ms", Each(None, "minAge"), integer(0), None,
        "Return only a stored page of at least this age, in milliseconds."),
    Option("store_in_cache", "storeInCache", Bool(), Each(True, True, False),
        "Store the page for later requests.",
        Flag("--keep", help="Keep the page, for `search` and --max-age.")),
    Option("lockdown", "lockdown", Bool(), False,
        "Return stored pages only."),
    Option("zero_data_retention", "zeroDataRetention", Bool(), False,
        "Store nothing of the page.", is_nested=False),
    Option("session", Each(None, "session"),
        Then(Text(), session_name, {"pattern": SESSION_NAME}), None,
        "The name of cookies and storage to start with and to keep.", is_own=True),
    Option("profile", "profile", values.PROFILE, None,
        "A named browser profile, which may be read-only."),
    Option("site_rules", Each("threatProtection", "threatProtection"),
        values.THREAT_PROTECTION, None,
        "The hosts that may be fetched, redirects included."),
    Option("check_prompt_injection", "checkPromptInjection", Bool(), False,
        "Refuse pages with instructions to language models."),
    Option("redact_pii", "redactPII", values.REDACT_PII, None,
        "Replace personal data in the texts of the page."),
    Option("max_tokens", "maxTokens", integer(MIN_TOKENS), None,
        "Return one part of the Markdown, of at most so many tokens.", is_own=True),
    Option("page", "page", integer(1), None,
        "The number of the part, from 1. It needs maxTokens.",
        is_nested=False, is_own=True),
)

_PATHS: TableT = (
    Option("include_paths", "includePaths", values.PATTERNS, (),
        "Only paths that match a regular expression.", Flag("--include", "REGEX")),
    Option("exclude_paths", "excludePaths", values.PATTERNS, (),
        "No paths that match a regular expression.", Flag("--exclude", "REGEX")),
    Option("regex_on_full_url", "regexOnFullURL", Bool(), False,
        "Match whole URLs, not their paths.", Flag("--full-url")),
)
_SITEMAP = Option("sitemap", Each("ignoreSitemap", "sitemap"),
    Each(Then(Bool(), values.sitemap_v1), choice(*SITEMAP_MODES)), "include",
    "Follow sitemaps and links (include), links only (skip), or sitemaps only (only).",
    Flag("--sitemap", help="Whether sitemaps are read, or nothing else."))
_DEDUPE_BOILERPLATE = Option("dedupe_boilerplate", Each(None, "dedupeBoilerplate"),
    Bool(), False, "Remove text that repeats over pages of a site from the Markdown.",
    is_own=True)

#: Days of ``retention_days``. The setting ``MAX_RETENTION_DAYS`` bounds them.
DAYS = Number(MIN_DAYS, math.inf)


def _retention(key: Each) -> Option:
    return Option("retention_days", key, DAYS, None,
        "Store the results for this number of days after their last change, at most"
        " SCRAPER_MAX_RETENTION_DAYS.", is_nested=False, is_own=True)


#: An option of scrapes and of the jobs of version 2.
RETENTION = _retention(Each(None, "retentionDays", None))
#: An option of the jobs of version 2.
KEEP_SOURCES = Option("keep_sources", Each(None, "keepSources", None), Bool(), None,
    "Keep the response of each page with the job, for archives and other formats.",
    is_nested=False, is_own=True)
_RETENTION_V1 = _retention(Each("retentionDays", "retentionDays", None))

#: Options of crawls and batches.
PACE: TableT = (
    Option("max_concurrency", "maxConcurrency", integer(1), None,
        "At most N requests in flight.", Flag("--concurrency", "N")),
)

#: The attributes of :class:`~scraper_service.options.jobs.CrawlOptions`.
CRAWL: TableT = (
    URL,
    Option("prompt", Each(None, "prompt"), PROMPT, None,
        "Say in words what to fetch; options that are given win.",
        Flag("--prompt", "TEXT")),
    Option("limit", "limit", integer(1), 10_000,
        "At most N pages.", Flag("--limit", "N")),
    Option("max_discovery_depth", "maxDiscoveryDepth", integer(0), None,
        "At most N links away from URL.",
        Flag("--depth", "N", "At most N links away from URL.  [default: no limit]")),
    Option("max_path_depth", Each("maxDepth", None), integer(0), Each(10, None),
        "At most N path segments below the path of URL."),
    *_PATHS,
    Option("allow_subdomains", "allowSubdomains", Bool(), False,
        "Follow links to subdomains, too.", Flag("--subdomains")),
    Option("allow_external_links", "allowExternalLinks", Bool(), False,
        "Follow links to other sites, too.", Flag("--external")),
    Option("crawl_entire_domain", "crawlEntireDomain", Bool(), False,
        "Leave the path of URL, upwards too.", Flag("--entire-domain")),
    _SITEMAP,
    Option("delay_s", "delay",
        Number(0, MAX_DELAY_S, is_above=True), None,
        "Pause between two pages, in seconds.",
        Flag("--delay", "SECONDS", "Pause between two pages.")),
    *PACE,
    Option("ignore_robots_txt", "ignoreRobotsTxt", Bool(), False,
        "Ignore robots.txt.", Flag("--ignore-robots")),
    Option("robots_user_agent", "robotsUserAgent",
        Then(Text(MAX_USER_AGENT, minimum=1), values.product_token), None,
        "Obey the rules of robots.txt for this user agent.",
        Flag("--robots-agent", "NAME")),
    Option("obey_nofollow", "obeyNofollow", Bool(), False,
        "Follow no links of pages marked nofollow for robots.",
        Flag("--obey-nofollow"), is_own=True),
    Option("ignore_query_parameters", "ignoreQueryParameters", Bool(), False,
        "Treat URLs that differ in their query as equal.", Flag("--ignore-queries")),
    Option("deduplicate_similar_urls", "deduplicateSimilarURLs", Bool(), True,
        "Treat URLs as equal that differ in http and https, www or a final slash.",
        Flag("--keep-similar", help="Tell apart http and https, www, final slashes.")),
    _DEDUPE_BOILERPLATE,
    _webhook("crawl"),
    RETENTION,
    KEEP_SOURCES,
    Option("since", Each(None, "since", None), values.SINCE, None,
        "Only pages that are new or have changed since an earlier crawl: its id, or a time.",
        is_nested=False, is_own=True),
)

# These URLs are checked later: a request may ask to leave out invalid ones.
_TEXTS = values.some_urls(Array(Text(), MAX_BATCH_URLS), values.NO_URLS)
#: The attributes of :class:`~scraper_service.options.jobs.BatchOptions`.
BATCH: TableT = (
    Option("urls", "urls", Each(_TEXTS, _TEXTS,
        values.some_urls(Array(values.URL, MAX_BATCH_URLS), values.NO_URLS)), REQUIRED,
        "The URLs of the pages."),
    *PACE,
    _DEDUPE_BOILERPLATE,
    _webhook("batch_scrape"),
    RETENTION,
    KEEP_SOURCES,
)

#: The attributes of :class:`~scraper_service.options.map_search.MapOptions`.
MAP: TableT = (
    URL,
    Option("search", "search", Text(MAX_SEARCH), "",
        "Put first what fits the words.", Flag("--search", "WORDS")),
    Option("limit", "limit", integer(1, MAX_MAP_LIMIT), 5000,
        "At most N URLs.", Flag("--limit", "N")),
    _SITEMAP,
    *_PATHS,
    Option("include_subdomains", "includeSubdomains", Bool(), True,
        "Include subdomains.",
        Flag("--no-subdomains", help="Leave out other hosts.")),
    Option("ignore_query_parameters", "ignoreQueryParameters", Bool(), True,
        "Treat URLs that differ in their query as equal.",
        Flag("--keep-queries", help="Tell URLs apart by query.")),
    Option("filter_by_path", "filterByPath", Bool(), True,
        "Leave out URLs that are not below the path of URL."),
)

#: The attributes of :class:`~scraper_service.options.map_search.ResultList`.
SOURCE: TableT = (
    Option("when", Each("tbs", "tbs", "tbs"),
        Then(Text(200), values.time_of_results), None,
        "Time filter, such as qdr:w for the last week.", Flag("--tbs")),
    Option("filter", "filter", Text(200), None,
        "A parameter that the search engine receives unchanged."),
    Option("language", Each("lang", "lang", "lang"),
        Then(Text(), values.language_code), "en",
        "Language of the results.", Flag("--lang", "CODE")),
    Option("country", "country", Then(Text(), values.searcher_country), "us",
        "Country of the searcher.", Flag("--country", "CODE")),
    Option("location", "location", Text(500), None,
        "The location of the searcher, in words."),
)

# fmt: on


def _source(kind: str) -> Object:
    return Object(keys(SOURCE, "v2"), build(dict, kind=kind))


def _ignore(value: object) -> None:
    """Return None for a source that requests may name and that does not exist here."""


_SOURCES = Array(
    Tagged(
        {
            **{kind: _source(kind) for kind in SOURCES},
            "alexandria": Then(Anything(), _ignore),
        }
    ),
    10,
)

# fmt: off

#: The attributes of :class:`~scraper_service.options.map_search.SearchOptions`.
SEARCH: TableT = (
    Option("query", "query",
        Then(Text(MAX_QUERY), values.query_text, {"pattern": r"\S"}), REQUIRED,
        "The words to search for."),
    Option("limit", "limit", integer(1, MAX_RESULTS), DEFAULT_LIMIT,
        "At most N of each source.", Flag("--limit", "N")),
    Option("sources", Each(None, "sources"), _SOURCES, COMPUTED,
        "Where to look.", Flag("--source")),
    Option("categories", Each(None, "categories"), values.CATEGORIES, (),
        "Only results of this kind.", Flag("--category")),
    Option("include_domains", Each(None, "includeDomains"), values.DOMAINS, (),
        "Only results of DOMAIN.", Flag("--site", "DOMAIN")),
    Option("exclude_domains", Each(None, "excludeDomains"), values.DOMAINS, (),
        "No results of these domains."),
    *SOURCE,
    Option("timeout_ms", "timeout", values.CAPPED_TIMEOUT,
        DEFAULT_TIMEOUT_MS,
        "Give up after this time, in milliseconds.",
        Flag("--timeout", "MS", "Give up after MS.")),
    Option("ignore_invalid_urls", Each("ignoreInvalidURLs", "ignoreInvalidURLs", None),
        Bool(), False,
        "Leave out results whose URL is not valid."),
    Option("in_background", Each(None, "asyncScraping", None), Bool(), False,
        "Return before the pages of the results are scraped."),
    Option("site_rules", Each(None, "threatProtection", None),
        values.THREAT_PROTECTION, None,
        "The hosts that may be results."),
)

#: The attributes of :class:`~scraper_service.options.jobs.ExtractOptions`.
EXTRACT: TableT = (
    Option("urls", "urls", Array(Text(), MAX_EXTRACT_URLS), (),
        "The pages to read; a URL that ends in /* stands for the pages below it."),
    Option("prompt", "prompt", PROMPT, None,
        "What to find, in words."),
    Option("system_prompt", "systemPrompt", PROMPT, None,
        "Instructions to the language model."),
    Option("schema", "schema", Schema(), None,
        "The JSON Schema of the result."),
    Option("limit", "limit", integer(1), None,
        "At most N pages of each URL that ends in /*."),
    Option("ignore_sitemap", "ignoreSitemap", Bool(), False,
        "Ignore sitemaps."),
    Option("include_subdomains", "includeSubdomains", Bool(), True,
        "Include subdomains."),
    Option("allow_external_links", "allowExternalLinks", Bool(), False,
        "Follow links to other sites, too."),
    Option("enable_web_search", "enableWebSearch", Bool(), False,
        "Search the web for further pages."),
    Option("show_sources", "showSources", Bool(), False,
        "Return the URLs that each value is from."),
    Option("timeout_ms", "timeout", integer(1), Each(60_000, None),
        "Return what was read until this time, in milliseconds."),
    Option("webhook", Each(None, "webhook"),
        values.webhook_kind("extract", EXTRACT_EVENTS), None,
        "The receiver of the job's events."),
    RETENTION,
)

#: The attributes of :class:`~scraper_service.options.jobs.AgentOptions`.
AGENT: TableT = (
    Option("prompt", "prompt", Then(Text(MAX_QUESTION), values.words, {"pattern": r"\S"}),
        REQUIRED,
        "What to find, in words."),
    Option("urls", "urls", Array(values.URL, MAX_AGENT_URLS), (),
        "Where to start."),
    Option("only_urls", "strictConstrainToURLs", Bool(), False,
        "Fetch nothing but urls."),
    Option("schema", "schema", Schema(), None,
        "The JSON Schema of the result."),
    Option("max_credits", "maxCredits",
        Number(0, is_above=True), 2500,
        "Fail when the run would cost more credits."),
    Option("model", "model", Text(MAX_MODEL_NAME), None,
        "A name that responses repeat; it chooses no model."),
    Option("effort", "effort", choice(*EFFORTS), None,
        "How many pages and rounds: 10 and 3, 25 and 6, or 50 and 10; medium without it."),
    Option("webhook", "webhook",
        values.webhook_kind("agent", AGENT_EVENTS, AGENT_EVENTS), None,
        "The receiver of the run's events."),
    RETENTION,
)

#: The attributes of :class:`~scraper_service.options.jobs.LlmsTextOptions`.
LLMS_TEXT: TableT = (
    URL,
    Option("max_urls", "maxUrls", integer(1, MAX_LLMS_URLS), 10,
        "At most N pages."),
    Option("show_full_text", "showFullText", Bool(), False,
        "Return the text of the pages, too."),
    Option("use_cache", "cache", Bool(), True,
        "Accept stored pages."),
    _RETENTION_V1,
)

#: The attributes of :class:`~scraper_service.options.jobs.ResearchOptions`.
RESEARCH: TableT = (
    Option("query", "query",
        Then(Text(MAX_QUESTION), values.query_text, {"pattern": r"\S"}), COMPUTED,
        "The question."),
    Option("max_depth", "maxDepth", integer(1, MAX_DEPTH), 7,
        "At most N rounds of searches."),
    Option("max_urls", "maxUrls", integer(1, MAX_RESEARCH_URLS), 20,
        "At most N pages."),
    Option("time_limit_s", "timeLimit", integer(MIN_RESEARCH_S, MAX_RESEARCH_S), 300,
        "Stop reading after this time, in seconds."),
    Option("analysis_prompt", "analysisPrompt", PROMPT, None,
        "Instructions for the report."),
    Option("system_prompt", "systemPrompt", PROMPT, None,
        "Instructions to the language model."),
    Option("formats", "formats", Array(choice("markdown", "json"), 10), ("markdown",),
        "The formats of the result."),
    _RETENTION_V1,
)

# fmt: on

_USUAL = defaults(SCRAPE, "v2")
#: The options of a page in version 2 without any of the caller's.
USUAL_PAGE = ScrapeOptions(
    **{each.name: _USUAL[each.name] for each in fields(ScrapeOptions)}
)
