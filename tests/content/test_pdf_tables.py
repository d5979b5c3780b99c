"""Small tables of PDF pages: ruled with lines, and without lines."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.content.pages import value
from tests.content.pdfmaker import Text, pdf
from tests.content.test_pdf import read

BOATS = [
    ["Boat", "Owner", "Berth"],
    ["Ada", "Jon Sand", "12"],
    ["Bella", "Mary Reed", "7"],
    ["Cora", "Ivo Lund", "31"],
]
LEFT, TOP, HEIGHT = 72.0, 600.0, 20.0
ABOVE = (72, 640, 10, "The boats of the harbour are listed below, with their berths.")
BELOW = (72, 420, 10, "The list was made in May.")


def markdown(*texts: Text) -> str:
    return value(read(pdf([texts])), "markdown")


def table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    return "\n".join(lines)


def texts_of(rows, xs, *, top=TOP, height=HEIGHT, right=()) -> list[Text]:
    """Return the cells row by row; a cell has its lines divided by a newline."""
    found: list[Text] = []
    for n, row in enumerate(rows):
        for k, cell in enumerate(row):
            for line, words in enumerate(filter(None, cell.split("\n"))):
                x = xs[k + 1] - 2 - 5.6 * len(words) if k in right else xs[k] + 2
                found.append((x, top - height * n - 12 - 11 * line, 10, words))
    return found


def line(x0: float, y0: float, x1: float, y1: float) -> bytes:
    return b"%.1f %.1f m %.1f %.1f l S" % (x0, y0, x1, y1)


def borders(xs, count: int, *, top=TOP, height=HEIGHT) -> list[bytes]:
    ys = [top - height * n for n in range(count + 1)]
    return [
        *(line(xs[0], y, xs[-1], y) for y in ys),
        *(line(x, ys[0], x, ys[-1]) for x in xs),
    ]


def cut(rows: int, columns: int) -> list[list[str]]:
    whole = [*BOATS, ["Dora", "Ann Hill", "9"], ["Edda", "Per Dahl", "3"]]
    loads = ("Load", "eel", "cod", "tar", "salt", "rope")
    years = ("Built", "1970", "1981", "1990", "2001", "2010")
    more = zip(whole, loads, years, strict=True)
    return [[*row, load, year][:columns] for row, load, year in more][:rows]


@pytest.mark.parametrize(
    ("rows", "columns"), list(itertools.product(range(2, 7), range(2, 6)))
)
def test_ruled_tables_have_all_rows_and_columns(rows, columns):
    xs = [LEFT + 52 * n for n in range(columns + 1)]
    cells = cut(rows, columns)
    page = (ABOVE, *borders(xs, rows), *texts_of(cells, xs), BELOW)
    assert markdown(*page) == f"{ABOVE[3]}\n\n{table(cells)}\n\n{BELOW[3]}"


DRAWN = {
    "lines in one path": b"\n".join(borders([72, 102, 152, 182], 4)).replace(b" S", b"")
    + b" S",
    "a rectangle for each cell": b"\n".join(
        b"%d %d %d 20 re S" % (x, 580 - 20 * n, width)
        for n in range(4)
        for x, width in ((72, 30), (102, 50), (152, 30))
    ),
    "thin filled rectangles": b"\n".join(
        [
            *(b"%d 520 0.5 80 re f" % x for x in (72, 102, 152, 182)),
            *(b"72 %d 110 0.5 re f" % (600 - 20 * n) for n in range(5)),
        ]
    ),
    "a line for each side of each cell": b"\n".join(
        line(*side)
        for n in range(4)
        for x0, x1 in ((72, 102), (102, 152), (152, 182))
        for side in (
            (x0, 600 - 20 * n, x1, 600 - 20 * n),
            (x0, 580 - 20 * n, x1, 580 - 20 * n),
            (x0, 600 - 20 * n, x0, 580 - 20 * n),
            (x1, 600 - 20 * n, x1, 580 - 20 * n),
        )
    ),
    "no frame": b"\n".join(
        [
            *(line(x, 520, x, 600) for x in (102, 152)),
            *(line(72, y, 182, y) for y in (580, 560, 540)),
        ]
    ),
    "lines under the first row only": b"\n".join(
        [
            *(line(x, 520, x, 600) for x in (72, 102, 152, 182)),
            *(line(72, y, 182, y) for y in (600, 580, 520)),
        ]
    ),
    "scaled": b"q 2 0 0 2 0 0 cm\n"
    + b"\n".join(borders([36, 51, 76, 91], 4, top=300, height=10))
    + b" Q",
}


@pytest.mark.parametrize("drawing", DRAWN.values(), ids=DRAWN)
def test_narrow_columns_never_merge_where_a_line_stands_between_them(drawing):
    page = (ABOVE, drawing, *texts_of(BOATS, [72, 102, 152, 182]), BELOW)
    assert markdown(*page) == f"{ABOVE[3]}\n\n{table(BOATS)}\n\n{BELOW[3]}"


def test_text_lines_of_a_ruled_cell_are_joined():
    rows = [
        ["Boat", "What it\ncarries", "Berth"],
        ["Ada\nMaria", "Herring", "12"],
        ["Bella", "Eels and mack-\nerel", "7"],
    ]
    xs = [72, 112, 192, 232]
    page = (*borders(xs, 3, height=30), *texts_of(rows, xs, height=30))
    assert markdown(*page) == table(
        [
            ["Boat", "What it carries", "Berth"],
            ["Ada Maria", "Herring", "12"],
            ["Bella", "Eels and mackerel", "7"],
        ]
    )


def test_empty_cells_of_ruled_tables_stay_empty():
    rows = [["Boat", "Owner", "Berth"], ["Ada", "", "12"], ["", "Mary Reed", ""]]
    xs = [72, 132, 202, 242]
    assert markdown(*borders(xs, 3), *texts_of(rows, xs)) == table(rows)


def test_spanning_cells_are_written_at_their_first_column_and_row():
    rows = [["", "", ""], ["", "Spring", "Autumn"], ["Ada", "12", "30"]]
    xs = [72, 132, 202, 272]
    lines = [
        *(line(72, y, 272, y) for y in (600, 560, 540)),
        line(132, 580, 272, 580),
        *(line(x, 540, x, 600) for x in (72, 132, 272)),
        line(202, 540, 202, 580),
    ]
    texts = [(74, 578, 10, "Boat"), (190, 586, 10, "Landed"), *texts_of(rows, xs)]
    assert markdown(*lines, *texts) == table(
        [["Boat", "Landed", ""], ["", "Spring", "Autumn"], ["Ada", "12", "30"]]
    )


def test_two_ruled_tables_and_a_text_next_to_them_stay_separate():
    xs = [300, 350, 420, 470]
    page = [
        *borders(xs, 4),
        *texts_of(BOATS, xs),
        *borders(xs[:3], 2, top=500),
        *texts_of(cut(2, 2), xs, top=500),
        *((72, 588 - 13 * n, 10, f"and the harbour wall, {n}") for n in range(9)),
    ]
    text = markdown(*page)
    assert f"{table(BOATS)}\n\n" in text
    assert table(cut(2, 2)) in text
    assert "and the harbour wall, 0 and the harbour wall, 1" in text


@pytest.mark.parametrize("order", [1, -1], ids=["table first", "table last"])
def test_text_before_and_after_a_ruled_table_is_in_order(order):
    xs = [72, 132, 202, 242]
    page = [ABOVE, *texts_of(BOATS, xs), BELOW][::order]
    text = markdown(*borders(xs, 4), *page)
    assert text == f"{ABOVE[3]}\n\n{table(BOATS)}\n\n{BELOW[3]}"


def test_frames_around_paragraphs_are_no_tables():
    page = [b"72 560 300 60 re S", (76, 600, 10, "Do not sail after dark,")]
    page += [(76, 588, 10, "and never without a light on the mast.")]
    assert markdown(*page) == (
        "Do not sail after dark, and never without a light on the mast."
    )


def test_lines_of_a_chart_are_no_table():
    page = borders([72 + 40 * n for n in range(9)], 8)
    page += [(80, 590, 10, "Landings"), (300, 450, 10, "Year")]
    assert "|" not in markdown(*page)


def test_ruled_tables_of_turned_pages_are_tables():
    xs = [72, 102, 152, 182]
    page = [b"0 1 -1 0 700 0 cm", *borders(xs, 4), *texts_of(BOATS, xs)]
    assert table(BOATS) in markdown(*page)


@pytest.mark.parametrize("right", [(), (1, 2)], ids=["left", "right"])
def test_small_gaps_part_the_columns_of_tables_without_lines(right):
    rows = [["Item", "Number", "Price"], ["Rope", "2", "3.50"]]
    rows += [["Sail of the best sort", "1", "1280.00"], ["Tar", "112", "0.75"]]
    xs = [72, 178, 226, 278]
    page = (ABOVE, *texts_of(rows, xs, height=16, right=right), BELOW)
    assert markdown(*page) == f"{ABOVE[3]}\n\n{table(rows)}\n\n{BELOW[3]}"


def test_a_drawing_of_many_lines_takes_little_time():
    page = borders([10 + 0.4 * n for n in range(1400)], 1400, height=0.4)
    begin = time.process_time()
    assert markdown(ABOVE, *page) == ABOVE[3]
    assert time.process_time() - begin < 2


def across(xs, *ys: float) -> list[bytes]:
    return [line(xs[0], y, xs[-1], y) for y in ys]


@pytest.mark.parametrize(
    ("rows", "columns"), list(itertools.product(range(2, 7), range(2, 6)))
)
def test_rows_between_lines_are_the_rows_of_a_table(rows, columns):
    xs = [LEFT + 70 * n for n in range(columns + 1)]
    cells = cut(rows, columns)
    lines = across(xs, *(TOP - HEIGHT * n for n in range(rows + 1)))
    page = (ABOVE, *lines, *texts_of(cells, xs), BELOW)
    assert markdown(*page) == f"{ABOVE[3]}\n\n{table(cells)}\n\n{BELOW[3]}"


@pytest.mark.parametrize("rows", [3, 4])
def test_lines_around_the_header_and_the_table_leave_its_rows(rows):
    xs = [72, 132, 212, 252]
    cells = [list(row) for row in BOATS[:rows]]
    cells[-2][1] = ""
    lines = across(xs, 600, 580, 600 - 20 * rows)
    assert markdown(*lines, *texts_of(cells, xs)) == table(cells)


@pytest.mark.parametrize("fill", [b"", b".9 g 72 570 180 30 re f 0 g"])
@pytest.mark.parametrize("frame", [b"", b"72 510 180 90 re S"])
def test_text_lines_of_a_cell_between_two_rules_are_joined(fill, frame):
    rows = [
        ["Boat", "What it\ncarries", "Berth"],
        ["Ada\nMaria", "Herring", "12"],
        ["Bella", "Eels\nand cod", "7"],
    ]
    xs = [72, 132, 212, 252]
    lines = [fill, frame, *across(xs, 600, 570, 540, 510)]
    assert markdown(*lines, *texts_of(rows, xs, height=30)) == table(
        [[cell.replace("\n", " ") for cell in row] for row in rows]
    )


@pytest.mark.parametrize("rules", [(760, 612, 400), (760, 612, 500, 400, 380)])
def test_lines_over_the_page_make_no_table_of_its_text(rules):
    words = "The pilots read the marks on the wall every day"
    left = [(72, 600 - 12 * n, 10, f"{words} {n}") for n in range(7)]
    right = [(320, y, size, f"{text}.") for _, y, size, text in left]
    page = [*across((72, 540), *rules), *left, *right]
    assert "|" not in markdown(*page)
    title = (
        72,
        640,
        10,
        "Of marks and pilots, and what they tell of the tides and of us",
    )
    assert "|" not in markdown(*page, title)


def test_an_empty_cell_does_not_end_a_table_without_lines():
    rows = [["Boat", "Owner", "Berth"], ["Ada", "", "12"], ["", "Mary Reed", ""]]
    rows.append(["Cora", "Ivo Lund", "31"])
    assert markdown(*texts_of(rows, [72, 132, 212, 252], height=16)) == table(rows)


def test_a_bold_header_makes_a_table_of_two_rows():
    bold = b"BT /F1 10 Tf 72 600 Td (Boat) Tj 60 0 Td (Berth) Tj ET"
    texts = [(72, 584, 10, "Ada"), (132, 584, 10, "12")]
    rows = table([["Boat", "Berth"], ["Ada", "12"]])
    body = pdf([[bold.replace(b"/F1", b"/F2"), *texts]]).replace(
        b"/F1 3 0 R",
        b"/F1 3 0 R /F2 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
    )
    assert value(read(body), "markdown") == rows
    assert "|" not in markdown(bold, *texts)


def test_a_form_of_boxes_is_no_table():
    page: list[Text] = []
    for n, sides in enumerate(
        ((72, 300, 500), (72, 180, 390, 500), (72, 260, 330, 500))
    ):
        y = 580 - 30 * n
        page += [
            b"%d %d %d 30 re S" % (a, y, b - a) for a, b in itertools.pairwise(sides)
        ]
        page += [(x + 2, y + 18, 7, f"Field {n}") for x in sides[:1]]
    assert "|" not in markdown(*page)


def test_gaps_after_the_numbers_of_headings_make_no_table():
    heading = b"BT /F1 10 Tf %d %d Td (%s) Tj %.1f 0 Td (%s) Tj ET"
    page = [
        heading % (72, 600 - 14 * n, b"1.%d" % n, 23.9, word)
        for n, word in enumerate((b"Tides", b"Pilots", b"Boats", b"Nets"), 1)
    ]
    assert "|" not in markdown(*page)


DECORATED = {
    "lines inside": b"\n".join(across((72, 252), 580, 560, 540)),
    "lines from the second row": b"\n".join(across((72, 252), 580, 560, 540, 520)),
    "lines to the last row": b"\n".join(across((72, 252), 600, 580, 560, 540)),
    "a fill for every other row": b".9 g 72 580 180 20 re 72 540 180 20 re f 0 g",
    "filled first rows": b".9 g 72 580 180 20 re 72 560 180 20 re f 0 g",
    "a filled header": b".9 g 72 580 180 20 re f 0 g",
}


@pytest.mark.parametrize("drawing", DECORATED.values(), ids=DECORATED)
def test_rows_outside_the_rules_and_fills_of_a_table_stay_in_the_table(drawing):
    cells = texts_of(BOATS, [72, 132, 212, 252])
    assert markdown(ABOVE, drawing, *cells, BELOW) == (
        f"{ABOVE[3]}\n\n{table(BOATS)}\n\n{BELOW[3]}"
    )


def test_short_lines_between_paragraphs_part_no_columns():
    words = "The pilots read the marks on the wall every day, and write them down"
    texts = [(72, 600 - 30 * n, 10, f"{words} {n}.") for n in range(5)]
    page = [*across((160, 260), 590, 560, 530, 500), *texts]
    assert markdown(*page) == "\n\n".join(text[3] for text in texts)
