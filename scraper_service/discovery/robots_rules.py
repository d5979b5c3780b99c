"""The rules of a robots.txt, ready to be asked about addresses (RFC 9309, 2.2).

A verdict takes time in proportion to the address and to the rules that begin like it,
and some milliseconds at most: where a hostile file would need more, it is a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from attrs import field, frozen

ANY_AGENT = "*"
ROBOTS_PATH = "/robots.txt"  # always allowed (RFC 9309, 2.2.2)
# Rules with asterisks that are tried, times characters of the address: 2 to 5 ms.
MAX_WORK = 2**20

_PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!&'()+,;=]*\Z")
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]")
_RESERVED = ":/?#[]@!&'()+,;="  # RFC 3986, without what has a meaning in a rule


class Rule(NamedTuple):
    """One line of a group; the greater one counts: the longer, then Allow.

    ``length`` are octets of the pattern, ``line`` counts from 1, ``text`` is the line
    without its comment.
    """

    length: int
    allowed: bool
    line: int
    text: str


class Wildcard(NamedTuple):
    """A rule with asterisks: ``pieces`` have to follow each other in the address.

    ``needle`` is the longest of them. ``is_whole``: the last one has to end it.
    """

    needle: str
    rule: Rule
    pieces: tuple[str, ...]
    is_whole: bool

    def matches(self, path: str, start: int) -> bool:
        """Tell whether the part of ``path`` from ``start`` on fits, in linear time."""
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
    """Whether an address may be fetched, and the line that says so.

    ``rule`` is that line as written, without comment and cut at 500 characters;
    ``line`` counts from 1, ``length`` is that of its pattern. Where no rule matches,
    they are None and 0.
    """

    allowed: bool
    rule: str | None = None
    line: int | None = None
    length: int = 0


@frozen
class RobotsGroup:
    """What counts for one agent. ``crawl_delay_s`` is as written, None where it is not.

    ``wholes`` are patterns for a whole path, ``starts`` for its beginning,
    ``wildcards`` those with asterisks by what stands before the first, best rule
    first; ``lengths`` are those of the keys of the latter two, rising.
    """

    crawl_delay_s: float | None = None
    wholes: Mapping[str, Rule] = field(factory=dict, repr=False)
    starts: Mapping[str, Rule] = field(factory=dict, repr=False)
    wildcards: Mapping[str, Sequence[Wildcard]] = field(factory=dict, repr=False)
    lengths: tuple[int, ...] = field(default=(), repr=False)
    refuses_all: bool = False

    def verdict(self, path_and_query: str) -> RobotsVerdict:
        """Return what the RFC says of ``/path?query``, in any percent-encoding."""
        if self.refuses_all:
            return RobotsVerdict(allowed=False)
        path = normal(path_and_query)
        if path == ROBOTS_PATH:
            return RobotsVerdict(allowed=True)
        return _verdict(self._best(path if path.startswith("/") else f"/{path}"))

    def link_verdict(self, url: str) -> RobotsVerdict:
        """Return whether to follow a link; the address with a final slash counts too.

        ``Disallow: /a/`` so refuses ``/a``, unless a longer rule allows it.
        """
        path, mark, query = path_and_query(url).partition("?")
        found = self.verdict(f"{path}{mark}{query}")
        if not found.allowed or path.endswith("/") or path == ROBOTS_PATH:
            return found
        other = self.verdict(f"{path}/{mark}{query}")
        outranked = other.length <= found.length
        return found if other.allowed or outranked else other

    def _best(self, path: str) -> Rule | None:
        best = self.wholes.get(path)
        size = len(path)
        tries = MAX_WORK // size
        for length in self.lengths:
            if length > size:
                break
            start = path[:length]
            rule = self.starts.get(start)
            if rule is not None and (best is None or rule > best):
                best = rule
            if self.wildcards and (wildcards := self.wildcards.get(start)):
                best = _best_wildcard(wildcards[:tries], path, length, best)
                if len(wildcards) > tries:
                    best = _refusal(wildcards[tries:], best)
                tries = max(0, tries - len(wildcards))
        return best


REFUSE_ALL = RobotsGroup(refuses_all=True)


@frozen
class RobotsRules:
    """A robots.txt that was read. ``sitemaps`` are absolute, unique, in their order.

    ``groups`` has the names of agents in lower case; ``size`` is about the memory that
    the rules take, in bytes. ``fault`` says why nothing could be read, continuing a
    sentence about the file; None if all is well.
    """

    sitemaps: tuple[str, ...] = ()
    groups: Mapping[str, RobotsGroup] = field(factory=dict, repr=False)
    size: int = 500
    fault: str | None = None

    def group(self, agents: Sequence[str]) -> RobotsGroup:
        """Return the group of the first of ``agents`` that has one, else that of ``*``.

        An agent is a product token, such as ``ExampleBot``; a version behind it and
        upper case make no difference. Without a group everything is allowed.
        """
        name = self.agent(agents)
        return RobotsGroup() if name is None else self.groups[name]

    def agent(self, agents: Sequence[str]) -> str | None:
        """Return the name of that group, in lower case; None if there is none."""
        names = (agent.partition("/")[0].strip().lower() for agent in agents)
        return next((n for n in (*names, ANY_AGENT) if n in self.groups), None)


def path_and_query(url: str) -> str:
    """Return what rules are compared with: an address from its path on."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def normal(text: str, special: str = "") -> str:
    """Return ``text`` percent-encoded in one way (RFC 9309, 2.2.2).

    Letters, digits and ``-._~`` are decoded, all that is not ASCII is encoded, and so
    are ``*`` and ``$`` unless they are ``special``.
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


def _best_wildcard(
    wildcards: Sequence[Wildcard], path: str, start: int, best: Rule | None
) -> Rule | None:
    for wildcard in [w for w in wildcards if w[0] in path]:
        if best is not None and wildcard.rule <= best:
            break
        if wildcard.matches(path, start):
            return wildcard.rule
    return best


def _refusal(untried: Sequence[Wildcard], best: Rule | None) -> Rule | None:
    """Return the rule that refuses if one of ``untried`` may."""
    refusing = (w.rule for w in untried if not w.rule.allowed)
    rule = next(refusing, None)
    if rule is None or (best is not None and best > rule):
        return best
    return rule


def _verdict(rule: Rule | None) -> RobotsVerdict:
    if rule is None:
        return RobotsVerdict(allowed=True)
    return RobotsVerdict(rule.allowed, rule.text, rule.line, rule.length)
