"""What a PDF has beside its text: fields, notes, attachments, pictures, codes."""

from __future__ import annotations

import zlib

import pytest

from tests.content.pages import value
from tests.content.pdfmaker import annotated, pdf, widget
from tests.content.test_pdf import LETTER, PICTURE, read, tesseract
from tools.bench.pdf_file import pdf_file

__all__ = ["tesseract"]  # a fixture

TICKS = "/AP << /N << /{0} 90 0 R /Off 90 0 R >> >> /AS /{1} /V /{1}"
EMPTY_FORM = b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 0 >>\nstream\n\nendstream"


def text_of(body: bytes, **changes) -> str:
    return value(read(body, **changes), "markdown")


def losses_of(body: bytes, **changes) -> dict[str, dict]:
    return {row["kind"]: row for row in read(body, **changes).losses}


@pytest.fixture
def no_tesseract(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))


def test_values_of_fields_stand_after_their_labels():
    body = annotated(
        [
            (72, 740, 11, "The boat is registered by its owner."),
            (72, 700, 11, "Name:"),
            (320, 700, 11, "Berth:"),
            (72, 660, 11, "Country"),
            (72, 620, 11, "Remarks"),
            (72, 560, 11, "Signed at the harbour."),
        ],
        widget("Tx", "berth", (370, 696, 420, 712), "/V (B 12)"),
        widget("Tx", "name", (120, 696, 300, 712), "/V (Ada Lovelace)"),
        widget(
            "Ch",
            "country",
            (140, 656, 300, 672),
            "/Ff 131072 /Opt [[(gb) (Great Britain)] [(fr) (France)]] /V (gb)",
        ),
        widget("Tx", "remarks", (72, 580, 400, 614), "/V (Needs\\na long pier.)"),
        widget("Tx", "empty", (420, 580, 500, 614)),
    )
    assert text_of(body) == (
        "The boat is registered by its owner.\n\nName: Ada Lovelace Berth: B 12\n\n"
        "Country Great Britain\n\nRemarks\n\nNeeds a long pier.\n\nSigned at the harbour."
    )
    assert losses_of(body) == {}


def test_a_value_that_the_page_shows_is_not_repeated():
    body = annotated(
        [(72, 700, 11, "Name:"), (120, 700, 11, "Ada Lovelace")],
        widget("Tx", "name", (118, 696, 300, 712), "/V (Ada Lovelace)"),
    )
    assert text_of(body) == "Name: Ada Lovelace"


def test_a_value_stands_on_its_line_of_underscores():
    body = annotated(
        [(72, 700, 11, "Name: ______________________ of the crew")],
        widget("Tx", "name", (110, 698, 230, 712), "/V (Ada)"),
    )
    assert text_of(body) == "Name: Ada of the crew"


def test_checkboxes_and_radio_buttons_are_ticked_at_their_position():
    body = annotated(
        [
            (90, 700, 11, "Sails"),
            (90, 686, 11, "Oars"),
            (90, 660, 11, "Small"),
            (190, 660, 11, "Large"),
        ],
        widget("Btn", "sails", (72, 698, 84, 710), TICKS.format("Yes", "Yes")),
        widget("Btn", "oars", (72, 684, 84, 696), TICKS.format("Yes", "Off")),
        widget(
            "Btn", "small", (72, 658, 84, 670), "/Ff 32768" + TICKS.format("s", "Off")
        ),
        widget(
            "Btn", "large", (172, 658, 184, 670), "/Ff 32768" + TICKS.format("l", "l")
        ),
        widget("Btn", "alone", (72, 500, 84, 512), TICKS.format("Insured", "Insured")),
        widget("Btn", "push", (72, 400, 84, 412), "/Ff 65536"),
        objects=[EMPTY_FORM],
    )
    assert text_of(body) == (
        "[x] Sails\n\n[ ] Oars\n\n[ ] Small [x] Large\n\n[x] Insured"
    )


