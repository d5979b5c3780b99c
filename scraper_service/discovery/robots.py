"""What a robots.txt says: its groups and sitemaps (RFC 9309).

Reading runs in the converter pool; :mod:`~scraper_service.discovery.robots_rules` holds
the result. Protego, which Scrapy brings, tells neither the rule nor its line.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from scraper_service.content.decode import clean_text, decode_start
from scraper_service.content.html.page_urls import absolute, is_web
from scraper_service.discovery.robots_rules import (
    REFUSE_ALL,
    RobotsGroup,
    RobotsRules,
    Rule,
    Wildcard,
    normal,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_BYTES = 500 * 2**10  # RFC 9309, section 2.5
MAX_LINE = 2083 * 8  # characters; the rest of a line is ignored, as Google does
MAX_TEXT = 500  # characters of a rule that are shown
MAX_SITEMAPS = 1000
# A rule may count for several agents, and a file may make them many times as many.
MAX_RULES = 100_000  # of all groups
# Between asterisks, of one group: a bound to what a verdict may cost.
MAX_PIECES = 20_000

_LINE_END = re.compile(r"\r\n|\r|\n")
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xff\xfe", "utf-16-le"),
)
# Bytes that are not UTF-8 are taken for Latin-1.
_STRAY_BYTES = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
# The spellings that Google's parser takes, https://github.com/google/robotstxt; a name
# only has to begin so.
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
    """Return the rules in the first 500 KiB of ``body``; lines cut there are left out.

    ``encodings`` (outermost last, lower case) are undone first; a damaged one is a
    ``fault`` of the result. Sitemaps are completed by ``url``.
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
    """Return about the bytes of memory that they take; measured on 64 bits."""
    kept = {id(group.starts): group for group in groups.values()}
    size = 500 + 120 * len(groups) + sum(100 + len(address) for address in sitemaps)
    for group in kept.values():
        rules = [*group.wholes.values(), *group.starts.values()]
        rules += (found.rule for some in group.wildcards.values() for found in some)
        size += 600 + sum(250 + 2 * len(rule.text) for rule in rules)
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
    """Lines of agents and what follows them, up to the next line of an agent."""

    rules: list[tuple[str, Rule]]  # with the pattern, normalised
    delay_s: float | None = None
    closed: bool = False  # a rule was read: the next agent begins a new one


@define
class _Reader:
    """Takes the lines one after the other."""

    sitemaps: list[str] = field(factory=list)
    _blocks: list[_Block] = field(factory=list)
    _of_agent: dict[str, dict[int, _Block]] = field(factory=dict)

    def read(self, number: int, line: str) -> None:
        """Take one line; what it cannot mean is ignored."""
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
            # A delay ends no group, but it is not that of the agents below it.
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
        """Note a rule; a path that begins with neither / nor * is none."""
        if not value.startswith(("/", "*")):
            return
        pattern, rules = normal(_STARS.sub("*", value), "*$"), self._blocks[-1].rules
        rules.append((pattern, Rule(len(pattern), allowed, number, text[:MAX_TEXT])))
        if allowed and (index := _INDEX.search(pattern)):
            # Google: who may fetch the index page may fetch its directory.
            place = f"{pattern[: index.start()]}/$"
            rules.append((place, Rule(len(place), allowed, number, text[:MAX_TEXT])))

    def groups(self) -> dict[str, RobotsGroup]:
        """Return what counts for each agent: all its groups, as one."""
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
    """Return name, value and the line without its comment; the colon may be missing."""
    text = line.partition("#")[0].strip(" \t\f\v\ufeff\xa0")
    name, colon, value = text.partition(":")
    if not colon:
        name, *values = text.split(maxsplit=2) or ("",)
        if len(values) != 1:
            return "", "", text
        value = values[0]
    return name.strip(), value.strip(), text


def _agent_names(value: str) -> Iterable[str]:
    """Return under which names an agent is found.

    The token by the RFC has no digits; ``360Spider`` is found by its first word.
    """
    if value[:1] == "*":
        return ("*",) if value == "*" or value[1].isspace() else ()
    found = (pattern.match(value) for pattern in (_TOKEN, _FIRST_WORD))
    return {match[0].lower() for match in found if match}


def _group(lists: Iterable[list[tuple[str, Rule]]]) -> RobotsGroup:
    """Return the rules by the text before their first asterisk."""
    wholes: dict[str, Rule] = {}
    starts: dict[str, Rule] = {}
    wildcards: dict[str, list[Wildcard]] = {}
    pieces_left = MAX_PIECES
    for rules in lists:
        for pattern, rule in rules:
            is_whole = pattern.endswith("$")
            body = (pattern[:-1] if is_whole else pattern).replace("$", "%24")
            start, *pieces = body.split("*")
            if not pieces:
                table = wholes if is_whole else starts
                table[start] = max(rule, table.get(start, rule))
                continue
            if not pieces[-1]:
                is_whole = False
                pieces.pop()
            pieces_left -= len(pieces)
            if not pieces or (pieces_left < 0 and not rule.allowed):
                # What costs too much is refused in a wider way, never in a narrower.
                starts[start] = max(rule, starts.get(start, rule))
            elif pieces_left >= 0:
                needle = max(pieces, key=len)
                found = Wildcard(needle, rule, tuple(pieces), is_whole)
                wildcards.setdefault(start, []).append(found)
    return RobotsGroup(
        wholes=wholes,
        starts=starts,
        wildcards={
            start: tuple(sorted(found, key=lambda w: w.rule, reverse=True))
            for start, found in wildcards.items()
        },
        lengths=tuple(sorted({len(start) for start in (*starts, *wildcards)})),
    )
