"""Regular expressions and CSS selectors of callers, of bounded cost.

RE2 runs the regular expressions, in linear time.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import re2
from cssselect import HTMLTranslator, SelectorError, parse

from scraper_service.errors import InvalidOptions, Issue

MAX_PATTERNS = 100  # of one list
MAX_PATTERN = 1024  # characters
MAX_UNICODE_CLASSES = 100  # and ranges, of one list: RE2 compiles each in 0.1 ms
# Of a compiled list. It bounds the time of a search to about 0.1 s.
MAX_INSTRUCTIONS = 16_384
MAX_LIST_BYTES = 4 * 2**20
# With more memory RE2 takes 17 s to expand 100 times "x{0,1000}".
MAX_PATTERN_BYTES = 2**19

_TOO_LARGE = (
    f"the patterns are too large together, more than {MAX_INSTRUCTIONS} instructions of"
    f" RE2 or {MAX_LIST_BYTES} bytes compiled: write fewer or simpler ones"
)
_UNICODE_CLASS = re.compile(r"\\[pP]|-(?:[^\x00-\xff]|\\x\{)")


class Patterns:
    """A list of regular expressions in RE2's syntax, searched together.

    Matches are case-sensitive and not anchored. The subject is a URL or path in ASCII.
    Patterns with other characters are matched with decoded ``%`` escapes.

    :raises ValueError: for patterns that :func:`caller_patterns` refuses.
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

    def first_match(self, subject: str) -> str | None:
        """Return a pattern that matches in ``subject``, None if no pattern matches."""
        found = self._plain.first_match(subject) if self._plain else None
        if found is None and self._other:
            found = self._other.first_match(unquote(subject))
        return found


class _Together:
    """Patterns compiled into one automaton.

    RE2 checks the memory of a search when it compiles: no search fails for lack of it.
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

    def first_match(self, subject: str) -> str | None:
        found = self._set.Match(subject)
        return self._patterns[min(found)] if found else None


def caller_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``patterns`` if all are regular expressions of bounded size.

    A list whose first item is the empty string counts as empty.

    :raises InvalidOptions: with the path ``(index,)`` for each invalid pattern.
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
    issues = _issues(patterns)
    try:
        Patterns(() if issues else patterns)
    except ValueError:
        issues = [Issue("custom", (), _TOO_LARGE)]
    if issues:
        raise InvalidOptions(issues)
    return patterns


def _issues(patterns: tuple[str, ...]) -> list[Issue]:
    """Return the issues of ``patterns``, up to the one that makes them too large."""
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
    """Return the number of instructions of a compiled pattern.

    :raises ValueError: with a message for the caller.
    :raises MemoryError: for a pattern that alone is too large.
    """
    shown = repr(pattern[:60])
    if len(pattern) > MAX_PATTERN:
        raise ValueError(
            f"the pattern {shown}... has more than {MAX_PATTERN} characters"
        )
    try:
        return int(re2.compile(pattern, _options(MAX_PATTERN_BYTES)).programsize)
    except (re2.error, UnicodeEncodeError) as error:
        reason = reason_of(error)
    finally:
        re2.purge()  # its cache of compiled patterns is not bounded in bytes
    if reason.startswith("pattern too large"):
        raise MemoryError(reason)
    raise ValueError(f"not a regular expression (RE2): {shown}: {reason}")


def reason_of(error: re2.error | UnicodeEncodeError) -> str:
    """Return why RE2 refused a pattern, in at most 100 characters."""
    if isinstance(error, UnicodeEncodeError):
        return "it is no Unicode text"
    text = error.args[0]
    shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return shown[:100]


def _options(max_bytes: int) -> re2.Options:
    options = re2.Options()
    options.max_mem = max_bytes
    options.log_errors = False
    options.never_capture = True
    return options


# -- CSS selectors ------------------------------------------------------------------------

MAX_SELECTORS = 100
MAX_SELECTOR = 1024  # characters
MAX_SELECTOR_TEXT = (
    16 * 2**10
)  # characters of all together: a compile takes 4 ms per KiB
MAX_SELECTOR_DEPTH = 3  # of parentheses, as in :not(:has(:is(p)))

_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_QUOTED = re.compile(r"""\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""", re.DOTALL)


def caller_selectors(selectors: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``selectors`` if all are valid CSS selectors of bounded size.

    :raises InvalidOptions: with the path ``(index,)`` for each invalid selector.
    """
    size = sum(map(len, selectors))
    if len(selectors) > MAX_SELECTORS or size > MAX_SELECTOR_TEXT:
        text = (
            f"at most {MAX_SELECTORS} selectors of {MAX_SELECTOR_TEXT} characters in all "
            f"are allowed, got {len(selectors)} of {size}"
        )
        raise InvalidOptions([Issue("too_big", (), text, {"maximum": MAX_SELECTORS})])
    issues = []
    for index, selector in enumerate(selectors):
        try:
            caller_selector(selector)
        except ValueError as error:
            issues.append(Issue("custom", (index,), str(error)))
    if issues:
        raise InvalidOptions(issues)
    return selectors


def caller_selector(selector: str, *, is_of_browser: bool = False) -> str:
    """Return ``selector`` if it is a CSS selector of bounded size.

    A browser may support more than what becomes XPath, which is not checked then.

    :raises ValueError: with a message for the caller.
    """
    shown = repr(selector[:60])
    if len(selector) > MAX_SELECTOR:
        raise ValueError(
            f"not a CSS selector: {shown}... has more than {MAX_SELECTOR} characters"
        )
    if _depth(selector) > MAX_SELECTOR_DEPTH:
        raise ValueError(
            f"not a CSS selector: {shown} has more than {MAX_SELECTOR_DEPTH} "
            "parentheses within each other"
        )
    try:
        groups = parse(selector)
        xpath = HTMLTranslator().selector_to_xpath
        paths = [] if is_of_browser else [xpath(group) for group in groups]
    except (SelectorError, RecursionError, ValueError) as error:
        raise ValueError(f"not a CSS selector: {shown}: {str(error)[:100]}") from None
    if any(group.pseudo_element for group in groups):
        raise ValueError(f"not a CSS selector: {shown} has a pseudo-element")
    # Escapes such as \1 produce them, too. An XPath may have only characters of XML.
    if any(_NOT_XML.search(path) for path in paths):
        raise ValueError(f"not a CSS selector: {shown} has control characters")
    return selector


def _depth(selector: str) -> int:
    deepest = depth = 0
    for character in _QUOTED.sub("", selector):
        depth += {"(": 1, ")": -1}.get(character, 0)
        deepest = max(deepest, depth)
    return deepest