def test_fields_of_a_grid_are_a_table():
    texts = [(72, 700, 10, "Item"), (200, 700, 10, "Number"), (300, 700, 10, "Price")]
    fields = []
    for n, row in enumerate((("Rope", "2", "3.50"), ("Sail", "1", "80.00"))):
        y = 680 - 20 * n
        fields += [
            widget("Tx", f"{n}{k}", (x, y, x + 60, y + 14), f"/V ({cell})")
            for k, (x, cell) in enumerate(zip((72, 200, 300), row, strict=True))
        ]
    assert text_of(annotated(texts, *fields)) == (
        "| Item | Number | Price |\n| --- | --- | --- |\n| Rope | 2 | 3.50 |\n"
        "| Sail | 1 | 80.00 |"
    )


def test_free_notes_are_text_and_other_notes_are_recorded():
    body = annotated(
        [(72, 700, 11, "High water comes at four."), (72, 500, 11, "Low at ten.")],
        "/Subtype /FreeText /Rect [72 600 300 620] /Contents (Not on Sundays.) "
        "/DA (/Helv 10 Tf)",
        "/Subtype /Text /Rect [300 700 320 720] /Contents (Check this again.)",
        "/Subtype /Highlight /Rect [72 500 120 512] /Contents (Is it ten?)",
        "/Subtype /Highlight /Rect [72 500 120 512]",
        "/Subtype /Stamp /Rect [72 300 120 312] /Name /Approved",
        "/Subtype /Popup /Rect [72 300 120 312] /Contents (Check this again.)",
        "/Subtype /Text /F 2 /Rect [300 700 320 720] /Contents (Hidden.)",
    )
    assert (
        text_of(body) == "High water comes at four.\n\nNot on Sundays.\n\nLow at ten."
    )
    row = losses_of(body)["annotation"]
    assert row["count"] == 3
    assert row["texts"] == ["Check this again.", "Is it ten?", "Approved"]


def test_attachments_are_recorded_by_name():
    file = (
        b"<< /Type /Filespec /F (heights.csv) /UF (heights.csv) /EF << /F 91 0 R >> >>"
    )
    body = annotated(
        LETTER,
        catalogue="/Names << /EmbeddedFiles << /Names [(heights.csv) 90 0 R] >> >>",
        objects=[file, b"<< /Type /EmbeddedFile /Length 1 >>\nstream\nx\nendstream"],
    )
    row = losses_of(body)["embeddedDocument"]
    assert (row["count"], row["texts"]) == (1, ["heights.csv"])


def test_a_form_in_xfa_is_recorded_and_warned_of():
    xfa = b"<< /Length 9 >>\nstream\n<xdp></xd\nendstream"
    body = annotated(
        [(72, 700, 11, "Please wait... If this message is not replaced, upgrade.")],
        catalogue="/AcroForm << /Fields [] /XFA 90 0 R >>",
        objects=[xfa],
    )
    content = read(body)
    assert "XFA" in content.warnings[0]
    assert [row["kind"] for row in content.losses] == ["formField"]


def test_pages_beyond_the_limit_are_a_loss_with_both_numbers():
    row = losses_of(pdf([LETTER] * 9), max_pages=2)["truncated"]
    assert row["count"] == 1
    assert "maxPages is 2: 2 of the 9 pages" in row["reason"]
    assert losses_of(pdf([LETTER] * 2), max_pages=2) == {}


def image(width: int, height: int) -> list[bytes]:
    data = zlib.compress(b"\x80" * 4)
    head = (
        b"<< /Type /XObject /Subtype /Image /Width 2 /Height 2 /ColorSpace /DeviceGray "
    )
    stream = (
        b"/BitsPerComponent 8 /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream"
    )
    return [
        b"q %d 0 0 %d 72 100 cm /I1 Do Q" % (width, height),
        head + stream % (len(data), data),
    ]


