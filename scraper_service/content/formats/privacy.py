"""Finds and replaces personal data in texts by rules: e-mail and IP addresses, numbers, secrets."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from attrs import define, field

from scraper_service.options.formats import FORMATS, REPLACED
from scraper_service.options.scrape import EMAIL, FINANCIAL, PHONE, SECRET, RedactPii

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    #: Start and end of something found.
    SpanT = tuple[int, int]
    FinderT = Callable[[str, str | None], Iterator[SpanT]]

# Before the @ also what Markdown escapes, such as \_, and an apostrophe in a name.
_EMAIL = re.compile(
    r"(?<![\w.+\\-])(?:[\w.+#\\-]|(?<=\w)'(?=\w)){1,128}(?:@|%40|\uff20)"
    r"(?:[\w-]{1,63}\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z\d-]{2,59})(?![\w-])",
    re.IGNORECASE,
)
_AT = ("@", "%40", "\uff20")
_DIGIT_GROUPS = re.compile(r"(?<![\d.-])\d+(?:[ .-]\d+)*(?!\d)")
_DIGIT_GROUP = re.compile(r"\d+")
_IBAN = re.compile(r"(?<![A-Za-z\d])[A-Za-z]{2}\d{2}(?= ?[A-Za-z\d])")
_IBAN_END = re.compile(r"(?: ?[A-Za-z\d]){11,30}")
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_TOKEN = re.compile(
    r"(?<![\w-])(?:"
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}"  # JSON Web Tokens
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z\d]{16,}|sk-[\w-]{20,}"
    r"|gh[pousr]_[A-Za-z\d]{30,}|github_pat_\w{30,}|glpat-[\w-]{20,}"
    r"|xox[abprs]-[A-Za-z\d-]{10,}|AKIA[\dA-Z]{16}|ASIA[\dA-Z]{16}|AIza[\w-]{35}"
    r"|fc-[\da-f]{32,}|npm_[A-Za-z\d]{36}|hf_[A-Za-z\d]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r")(?![\w-])"
)
_PAIR = re.compile(
    r"(?i)(?<![A-Za-z])(?:pass(?:word|wd|phrase)?|pwd|secret|(?:api|access|auth|secret)[ _-]?(?:key|token))"
    r"""["'*_`]{0,3}[ \t]{0,3}[:=][ \t]{0,3}(?:"([^"\n]{6,200})"|'([^'\n]{6,200})'|["'*_`]{0,3}([^\s"'<>|,;&`*]{6,200}))"""
)
CARD_DIGITS = 13, 19  # the least and the most
_LEAST_CARD = 10**12
# Digit or sign in what is no plain word: "password: required" tells no password.
_NO_WORD = re.compile(r"[\d!#$%^&@?~]")
# Characters by country, of the registry of ISO 13616.
_IBAN_SIZES = {
    country: int(size)
    for sizes in (
        "15=NO 16=BE 18=DK,FI,FK,FO,GL,NL,SD 19=MK,SI 20=AT,BA,EE,KZ,LT,LU,MN,XK "
        "21=CH,HR,LI,LV 22=BG,BH,CR,DE,GB,GE,IE,ME,RS 23=AE,GI,IL,IQ,OM,SO,TL "
        "24=AD,CZ,ES,MD,PK,RO,SA,SE,SK,TN,VG 25=LY,PT,ST 26=IS,TR "
        "27=BI,DJ,FR,GR,IT,MC,MR,SM 28=AL,AZ,BY,CY,DO,GT,HN,HU,LB,NI,PL,SV "
        "29=BR,EG,PS,QA,UA 30=JO,KW,MU,YE 31=MT,SC 32=LC 33=RU"
    ).split()
    for size, countries in [sizes.split("=")]
    for country in countries.split(",")
}
# Where national numbers of a language without a region are looked up.
_REGIONS = dict(
    pair.split("=")
    for pair in (
        "cs=CZ da=DK de=DE el=GR en=US es=ES fi=FI fr=FR he=IL hi=IN hu=HU it=IT "
        "ja=JP ko=KR nb=NO nl=NL no=NO pl=PL pt=BR ro=RO ru=RU sv=SE tr=TR uk=UA "
        "zh=CN"
    ).split()
)
_DIGITS = re.compile(r"\d")
# What a reader does not see between the letters of an e-mail address: marks of Markdown, which
# inline tags of the page leave, and characters without width.
_MARKS = re.compile(r"\*{1,3}|~~|`{1,3}|[\u00ad\u200b-\u200d\u2060\ufeff]+")
_MARKED_LINE = re.compile(r".*(?:[*~`\u00ad\u200b-\u200d\u2060\ufeff]).*")
_GONE = ("mailto:", "tel:", "sms:")  # links that are personal data themselves
_TEXTS = (
    *(row.tag for row in FORMATS if row.personal_data == REPLACED),
    *("pages", "blocks"),
)


@define
class Redaction:
    """Replaces the personal data of one page."""

    options: RedactPii
    #: The language of the page as a tag; None if unknown.
    language: str | None
    #: How often each entity was replaced in the last text that was counted.
    counts: Counter[str] = field(factory=Counter)

    def values(self, values: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the values of a page (JSON texts) without personal data.

        ``counts`` has those of the Markdown; without Markdown, those of all values.
        """
        found = dict(values)
        for name in _TEXTS:
            if name in found:
                before = Counter(self.counts)
                found[name] = _encode(self.value(json.loads(found[name])))
                if name != "markdown" and "markdown" in found:
                    self.counts = before
        if "links" in found:
            links = json.loads(found["links"])
            before = Counter(self.counts)
            found["links"] = _encode(
                [x for x in links if not x.startswith(_GONE) and self.text(x) == x]
            )
            self.counts = before
        return found

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return metadata without personal data, which ``counts`` does not count."""
        before = Counter(self.counts)
        found: dict[str, Any] = self.value(dict(facts))
        found = {self.text(name): value for name, value in found.items()}
        self.counts = before
        return found

    def value(self, value: Any) -> Any:
        """Return a JSON value with its texts redacted."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {name: self.value(each) for name, each in value.items()}
        if isinstance(value, int) and value > _LEAST_CARD and is_card(str(value)):
            return self.text(str(value))
        return value

    def text(self, text: str) -> str:
        """Return ``text`` with everything replaced that the rules find."""
        for entity, find in _FINDERS.items():
            if entity not in self.options.replaced:
                continue
            parts, last = [], 0
            for start, end in _join_overlaps(self._spans(find, text)):
                before, after = _open_marks(text, start, end)
                found = _MARKS.sub("", text[start:end])
                parts += [text[last:start], before, self._instead(entity, found), after]
                last = end
                self.counts[entity] += 1
            if parts:
                text = "".join((*parts, text[last:]))
        return text

    def _spans(self, find: FinderT, text: str) -> Iterator[SpanT]:
        """Yield what is found in a text as it is, and as a reader sees it."""
        yield from find(text, self.language)
        for line in _MARKED_LINE.finditer(text):
            if _DIGITS.search(line[0]) is None and not any(x in line[0] for x in _AT):
                continue
            shown, positions = _without_marks(line[0])
            for start, end in find(shown, self.language):
                first, last = positions[start], positions[end - 1] + 1
                if last - first > end - start:  # else it was found already
                    yield line.start() + first, line.start() + last

    def _instead(self, entity: str, found: str) -> str:
        match self.options.replace_style:
            case "mask":
                return "*" * len(found)
            case "remove":
                return ""
        return f"<{entity}>"


