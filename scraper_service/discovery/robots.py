"""Parses robots.txt and decides which URLs its groups allow (RFC 9309).

Parsing runs in the converter pool. Protego, Scrapy's own parser, returns neither the
deciding rule nor its line.

A verdict takes time in proportion to the URL and to the rules with the same start. It
takes some milliseconds at most: a hostile file that needs more time gets a refusal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlsplit

from attrs import define, evolve, field, frozen

from scraper_service.content.decode import clean_text, decode_start
from scraper_service.content.html.page_urls import absolute, is_web

if TYPE_CHECKING:
    from collections.abc import Iterable

ANY_AGENT = "*"
ROBOTS_PATH = "/robots.txt"  # always allowed (RFC 9309, 2.2.2)
# Texts behind asterisks that are searched for, times characters of the URL: 2 to 5 ms.
MAX_WORK = 2**20

_PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!&'()+,;=]*\Z")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]")
_RESERVED = ":/?#[]@!&'()+,;="  # RFC 3986, without the special characters of rules


class Rule(NamedTuple):
    """One rule of a group.

    Of two matching rules the greater rule applies: the longer rule, then Allow.
    """

    #: Octets of the pattern.
    length: int
    allowed: bool
    #: The number of the line, from 1.
    line: int
    #: The line without its comment.
    text: str
    #: The texts behind the asterisks, which must follow each other in the path.
    pieces: tuple[str, ...] = ()
    #: True if the rule must match to the end of the path.
    is_whole: bool = False

    def matches(self, path: str, start: int) -> bool:
        """Return True if ``path`` matches from ``start`` on; takes linear time."""
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


@frozen
class RobotsVerdict:
    """The decision of robots.txt about a URL, with the deciding rule."""

    allowed: bool
    #: The line of the rule, without comment and cut at 500 characters; None without a
    #: matching rule.
    rule: str | None = None
    #: The number of the line, from 1; None without a matching rule.
    line: int | None = None
    #: Octets of the rule's pattern; 0 without a matching rule.
    length: int = 0


@frozen
class RobotsGroup:
    """The rules for one agent."""

    #: The crawl delay of the file in seconds; None without a crawl delay.
    crawl_delay_s: float | None = None
    #: The rules, best first, by the text before the first asterisk.
    rules: Mapping[str, Sequence[Rule]] = field(factory=dict, repr=False)
    #: The lengths of the keys of ``rules``, rising.
    lengths: tuple[int, ...] = field(default=(), repr=False)
    #: True if every URL is refused.
    refuses_all: bool = False

    def verdict(self, path_and_query: str) -> RobotsVerdict:
        """Return the verdict on ``/path?query``, in any percent-encoding."""
        if self.refuses_all:
            return RobotsVerdict(allowed=False)
        path = normal(path_and_query)
        if path == ROBOTS_PATH:
            return RobotsVerdict(allowed=True)
        return _verdict(self._best(path if path.startswith("/") else f"/{path}"))

    def link_verdict(self, url: str) -> RobotsVerdict:
        """Return the verdict on a link; the URL with a final slash is checked too.

        Thus ``Disallow: /a/`` refuses ``/a``, unless a longer rule allows ``/a``.
        """
        path, mark, query = path_and_query(url).partition("?")
        found = self.verdict(f"{path}{mark}{query}")
        if not found.allowed or path.endswith("/") or path == ROBOTS_PATH:
            return found
        other = self.verdict(f"{path}/{mark}{query}")
        outranked = other.length <= found.length
        return found if other.allowed or outranked else other

    def _best(self, path: str) -> Rule | None:
        """Return the greatest matching rule.

        After :data:`MAX_WORK`, a rule that refuses counts as a match without a try.
        """
        best: Rule | None = None
        tries = MAX_WORK // len(path)
        for length in self.lengths:
            if length > len(path):
                break
            for rule in self.rules.get(path[:length], ()):
                if best is not None and rule <= best:
                    break
                pieces = rule.pieces
                tries -= len(pieces)
                if pieces and tries < 0:
                    is_match = not rule.allowed
                elif pieces and pieces[0] not in path:
                    continue  # the usual case, without a call
                else:
                    is_match = rule.matches(path, length)
                if is_match:
                    best = rule
                    break
        return best


REFUSE_ALL = RobotsGroup(refuses_all=True)


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
    fault: str | None = None

    def group(self, agents: Sequence[str]) -> RobotsGroup:
        """Return the group of the first agent with a group, else the group of ``*``.

        An agent is a product token, such as ``ExampleBot``. Case and a version behind
        the token make no difference. Without any group, everything is allowed.
        """
        name = self.agent(agents)
        return RobotsGroup() if name is None else self.groups[name]

    def agent(self, agents: Sequence[str]) -> str | None:
        """Return the name of the group for ``agents`` in lower case, or None."""
        names = (agent.partition("/")[0].strip().lower() for agent in agents)
        return next((n for n in (*names, ANY_AGENT) if n in self.groups), None)


def path_and_query(url: str) -> str:
    """Return the path and query of a URL, which rules are matched against."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def normal(text: str, special: str = "") -> str:
    """Return ``text`` in the normal percent-encoding (RFC 9309, 2.2.2).

    Letters, digits and ``-._~`` are decoded. Characters outside of ASCII are encoded.
    ``*`` and ``$`` are encoded unless they are in ``special``.
    """
    if _PLAIN.match(text):
        return text
    safe = _RESERVED + special
    done, end = [], 0
    for match in _ENCODED.finditer(text):
        char = chr(int(match[0][1:], 16))
        done.append(quote(text[end : match.start()], safe, errors="replace"))
        done.append(char if _UNRESERVED.match(char) else match[0].upper())
        end = match.end()
    done.append(quote(text[end:], safe, errors="replace"))
    return "".join(done)