def test_a_scan_is_unreadable_text_without_the_program(no_tesseract):
    drawn, stream = image(600, 780)
    row = losses_of(annotated([drawn], objects=[stream]))["unreadableText"]
    assert row["count"] == 1
    assert row["reason"].startswith("Page 1 of the PDF: no text layer;")
    assert "tesseract" in row["reason"]
    assert losses_of(annotated([])) == {}


def test_a_scan_that_is_recognised_is_no_loss(tesseract):
    drawn, stream = image(600, 780)
    body = annotated(
        [drawn],
        widget("Tx", "name", (110, 698, 230, 712), "/V (Ada)"),
        widget("Btn", "a", (72, 500, 84, 512), TICKS.format("Insured", "Insured")),
        objects=[stream],
    )
    assert text_of(body) == f"{PICTURE}\n\nAda\n\n[x] Insured"
    assert losses_of(body) == {}


def test_a_page_that_cannot_be_recognised_is_unreadable(tesseract, tmp_path):
    (tmp_path / "tesseract").write_text("#!/bin/false")
    row = losses_of(pdf([[], LETTER]))["unreadableText"]
    assert row["reason"] == "Page 1 of the PDF could not be read."


@pytest.mark.parametrize(
    ("size", "count"), [((300, 300), 1), ((60, 60), 0), ((600, 780), 0)]
)
def test_figures_are_recorded_by_their_size(size, count):
    drawn, stream = image(*size)
    losses = losses_of(annotated([*LETTER, drawn], objects=[stream]))
    assert losses.get("image", {}).get("count", 0) == count


PROSE = (
    "The harbour master looks at the tables in the morning and tells the pilots when the "
    "water is high. In the evening the boats come back from the sea, and the men carry "
    "the fish to the hall, where it is weighed and sold before the sun goes down. "
) * 2


def caesar(text: str, places: int) -> str:
    return "".join(
        chr((ord(c) - base + places) % 26 + base)
        if c.isascii() and c.isalpha() and (base := 97 if c.islower() else 65)
        else c
        for c in text
    )


def shifted(text: str, places: int) -> str:
    return " ".join("".join(chr(ord(c) + places) for c in w) for w in text.split())


CODES = {
    "an alphabet of other letters": caesar(PROSE, 3),
    "another alphabet": caesar(PROSE, 22),
    "codes of glyphs": shifted(PROSE, -29).replace("\x11", "q").replace("\x0f", "s"),
}


def page_of(text: str) -> list:
    words = text.split()
    rows = [" ".join(words[n : n + 12]) for n in range(0, len(words), 12)]
    return [(72, 740 - 14 * n, 10, row) for n, row in enumerate(rows)]


@pytest.mark.parametrize("text", CODES.values(), ids=CODES)
def test_a_text_layer_of_codes_instead_of_letters_is_reported(text, no_tesseract):
    content = read(pdf([LETTER, page_of(text)]))
    (row,) = content.losses
    assert row["kind"] == "unreadableText"
    assert row["reason"].startswith("Page 2 of the PDF: the text layer has the codes")
    assert content.warnings == (row["reason"],)


def test_a_text_layer_of_codes_is_recognised_by_ocr(tesseract):
    content = read(pdf([page_of(caesar(PROSE, 3))]))
    assert value(content, "markdown") == PICTURE
    assert content.losses == ()
    assert content.warnings == ()


