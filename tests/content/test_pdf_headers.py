"""Headers and footers of PDF pages, and the headings and captions that resemble them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.content.pages import value
from tests.content.pdfmaker import pdf
from tests.content.test_pdf import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.content.pdfmaker import Text

FISH = ("Herring", "Cod", "Plaice", "Eel", "Mackerel", "Sprat")
TOP, BOTTOM = 760, 30


def body_of(page: Callable[[int], Iterable[Text]]) -> bytes:
    """Return a file with a page for each fish: some lines of text, and ``page(n)``."""
    return pdf(
        [
            [
                *page(n),
                (
                    72,
                    700,
                    11,
                    f"{fish} came to the market in the morning, and was sold",
                ),
                (72, 686, 11, f"by noon. {fish} is landed at the northern pier."),
            ]
            for n, fish in enumerate(FISH)
        ]
    )


def text_with(page: Callable[[int], Iterable[Text]]) -> str:
    return value(read(body_of(page)), "markdown")


PLAIN = text_with(lambda _: ())

HEADINGS = {
    "numbered": lambda n: f"{n + 1}. {FISH[n]} in spring",
    "numbered without a dot": lambda n: f"{n + 1} {FISH[n]} in spring",
    "chapters": lambda n: f"Chapter {n + 1}",
    "years": lambda n: f"Annual figures for {2021 + n}",
    "the same words": lambda n: "Landings",
}


@pytest.mark.parametrize("heading", HEADINGS.values(), ids=HEADINGS)
def test_large_headings_at_the_top_of_each_page_stay(heading):
    text = text_with(lambda n: [(72, TOP, 18, heading(n))])
    headings = [line for line in text.split("\n") if line.startswith("#")]
    assert headings == [f"# {heading(n)}" for n in range(len(FISH))]


@pytest.mark.parametrize("kind", list(HEADINGS)[:4])
def test_headings_in_the_size_of_the_text_stay_where_more_than_a_page_number_differs(
    kind,
):
    heading = HEADINGS[kind]
    text = text_with(lambda n: [(72, TOP, 11, heading(n))])
    assert [heading(n) in text for n in range(len(FISH))] == [True] * len(FISH)


def test_bold_headings_keep_their_separate_numbers():
    body = body_of(
        lambda n: [(72, TOP, 11, str(n + 1)), (110, TOP, 11, f"{FISH[n]} in spring")]
    )
    text = value(read(body.replace(b"/Helvetica", b"/Helvetica-Bold")), "markdown")
    assert [f"{n + 1} {FISH[n]} in spring" in text for n in range(6)] == [True] * 6


HEADERS = {
    "small print": lambda n: [(72, TOP, 9, "Yearbook of the harbour")],
    "the size of the text": lambda n: [(72, TOP, 11, "Yearbook of the harbour")],
    "a page number after it": lambda n: [(72, TOP, 9, f"Yearbook {n + 12}")],
    "a page number apart": lambda n: [
        (72, TOP, 11, "Yearbook"),
        (500, TOP, 11, str(n + 12)),
    ],
    "odd and even pages": lambda n: (
        [(72, TOP, 9, str(n + 2)), (420, TOP, 9, "A. Writer")]
        if n % 2
        else [(72, TOP, 9, "Yearbook of the harbour"), (500, TOP, 9, str(n + 2))]
    ),
    "running chapters": lambda n: [
        (72, TOP, 9, f"Chapter {n // 3 + 1}: {FISH[n // 3]}"),
        (500, TOP, 9, str(n + 1)),
    ],
}
FOOTERS = {
    "of the total": lambda n: f"Page {n + 1} of {len(FISH)}",
    "of the total, more words": lambda n: f"Page {n + 1} of 6 | Port of Varn, 2020",
    "a slash": lambda n: f"{n + 1}/{len(FISH)}",
    "dashes": lambda n: f"- {n + 1} -",
    "between bars": lambda n: f"Port of Varn | {n + 1} | not for sale",
    "after a name": lambda n: f"Port of Varn {n + 1}",
    "Roman": lambda n: ("i", "ii", "iii", "iv", "v", "vi")[n],
    "by section": lambda n: f"{n // 3 + 1}-{n % 3 + 1}",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_headers_are_dropped(header):
    assert text_with(header) == PLAIN


@pytest.mark.parametrize("size", [8, 11])
@pytest.mark.parametrize("footer", FOOTERS.values(), ids=FOOTERS)
def test_footers_are_dropped(footer, size):
    assert text_with(lambda n: [(72, BOTTOM, size, footer(n))]) == PLAIN


KEPT = {
    "caption": lambda n: f"Table {n + 1}: Sales",
    "footnote": lambda n: f"{n + 1} {FISH[n]} is counted in boxes.",
    "sum": lambda n: f"Total {120 + 7 * n * n}",
}


@pytest.mark.parametrize("size", [8, 11])
@pytest.mark.parametrize("line", KEPT.values(), ids=KEPT)
def test_last_lines_that_differ_by_more_than_the_page_number_stay(line, size):
    text = text_with(lambda n: [(72, BOTTOM, size, line(n))])
    assert [line(n) in text for n in range(len(FISH))] == [True] * len(FISH)