def _without_marks(text: str) -> tuple[str, list[int]]:
    """Return a text without marks, and the position of each of its characters in the text."""
    parts: list[str] = []
    positions: list[int] = []
    last = 0
    for mark in _MARKS.finditer(text):
        parts.append(text[last : mark.start()])
        positions += range(last, mark.start())
        last = mark.end()
    parts.append(text[last:])
    positions += range(last, len(text))
    return "".join(parts), positions


def _join_overlaps(spans: Iterable[SpanT]) -> Iterator[SpanT]:
    """Yield spans in their order, those that overlap as one."""
    first = last = 0
    for start, end in sorted(spans):
        if start < last:
            last = max(last, end)
            continue
        if last:
            yield first, last
        first, last = start, end
    if last:
        yield first, last


def _open_marks(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the marks in a span that belong to marks before or after it.

    They stay before it if they begin something, and after it if they end something.
    """
    odd = [
        mark
        for mark, count in Counter(_MARKS.findall(text, start, end)).items()
        if count % 2 and mark[0] in "*~`"
    ]
    if not odd:
        return "", ""
    block = text.rfind("\n\n", 0, start) + 1
    earlier = Counter(_MARKS.findall(text, block, start))
    ends = [mark for mark in odd if earlier[mark] % 2]
    begins = [mark for mark in odd if not earlier[mark] % 2]
    return "".join(begins), "".join(ends)


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _secrets(text: str, _: str | None) -> Iterator[SpanT]:
    spans = list(_key_blocks(text))
    spans += [found.span() for found in _TOKEN.finditer(text)]
    spans += [
        found.span(found.lastindex or 0)
        for found in _PAIR.finditer(text)
        if _NO_WORD.search(found[found.lastindex or 0])
    ]
    yield from sorted(spans)


def _key_blocks(text: str) -> Iterator[SpanT]:
    """Yield the private keys of a text; one without an end goes to the end of the text."""
    at = 0
    while (begin := _KEY_BEGIN.search(text, at)) is not None:
        end = _KEY_END.search(text, begin.end())
        at = end.end() if end is not None else len(text)
        yield begin.start(), at


def _emails(text: str, _: str | None) -> Iterator[SpanT]:
    if any(sign in text for sign in _AT):
        yield from (found.span() for found in _EMAIL.finditer(text))


def _financial(text: str, _: str | None) -> Iterator[SpanT]:
    spans = list(_cards(text))
    for found in _IBAN.finditer(text):
        if (tail := _IBAN_END.match(text, found.end())) is not None:
            whole = text[found.start() : tail.end()]
            if end := _end_of_iban(whole):
                spans.append((found.start(), found.start() + end))
    yield from sorted(spans)


def _cards(text: str) -> Iterator[SpanT]:
    """Yield card numbers: neighbouring groups of digits with 13 to 19 in all."""
    for run in _DIGIT_GROUPS.finditer(text):
        if run.end() - run.start() < CARD_DIGITS[0]:
            continue
        groups = [g.span() for g in _DIGIT_GROUP.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            last = _last_of_card(text, groups, first)
            if last is not None:
                yield groups[first][0], groups[last][1]
                first = last
            first += 1


def _last_of_card(text: str, groups: list[SpanT], first: int) -> int | None:
    """Return the last group of the longest card number from a group on, None for none."""
    if text[groups[first][0]] not in "23456":
        return None
    digits, found = "", None
    for number in range(first, len(groups)):
        digits += text[slice(*groups[number])]
        if len(digits) > CARD_DIGITS[1]:
            break
        if len(digits) >= CARD_DIGITS[0] and is_card(digits):
            found = number
    return found


def _end_of_iban(text: str) -> int:
    """Return the length of the account number at the start of ``text``, 0 for none."""
    size = _IBAN_SIZES.get(text[:2].upper(), 0)
    kept = 0
    for end, character in enumerate(text, 1):
        kept += character != " "
        if size and kept == size:
            return end if is_iban(text[:end].replace(" ", "")) else 0
    return 0


def _phones(text: str, language: str | None) -> Iterator[SpanT]:
    if not _DIGITS.search(text):
        return
    import phonenumbers  # noqa: PLC0415  # few pages are redacted

    matcher = phonenumbers.PhoneNumberMatcher(
        text, region_of(language), max_tries=100_000
    )
    for found in matcher:
        yield found.start, found.end


def region_of(language: str | None) -> str | None:
    """Return the country whose numbers a page in a language means; None if unknown."""
    parts = re.split("[-_]", language or "")
    if len(parts) > 1 and re.fullmatch("[A-Za-z]{2}", parts[-1]):
        return parts[-1].upper()
    return _REGIONS.get(parts[0].lower())


def is_card(digits: str) -> bool:
    """Return True if the check digit of a card number is right (Luhn)."""
    total = 0
    for number, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + number % 2)
        total += value - 9 if value > 9 else value
    return 13 <= len(digits) <= 19 and total % 10 == 0 and len(set(digits)) > 1


def is_iban(text: str) -> bool:
    """Return True if the check digits of an account number are right (ISO 7064)."""
    moved = text[4:] + text[:4]
    return int("".join(str(int(each, 36)) for each in moved)) % 97 == 1


# Secrets first: parts of them may look like numbers.
_FINDERS: dict[str, FinderT] = {
    SECRET: _secrets,
    EMAIL: _emails,
    FINANCIAL: _financial,
    PHONE: _phones,
}
