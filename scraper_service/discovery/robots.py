"""Parses robots.txt and decides which URLs its groups allow (RFC 9309).

Also reads the robots tags of pages: the header ``X-Robots-Tag`` and meta robots.

Parsing runs in the converter pool. Protego, Scrapy's own parser, returns neither the
deciding rule nor its line.

A verdict takes time in proportion to the URL and to the rules with the same start. It
takes some milliseconds at most: a hostile file that needs more time gets a refusal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote

from attrs import define, evolve, field, frozen
from w3lib.encoding import read_bom

from scraper_service.content.decode import clean_text, decode_start
from scraper_service.content.page_status import page_sent_as_file
from scraper_service.content.page_urls import absolute, is_web
from scraper_service.options.urls import url_parts

ANY_AGENT = "*"
ROBOTS_PATH = "/robots.txt"  # always allowed (RFC 9309, 2.2.2)
# Texts after asterisks that are searched for, times characters of the URL: 2 to 5 ms.
MAX_WORK = 2**20

# Letters, digits, -._~ and the reserved characters of RFC 3986 without * and $, which
# are special in rules.
_PLAIN = r"A-Za-z0-9\-._~:/?#\[\]@!&'()+,;="
_ODD_IN_PATH = re.compile(rf"%[0-9A-Fa-f]{{2}}|%|[^{_PLAIN}%]+")
_ODD_IN_RULE = re.compile(rf"%[0-9A-Fa-f]{{2}}|%|[^{_PLAIN}%*$]+")
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]")


class Rule(NamedTuple):
    """One rule of a group, which is also the verdict on the URLs that it decides.

    Of two matching rules the greater rule applies: the longer rule, then Allow.
    """

    #: Octets of the pattern; 0 if no rule matches a URL.
    length: int
    allowed: bool
    #: The number of the line, from 1; None without a line.
    line: int | None = None
    #: The line without its comment, cut at 500 characters; None without a line.
    text: str | None = None
    #: The text before the first asterisk.
    start: str = ""
    #: The texts after the asterisks, which must follow each other in the path.
    pieces: tuple[str, ...] = ()
    #: True if the rule must match to the end of the path.
    is_whole: bool = False

    def matches(self, path: str) -> bool:
        """Return True if a path with :attr:`start` matches; takes linear time."""
        start = len(self.start)
        if not self.pieces:
            return not self.is_whole or len(path) == start
        *middle, last = self.pieces
        for piece in middle:
            start = path.find(piece, start)
            if start < 0:
                return False
            start += len(piece)
        if self.is_whole:
            return len(path) - len(last) >= start and path.endswith(last)
        return path.find(last, start) >= 0


NO_RULE = Rule(0, allowed=True)


@frozen
class RobotsGroup:
    """The rules for one agent."""

    #: The crawl delay of the file in seconds; None without a crawl delay.
    crawl_delay_s: float | None = None
    #: The rules, best first, by the text before the first asterisk.
    rules: Mapping[str, Sequence[Rule]] = field(factory=dict, repr=False)
    #: The lengths of the keys of ``rules``, rising.
    lengths: Sequence[int] = field(default=(), repr=False)

    def verdict(self, path_and_query: str) -> Rule:
        """Return the rule that decides on ``/path?query``, in any percent-encoding."""
        path = normal(path_and_query)
        if path == ROBOTS_PATH:
            return NO_RULE
        return self._best(path if path.startswith("/") else f"/{path}")

    def link_verdict(self, url: str) -> Rule:
        """Return the rule that decides on a link, with and without a final slash.

        Thus ``Disallow: /a/`` refuses ``/a``, unless a longer rule allows ``/a``.
        """
        if not self.rules:
            return NO_RULE
        path, mark, query = path_and_query(url).partition("?")
        found = self.verdict(f"{path}{mark}{query}")
        if not found.allowed or path.endswith("/") or path == ROBOTS_PATH:
            return found
        other = self.verdict(f"{path}/{mark}{query}")
        outranked = other.length <= found.length
        return found if other.allowed or outranked else other

    def _best(self, path: str) -> Rule:
        """Return the greatest matching rule.

        After :data:`MAX_WORK`, a rule that refuses counts as a match without a try.
        """
        best = NO_RULE
        tries = MAX_WORK // len(path)
        for length in self.lengths:
            if length > len(path):
                break
            for rule in self.rules.get(path[:length], ()):
                if rule <= best:
                    break
                tries -= len(rule.pieces)
                if rule.pieces and tries < 0:
                    is_match = not rule.allowed
                elif rule.pieces and rule.pieces[0] not in path:
                    continue  # the usual case, without a call
                else:
                    is_match = rule.matches(path)
                if is_match:
                    best = rule
                    break
        return best


REFUSE_ALL = RobotsGroup(rules={"/": (Rule(1, allowed=False),)}, lengths=(1,))


@frozen
class RobotsRules:
    """A parsed robots.txt."""

    #: The absolute URLs of the sitemaps, unique, in the order of the file.
    sitemaps: tuple[str, ...] = ()
    #: The groups, by agent in lower case.
    groups: Mapping[str, RobotsGroup] = field(factory=dict, repr=False)
    #: The approximate memory of the rules, in bytes.
    size: int = 500
    #: Why the file is unreadable, as the end of a sentence about the file; or None.
    error: str | None = None
    #: What the file is if it is a web page, such as a challenge; or None.
    page: str | None = None

    def group(self, agents: Sequence[str]) -> RobotsGroup:
        """Return the group of the first agent with a group, else the group of ``*``.

        An agent is a product token, such as ``ExampleBot``. Case and a version after
        the token make no difference. Without any group, everything is allowed.
        """
        name = self.agent(agents)
        return RobotsGroup() if name is None else self.groups[name]

    def agent(self, agents: Sequence[str]) -> str | None:
        """Return the name of the group for ``agents`` in lower case, or None."""
        if not self.groups:
            return None
        names = (agent.partition("/")[0].strip().lower() for agent in agents)
        return next((n for n in (*names, ANY_AGENT) if n in self.groups), None)


def path_and_query(url: str) -> str:
    """Return the path and query of a URL, which rules are matched against."""
    parts = url_parts(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def normal(text: str, odd: re.Pattern[str] = _ODD_IN_PATH) -> str:
    """Return ``text`` in the normal percent-encoding (RFC 9309, 2.2.2).

    Letters, digits and ``-._~`` are decoded. Characters outside of ASCII are encoded.
    """
    return odd.sub(_normal_part, text)


def _normal_part(match: re.Match[str]) -> str:
    part = match[0]
    if part[0] != "%" or part == "%":
        return quote(part, safe="", errors="replace")
    char = chr(int(part[1:], 16))
    return char if _UNRESERVED.match(char) else part.upper()


# Tags with a value after a colon, where others have an agent before it.
_VALUED_TAGS = frozenset(
    "unavailable_after max-snippet max-image-preview max-video-preview".split()
)
_AGENT = re.compile(r"[^\s:]+\Z")
_BETWEEN_TAGS = re.compile(r"[\s,;]+")


def nofollow_source(
    headers: Iterable[str], metas: Mapping[str, object], agents: Sequence[str]
) -> str | None:
    """Return the name of the header or tag that forbids to follow links, or None.

    ``headers`` are the values of ``X-Robots-Tag``, ``metas`` those of ``<meta>`` by name.
    A header may name its agent, as in ``otherbot: nofollow``. Only tags for all agents
    and for one of ``agents`` count.
    """
    names = {agent.partition("/")[0].strip().lower() for agent in agents}
    if not _FOLLOWS_NOT.isdisjoint(_header_tags(headers, names)):
        return "nofollow in the header X-Robots-Tag"
    for name, content in metas.items():
        if name.strip().lower() in {"robots", *names}:
            texts = content if isinstance(content, list) else [content]
            tags = _BETWEEN_TAGS.split(",".join(map(str, texts)).lower())
            if not _FOLLOWS_NOT.isdisjoint(tags):
                return f"nofollow in <meta name={name.strip()[:100]}>"
    return None


_FOLLOWS_NOT = frozenset({"nofollow", "none"})


def _header_tags(headers: Iterable[str], agents: Container[str]) -> Iterator[str]:
    for header in headers:
        applies = True
        for part in header.lower().split(","):
            name, colon, tail = part.partition(":")
            tags, name = part, name.strip()
            if colon and name not in _VALUED_TAGS and _AGENT.match(name):
                # The agent applies to the tags after it, up to the next agent.
                applies, tags = name == ANY_AGENT or name in agents, tail
            if applies:
                yield from _BETWEEN_TAGS.split(tags)


MAX_BYTES = 500 * 2**10  # RFC 9309, section 2.5
MAX_LINE = 2083 * 8  # characters; the tail of a line is ignored, as in Google's parser
MAX_TEXT = 500  # characters of a rule in a verdict
MAX_SITEMAPS = 1000
# The sum over all agents: a rule that applies to several agents counts several times.
MAX_RULES = 100_000

_LINE_END = re.compile(r"\r\n|\r|\n")
# Bytes that are not UTF-8 are decoded as Latin-1.
_STRAY_BYTES = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
# The spellings of Google's parser, https://github.com/google/robotstxt. A name only
# has to start with a spelling.
_NAME = re.compile(
    r"(?P<agent>user[- ]?agent)"
    r"|(?P<allow>allow)"
    r"|(?P<disallow>diss?allow|dissalow|disalow|diasllow|disallaw)"
    r"|(?P<sitemap>site-?map)"
    r"|(?P<delay>crawl[- ]?delay)",
    re.IGNORECASE,
)
# An agent has two names: its token, which has no digits (RFC 9309, 2.2.1), and its first
# word, as in 360Spider.
_AGENT_NAMES = (re.compile(r"\*(?!\S)|[A-Za-z_-]+"), re.compile(r"[^\s/*][^\s/]*"))
_INDEX = re.compile(r"/index\.htm[^/]*\Z")
_STARS = re.compile(r"\*{2,}")


def read_robots(
    body: bytes, url: str = "", encodings: tuple[str, ...] = ()
) -> RobotsRules:
    """Parse the first 500 KiB of ``body``; a line cut at this limit is left out.

    ``encodings`` (outermost last, lower case) are decoded first. Damaged encodings set
    ``error``. Relative URLs of sitemaps are resolved against ``url``.
    """
    body, error = decode_start(body, encodings, MAX_BYTES + 1)
    text = _text(body[:MAX_BYTES])
    if len(body) > MAX_BYTES:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    elif error:
        return RobotsRules(error=error)
    reader = _Reader()
    for number, line in enumerate(_LINE_END.split(text), 1):
        reader.read(number, line[:MAX_LINE])
    found = (absolute(url, value) for value in reader.sitemaps)
    sitemaps = tuple(dict.fromkeys(s for s in found if s and is_web(s)))
    groups = reader.groups()
    if not groups and not sitemaps and (page := page_sent_as_file(body, url)):
        return RobotsRules(page=page)
    return RobotsRules(sitemaps, groups, size=_size(groups, sitemaps))


def _size(groups: Mapping[str, RobotsGroup], sitemaps: Sequence[str]) -> int:
    """Return the approximate memory of groups and sitemaps in bytes, on 64 bits."""
    kept = {id(group.rules): group.rules for group in groups.values()}
    rules = [rule for each in kept.values() for some in each.values() for rule in some]
    texts = sum(rule.length + len(rule.text or "") for rule in rules)
    rows = 250 * len(rules) + 200 * len(sitemaps)
    return 500 + 600 * len(kept) + 200 * len(groups) + rows + texts


def _text(body: bytes) -> str:
    codec, bom = read_bom(body)
    if codec and bom and codec != "utf-8":
        return clean_text(body[len(bom) :].decode(codec, "replace"))
    return clean_text(body.decode("utf-8", "surrogateescape").translate(_STRAY_BYTES))


@define
class _Reader:
    """Parses the lines of a file one after the other.

    A group of the file has several agents, and an agent may have several groups.
    """

    sitemaps: list[str] = field(factory=list)
    _delays: dict[str, float] = field(factory=dict)
    #: The lists of rules of each agent.
    _of_agent: dict[str, list[list[Rule]]] = field(factory=dict)
    #: The agents and the rules of the last group.
    _agents: set[str] = field(factory=set)
    _rules: list[Rule] = field(factory=list)
    #: True after a rule: the next line of an agent starts a new group.
    _closed: bool = True

    def read(self, number: int, line: str) -> None:
        """Parse one line; unknown and invalid lines are ignored."""
        name, value, text = _split(line)
        match = _NAME.match(name)
        if match is None:
            return
        kind = match.lastgroup
        if kind == "agent":
            self._agent(value)
        elif kind == "sitemap":
            if len(self.sitemaps) < MAX_SITEMAPS:
                self.sitemaps.append(value)
        elif kind == "delay":
            self._delay(value)
        else:
            self._closed = True
            self._rule(value, number, text, allowed=kind == "allow")

    def _agent(self, value: str) -> None:
        if self._closed:
            self._agents, self._rules, self._closed = set(), [], False
        found = (pattern.match(value) for pattern in _AGENT_NAMES)
        for name in {match[0].lower() for match in found if match} - self._agents:
            self._agents.add(name)
            self._of_agent.setdefault(name, []).append(self._rules)

    def _delay(self, value: str) -> None:
        """Set the delay of the agents above; it does not end their group."""
        try:
            delay_s = float(value)
        except ValueError:
            return
        if math.isfinite(delay_s) and delay_s >= 0:
            for name in self._agents:
                self._delays[name] = max(delay_s, self._delays.get(name, 0))

    def _rule(self, value: str, number: int, text: str, *, allowed: bool) -> None:
        if not value.startswith(("/", "*")):
            return
        pattern = normal(_STARS.sub("*", value), _ODD_IN_RULE)
        self._rules.append(_rule_of(pattern, allowed, number, text))
        if allowed and (index := _INDEX.search(pattern)):
            # As in Google's parser: Allow for an index page allows its directory.
            folder = f"{pattern[: index.start()]}/$"
            self._rules.append(_rule_of(folder, allowed, number, text))

    def groups(self) -> dict[str, RobotsGroup]:
        """Return one group per agent, which merges all groups of the agent."""
        made: dict[tuple[int, ...], RobotsGroup] = {}
        left, groups = MAX_RULES, {}
        for agent, lists in self._of_agent.items():
            key = tuple(map(id, lists))
            if key not in made:
                left -= sum(map(len, lists))
                made[key] = _group(lists) if left >= 0 else REFUSE_ALL
            delay_s = self._delays.get(agent)
            groups[agent] = evolve(made[key], crawl_delay_s=delay_s)
        return groups


def _split(line: str) -> tuple[str, str, str]:
    text = line.partition("#")[0].strip(" \t\f\v\ufeff\xa0")
    name, colon, value = text.partition(":")
    if not colon:
        name, *values = text.split(maxsplit=2) or ("",)
        if len(values) != 1:
            return "", "", text
        value = values[0]
    return name.strip(), value.strip(), text


def _rule_of(pattern: str, allowed: bool, line: int, text: str) -> Rule:
    """Return the rule of a pattern in normal percent-encoding."""
    start, *pieces = pattern.removesuffix("$").replace("$", "%24").split("*")
    is_whole = pattern.endswith("$")
    if pieces and not pieces[-1]:  # an asterisk at the end matches any end
        is_whole = False
        pieces.pop()
    shown = text[:MAX_TEXT]
    return Rule(len(pattern), allowed, line, shown, start, tuple(pieces), is_whole)


def _group(lists: Iterable[list[Rule]]) -> RobotsGroup:
    """Return the group of all rules, indexed by the text before the first asterisk."""
    found: dict[str, list[Rule]] = {}
    for rule in chain.from_iterable(lists):
        found.setdefault(rule.start, []).append(rule)
    rules = {start: sorted(some, reverse=True) for start, some in found.items()}
    return RobotsGroup(rules=rules, lengths=sorted({len(start) for start in rules}))