def _verdict(rule: Rule | None) -> RobotsVerdict:
    if rule is None:
        return RobotsVerdict(allowed=True)
    return RobotsVerdict(rule.allowed, rule.text, rule.line, rule.length)


MAX_BYTES = 500 * 2**10  # RFC 9309, section 2.5
MAX_LINE = 2083 * 8  # characters; the rest of a line is ignored, as in Google's parser
MAX_TEXT = 500  # characters of a rule in a verdict
MAX_SITEMAPS = 1000
# The sum over all agents: a rule that applies to several agents counts several times.
MAX_RULES = 100_000

_LINE_END = re.compile(r"\r\n|\r|\n")
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xff\xfe", "utf-16-le"),
)
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
_TOKEN = re.compile(r"[A-Za-z_-]+")  # RFC 9309, section 2.2.1
_FIRST_WORD = re.compile(r"[^\s/]+")
_INDEX = re.compile(r"/index\.htm[^/]*\Z")
_STARS = re.compile(r"\*{2,}")


def read_robots(
    body: bytes, url: str = "", encodings: tuple[str, ...] = ()
) -> RobotsRules:
    """Parse the first 500 KiB of ``body``; a line cut at this limit is left out.

    ``encodings`` (outermost last, lower case) are decoded first. Damaged encodings set
    ``fault``. Relative URLs of sitemaps are resolved against ``url``.
    """
    body, fault = decode_start(body, encodings, MAX_BYTES + 1)
    text = _text(body[:MAX_BYTES])
    if len(body) > MAX_BYTES:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    elif fault:
        return RobotsRules(fault=fault)
    reader = _Reader()
    for number, line in enumerate(_LINE_END.split(text), 1):
        reader.read(number, line[:MAX_LINE])
    found = (absolute(url, value) for value in reader.sitemaps)
    sitemaps = tuple(dict.fromkeys(s for s in found if s and is_web(s)))
    groups = reader.groups()
    return RobotsRules(sitemaps, groups, size=_size(groups, sitemaps))


def _size(groups: Mapping[str, RobotsGroup], sitemaps: Iterable[str]) -> int:
    """Return the approximate memory of groups and sitemaps in bytes, on 64 bits."""
    kept = {id(group.rules): group.rules for group in groups.values()}
    size = 500 + 120 * len(groups) + sum(100 + len(address) for address in sitemaps)
    for rules in kept.values():
        texts = (len(rule.text) for some in rules.values() for rule in some)
        size += 600 + sum(250 + 2 * length for length in texts)
    return size


def _text(body: bytes) -> str:
    for bom, codec in _BOMS:
        if body.startswith(bom):
            body = body[len(bom) :]
            if codec != "utf-8":
                return clean_text(body.decode(codec, "replace"))
    return clean_text(body.decode("utf-8", "surrogateescape").translate(_STRAY_BYTES))


@define
class _Block:
    """Lines of agents and the lines below them, up to the next line of an agent."""

    #: The rules with their patterns in normal percent-encoding.
    rules: list[tuple[str, Rule]]
    delay_s: float | None = None
    #: True after a rule: the next line of an agent starts a new block.
    closed: bool = False


