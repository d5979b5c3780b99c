"""Regular expressions of callers: taken only if RE2 can run them in linear time."""

from __future__ import annotations

import re
from urllib.parse import unquote

import re2

from scraper_service.errors import InvalidOptions, Issue

MAX_PATTERNS = 100  # of one list
MAX_PATTERN = 1024  # characters
MAX_UNICODE_CLASSES = 100  # and ranges, of one list: RE2 takes 0.1 ms to read each
# Of a list, compiled: what bounds the time of a search, about 0.1 s at the very worst.
MAX_INSTRUCTIONS = 16_384
MAX_LIST_BYTES = 4 * 2**20
# RE2 takes 17 s to expand "x{0,1000}" written 100 times where it has room for that.
MAX_PATTERN_BYTES = 2**19

_TOO_LARGE = "the patterns are too large together: write fewer or simpler ones"
_UNICODE_CLASS = re.compile(r"\\[pP]|-(?:[^\x00-\xff]|\\x\{)")


class Patterns:
    """A list of regular expressions that is searched as one (RE2's syntax).

    Case matters, nothing is anchored. The subject is an ASCII address or path; a
    pattern with other characters is tried on it with its ``%`` escapes decoded.

    :raises ValueError: for patterns that :func:`caller_patterns` would refuse.
    """

    def __init__(self, patterns: tuple[str, ...]):
        self._patterns = patterns
        unique = dict.fromkeys(patterns)
        plain = tuple(text for text in unique if text.isascii())
        other = tuple(text for text in unique if not text.isascii())
        self._plain = _Together(plain) if plain else None
        self._other = _Together(other) if other else None

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def found_in(self, subject: str) -> str | None:
        """Return a pattern that matches somewhere in ``subject``, None if none does."""
        found = self._plain.found_in(subject) if self._plain else None
        if found is None and self._other:
            found = self._other.found_in(unquote(subject))
        return found


class _Together:
    """Patterns compiled into one automaton.

    RE2 checks when compiling that the memory suffices to search with: a search cannot
    fail for the lack of it.
    """

    def __init__(self, patterns: tuple[str, ...]):
        self._patterns = patterns
        self._set = re2.Set.SearchSet(_options(MAX_LIST_BYTES))
        try:
            for pattern in patterns:
                if len(pattern) > MAX_PATTERN:
                    raise ValueError(f"more than {MAX_PATTERN} characters")
                self._set.Add(pattern)
            self._set.Compile()
        except (re2.error, UnicodeEncodeError) as error:
            raise ValueError(str(error)) from None

    def found_in(self, subject: str) -> str | None:
        found = self._set.Match(subject)
        return self._patterns[min(found)] if found else None


def caller_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``patterns`` if each is a regular expression of bounded size.

    A list whose first item is the empty string counts as empty.

    :raises InvalidOptions: with the path ``(index,)`` for each that is not.
    """
    if patterns and not patterns[0]:
        return ()
    if len(patterns) > MAX_PATTERNS:
        text = f"at most {MAX_PATTERNS} patterns are allowed, got {len(patterns)}"
        raise InvalidOptions([Issue("too_big", (), text, {"maximum": MAX_PATTERNS})])
    classes = sum(len(_UNICODE_CLASS.findall(pattern)) for pattern in patterns)
    if classes > MAX_UNICODE_CLASSES:
        text = (
            f"at most {MAX_UNICODE_CLASSES} Unicode classes are allowed, got {classes}"
        )
        raise InvalidOptions([Issue("custom", (), text)])
    issues = _faults(patterns)
    try:
        Patterns(() if issues else patterns)
    except ValueError:
        issues = [Issue("custom", (), _TOO_LARGE)]
    if issues:
        raise InvalidOptions(issues)
    return patterns


def _faults(patterns: tuple[str, ...]) -> list[Issue]:
    """Return what is wrong with ``patterns``; it ends where they become too large."""
    issues: list[Issue] = []
    size = 0
    for index, pattern in enumerate(patterns):
        try:
            size += _size(pattern) if patterns.index(pattern) == index else 0
        except MemoryError:
            return [*issues, Issue("custom", (), _TOO_LARGE)]
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
        if size > MAX_INSTRUCTIONS:
            return [*issues, Issue("custom", (), _TOO_LARGE)]
    return issues


def _size(pattern: str) -> int:
    """Return the number of instructions that a pattern is compiled to.

    :raises ValueError: with a message for the caller.
    :raises MemoryError: for a pattern that is too large alone.
    """
    shown = repr(pattern[:60])
    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f"the pattern {shown}... has more than {MAX_PATTERN} characters"
        )
    try:
        return int(re2.compile(pattern, _options(MAX_PATTERN_BYTES)).programsize)
    except UnicodeEncodeError:
        reason = "it is no Unicode text"
    except re2.error as error:
        text = error.args[0]
        reason = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    finally:
        re2.purge()  # what it keeps of compiled patterns is not bounded in bytes
    if reason.startswith("pattern too large"):
        raise MemoryError(reason)
    raise ValueError(f"not a regular expression (RE2): {shown}: {reason[:100]}")


def _options(max_bytes: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = max_bytes
    options.log_errors = False
    options.never_capture = True
    return options