LANGUAGES = {
    "Finnish": "Sataman vartija katsoo aamulla taulukoita ja kertoo luotseille milloin "
    "vesi nousee korkealle. Illalla veneet palaavat merelta ja miehet kantavat kalat "
    "halliin missa ne punnitaan ennen auringon laskua. Sitten kaikki kotiin syomaan. ",
    "Welsh": "Mae ceidwad yr harbwr yn edrych ar y tablau bob bore ac yn dweud wrth y "
    "peilotiaid pryd fydd y llanw yn uchel. Gyda'r nos daw'r cychod adref ac mae'r "
    "dynion yn cludo'r pysgod i'r neuadd lle cant eu pwyso cyn i'r haul fachlud. ",
    "Czech without accents": "Spravce pristavu rano hledi do tabulek a rika lodivodum "
    "kdy bude voda vysoko. Vecer se lode vraceji a muzi nosi ryby do haly, kde je "
    "zvazi drive nez zapadne slunce. Pak jdou vsichni domu a vitr utichne. ",
    "Swahili": "Mkuu wa bandari huangalia majedwali asubuhi na kuwaambia marubani wakati "
    "maji yatakapojaa. Jioni mashua hurudi kutoka baharini na wanaume hubeba samaki "
    "hadi ukumbini ambako hupimwa kabla ya jua kutua. Kisha wote huenda nyumbani. ",
    "Latin": "Custos portus mane tabulas spectat et gubernatoribus nuntiat quando aqua "
    "alta sit. Vespere naves redeunt et viri pisces ad forum portant ubi pensantur "
    "ante solis occasum. Deinde omnes domum eunt ut cenent et dormiant. ",
}
OTHERS = {
    "code": "int strncmp(const char *src, char *dst) { struct ptr *tmp = ctx->buf; "
    "if (!tmp) return NULL; memcpy(dst, src, len); kfree(tmp); str = cfg->hdr; } ",
    "numbers": "12.40 3.50 17 2024 88.1 1,204.00 7 99 0.003 14:30 ",
    "parts": "BXK-4471 PCB-RVT 12 SCRW-M4 FLNG-HTR QTY 3 GSKT NBR-70 BRKT-LH ",
    "DNA": "ACGTTGCA GGCTTAAC CCGATTGG TTAGCCAT AACCGGTT GATTACAG ",
    "proteins": "MKTWQLVLCG HSPRNEDFYK GHTRWQPLVD SNKCFMYETG PLHWRQSDKV ",
    "hexadecimal": "deadbeef 00ff17 c0ffee 9b1d bada55 feedface 41 7f454c46 ",
    "abbreviations": "NW SSW mph kts hPa mbar rh pct dwpt vsby sct bkn ovc brk cld ",
}


@pytest.mark.parametrize("text", (LANGUAGES | OTHERS).values(), ids=LANGUAGES | OTHERS)
def test_languages_and_lists_are_no_codes(text, no_tesseract):
    content = read(pdf([page_of(text * 4)]))
    assert content.losses == ()
    assert content.warnings == ()


def test_many_fields_among_many_lines_are_read_in_time():
    texts = [(72, 780 - n % 70 * 11, 9, f"Line {n}") for n in range(1500)]
    fields = [
        widget("Tx", f"f{n}", (200, 9 * n, 300, 9 * n + 8), f"/V (value {n})")
        for n in range(80)
    ]
    found = text_of(annotated(texts, *fields))
    assert "value 79" in found


def test_damaged_fields_are_no_error():
    body = annotated(
        LETTER,
        "/Subtype /Widget /FT /Tx /T (a) /V 12 /Rect [1]",
        "/Subtype /Widget /FT /Ch /T (b) /V [(x) (y)] /Opt 3",
        "/Subtype /Widget /FT /Btn /T (c) /AP 3",
        "/Subtype /FreeText /Contents 7",
        "/Subtype /FileAttachment /FS (x)",
        "/Subtype 4",
        catalogue="/Names << /EmbeddedFiles 3 >>",
    )
    assert "Tide tables" in text_of(body)
    assert (
        text_of(
            pdf_file(
                [
                    b"<< /Type /Catalog /Pages 2 0 R /AcroForm 7 >>",
                    b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
                    b"<< /Type /Page /Parent 2 0 R >>",
                ]
            )
        )
        == ""
    )


def test_values_stand_after_their_labels_on_turned_pages():
    turned = b"0 1 -1 0 612 0 cm"
    body = annotated(
        [turned, (72, 500, 11, "Name of the boat:"), (72, 400, 11, "Second line.")],
        widget("Tx", "name", (100, 170, 116, 300), "/V (Ada)"),
    )
    assert text_of(body) == "Name of the boat: Ada\n\nSecond line."