@define
class _Reader:
    """Parses the lines of a file one after the other."""

    sitemaps: list[str] = field(factory=list)
    _blocks: list[_Block] = field(factory=list)
    _of_agent: dict[str, dict[int, _Block]] = field(factory=dict)

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
        elif self._blocks and kind == "delay":
            self._delay(value)
        elif self._blocks:
            self._blocks[-1].closed = True
            self._rule(value, number, text, allowed=kind == "allow")

    def _agent(self, value: str) -> None:
        block = self._blocks[-1] if self._blocks else None
        if block is None or block.closed:
            self._blocks.append(_Block([]))
        elif block.delay_s is not None:
            # A delay does not end the group, but does not apply to agents below it.
            self._blocks.append(_Block(block.rules))
        for name in _agent_names(value):
            blocks = self._of_agent.setdefault(name, {})
            blocks[id(self._blocks[-1])] = self._blocks[-1]

    def _delay(self, value: str) -> None:
        try:
            delay_s = float(value)
        except ValueError:
            return
        if math.isfinite(delay_s) and delay_s >= 0:
            block = self._blocks[-1]
            block.delay_s = max(delay_s, block.delay_s or 0)

    def _rule(self, value: str, number: int, text: str, *, allowed: bool) -> None:
        """Add a rule; a path must begin with / or *."""
        if not value.startswith(("/", "*")):
            return
        pattern, rules = normal(_STARS.sub("*", value), "*$"), self._blocks[-1].rules
        rules.append((pattern, Rule(len(pattern), allowed, number, text[:MAX_TEXT])))
        if allowed and (index := _INDEX.search(pattern)):
            # As in Google's parser: Allow for an index page allows its directory.
            place = f"{pattern[: index.start()]}/$"
            rules.append((place, Rule(len(place), allowed, number, text[:MAX_TEXT])))

    def groups(self) -> dict[str, RobotsGroup]:
        """Return one group per agent, which merges all groups of the agent."""
        made: dict[tuple[int, ...], RobotsGroup] = {}
        left, groups = MAX_RULES, {}
        for agent, blocks in self._of_agent.items():
            lists = {id(block.rules): block.rules for block in blocks.values()}
            key = tuple(lists)
            if key not in made:
                left -= sum(map(len, lists.values()))
                fits = left >= 0
                made[key] = _group(lists.values()) if fits else REFUSE_ALL
            delays = [b.delay_s for b in blocks.values() if b.delay_s is not None]
            delay_s = max(delays, default=None)
            groups[agent] = evolve(made[key], crawl_delay_s=delay_s)
        return groups


def _split(line: str) -> tuple[str, str, str]:
    """Return the name, the value and the line without comment; the colon is optional."""
    text = line.partition("#")[0].strip(" \t\f\v\ufeff\xa0")
    name, colon, value = text.partition(":")
    if not colon:
        name, *values = text.split(maxsplit=2) or ("",)
        if len(values) != 1:
            return "", "", text
        value = values[0]
    return name.strip(), value.strip(), text


def _agent_names(value: str) -> Iterable[str]:
    """Return the names of an agent.

    Tokens of the RFC have no digits; the first word also finds ``360Spider``.
    """
    if value[:1] == "*":
        return ("*",) if value == "*" or value[1].isspace() else ()
    found = (pattern.match(value) for pattern in (_TOKEN, _FIRST_WORD))
    return {match[0].lower() for match in found if match}


def _group(lists: Iterable[list[tuple[str, Rule]]]) -> RobotsGroup:
    """Return the group of all rules, indexed by the text before the first asterisk."""
    found: dict[str, list[Rule]] = {}
    for pattern, rule in chain.from_iterable(lists):
        is_whole = pattern.endswith("$")
        body = (pattern[:-1] if is_whole else pattern).replace("$", "%24")
        start, *pieces = body.split("*")
        if pieces and not pieces[-1]:  # an asterisk at the end matches any end
            is_whole = False
            pieces.pop()
        kept = rule._replace(pieces=tuple(pieces), is_whole=is_whole)
        found.setdefault(start, []).append(kept)
    rules = {start: tuple(sorted(some, reverse=True)) for start, some in found.items()}
    return RobotsGroup(rules=rules, lengths=tuple(sorted(set(map(len, rules)))))
