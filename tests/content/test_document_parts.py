"""Parts of office files beside their text: formulas, charts, SmartArt, notes, objects."""

from __future__ import annotations

import io
import zipfile

import pytest

from tests.content import officemaker
from tests.content.officemaker import (
    docx,
    epub,
    odf,
    paragraph,
    pptx,
    row,
    run,
    with_parts,
)
from tests.content.pages import value
from tests.content.test_documents import markdown_of, read

M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
A = "http://schemas.openxmlformats.org/drawingml/2006"
WP = (
    f'xmlns:wp="{A}/wordprocessingDrawing" xmlns:a="{A}/main" xmlns:c="{A}/chart" '
    f'xmlns:dgm="{A}/diagram" xmlns:pic="{A}/picture" {MC} '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
    'xmlns:v="urn:schemas-microsoft-com:vml" xmlns:o="urn:schemas-microsoft-com:office:office"'
)


def losses_of(body: bytes) -> dict[str, dict]:
    return {found["kind"]: found for found in read(body).losses}


def r(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def e(text: str, name: str = "e") -> str:
    return f"<m:{name}>{text if text.startswith('<') else r(text)}</m:{name}>"


def tall(name: str, *parts: str, facts: str = "") -> str:
    return f"<m:{name}><m:{name}Pr>{facts}</m:{name}Pr>{''.join(parts)}</m:{name}>"


FORMULAS = {
    "fraction": (tall("f", e("a", "num"), e("b+1", "den")), r"\frac{a}{b+1}"),
    "flat fraction": (
        tall("f", e("a", "num"), e("b", "den"), facts='<m:type m:val="lin"/>'),
        "a/b",
    ),
    "power": (tall("sSup", e("x"), e("2", "sup")) + r("=y"), "x^{2}=y"),
    "index": (tall("sSub", e("ab"), e("n", "sub")), "{ab}_{n}"),
    "both": (
        tall("sSubSup", e("\u03b1"), e("n", "sub"), e("2", "sup")),
        r"\alpha_{n}^{2}",
    ),
    "root": (
        tall("rad", e("", "deg"), e("x"), facts='<m:degHide m:val="1"/>'),
        r"\sqrt{x}",
    ),
    "cube root": (tall("rad", e("3", "deg"), e("x")), r"\sqrt[3]{x}"),
    "sum": (
        tall(
            "nary",
            e("i=1", "sub"),
            e("n", "sup"),
            e(tall("sSub", e("x"), e("i", "sub"))),
            facts='<m:chr m:val="∑"/>',
        ),
        r"\sum_{i=1}^{n} x_{i}",
    ),
    "integral": (
        tall("nary", e("0", "sub"), e("∞", "sup"), e("f(x)dx")),
        r"\int_{0}^{\infty} f(x)dx",
    ),
    "matrix": (
        tall(
            "d",
            e(
                "<m:m><m:mr><m:e>" + r("a") + "</m:e>" + e("b") + "</m:mr><m:mr>"
                + e("c") + e("d") + "</m:mr></m:m>"
            ),
            facts='<m:begChr m:val="["/><m:endChr m:val="]"/>',
        ),
        r"\begin{bmatrix} a & b \\ c & d \end{bmatrix}",
    ),
    "cases": (
        tall(
            "d",
            e("<m:eqArr>" + e("x, &amp;x&gt;0") + e("0, &amp;x≤0") + "</m:eqArr>"),
            facts='<m:begChr m:val="{"/><m:endChr m:val=""/>',
        ),
        r"\begin{cases} x, &x>0 \\ 0, &x\le 0 \end{cases}",
    ),
    "brackets": (
        tall("d", e(tall("f", e("1", "num"), e("2", "den")))),
        r"\left( \frac{1}{2} \right)",
    ),
    "function": (
        tall("func", e("sin", "fName"), e("θ")),
        r"\sin \theta",
    ),
    "limit": (
        tall("func", e(tall("limLow", e("lim"), e("x→0", "lim")), "fName"), e("f")),
        r"\lim_{x\to 0} f",
    ),
    "accent": (tall("acc", e("v"), facts='<m:chr m:val="⃗"/>'), r"\vec{v}"),
    "bar": (tall("bar", e("x"), facts='<m:pos m:val="top"/>'), r"\overline{x}"),
    "letters": (r("Δ≥Ω±\U0001d465\u2208\u211d"), r"\Delta \ge \Omega \pm x\in \mathbb{R}"),
    "words": ("<m:r><m:rPr><m:nor/></m:rPr><m:t>for all</m:t></m:r>", r"\text{for all}"),
    "braced": (
        tall("groupChr", e("a+b"), facts='<m:chr m:val="⏟"/>'),
        r"\underbrace{a+b}",
    ),
}  # fmt: skip


def maths(inner: str, name: str = "oMath") -> str:
    inner = f"<m:oMath>{inner}</m:oMath>" if name == "oMathPara" else inner
    return f"<m:{name} {M}>{inner}</m:{name}>"


@pytest.mark.parametrize(("source", "tex"), FORMULAS.values(), ids=FORMULAS)
def test_formulas_of_word_are_tex(source, tex):
    body = docx(f"<w:p>{run('Where ')}{maths(source)}{run(' holds.')}</w:p>")
    assert markdown_of(body) == f"Where ${tex}$ holds."
    assert losses_of(body) == {}


def test_formulas_of_their_own_are_displayed():
    shown = maths(FORMULAS["fraction"][0], "oMathPara")
    body = docx(paragraph("Before.") + f"<w:p>{shown}</w:p>" + paragraph("After."))
    assert markdown_of(body).split() == ["Before.", r"$$\frac{a}{b+1}$$", "After."]


def test_formulas_with_unknown_parts_are_recorded():
    body = docx(f"<w:p>{run('So ')}{maths('<m:knot>' + r('x') + '</m:knot>')}</w:p>")
    assert markdown_of(body) == "So"
    row = losses_of(body)["formula"]
    assert (row["count"], row["texts"]) == (1, ["x"])


def test_formulas_that_are_nested_deeply_are_recorded():
    source = r("x")
    for _ in range(45):
        source = f"<m:rad>{e(source)}</m:rad>"
    assert losses_of(docx(f"<w:p>{run('So ')}{maths(source)}</w:p>"))["formula"]


HIDE = '<w:style w:type="{}" w:styleId="{}"><w:name w:val="{}"/>{}<w:rPr>{}</w:rPr></w:style>'


def test_hidden_text_of_word_is_left_out():
    styles = HIDE.format("character", "H", "Hidden", "", "<w:vanish/>")
    styles += HIDE.format("paragraph", "P", "Below", '<w:basedOn w:val="H"/>', "")
    body = docx(
        paragraph(run("Seen ") + run("unseen ", "<w:vanish/>") + run("here."))
        + paragraph(
            run("By style ") + run("unseen", '<w:rStyle w:val="H"/>') + run(".")
        )
        + paragraph(run("unseen") + run("Shown.", '<w:vanish w:val="0"/>'), "P")
        + paragraph("The mark alone.", properties="<w:rPr><w:vanish/></w:rPr>")
        + paragraph("The last one.", properties="<w:rPr><w:del/></w:rPr>"),
        **{"styles.xml": f"<w:styles {officemaker.W}>{styles}</w:styles>"},
    )
    content = read(body)
    assert value(content, "markdown") == (
        "Seen here.\n\nBy style .\n\nShown.\n\nThe mark alone.\n\nThe last one."
    )
    (hidden,) = content.losses
    assert (hidden["kind"], hidden["count"]) == ("hiddenPart", 3)


CHART = (
    f'<c:chartSpace xmlns:c="{A}/chart" xmlns:a="{A}/main"><c:chart><c:title><c:tx><c:rich>'
    "<a:p><a:r><a:t>Heights</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea>"
    "<c:barChart>{}</c:barChart></c:plotArea></c:chart></c:chartSpace>"
)


def points(name: str, *values: str) -> str:
    found = "".join(
        f'<c:pt idx="{n}"><c:v>{v}</c:v></c:pt>' for n, v in enumerate(values)
    )
    return f"<c:{name}><c:strRef><c:strCache>{found}</c:strCache></c:strRef></c:{name}>"


def series(name: str, *values: str) -> str:
    label = points("tx", name) if name else ""
    return (
        f"<c:ser>{label}{points('cat', 'Pier', 'Mole')}{points('val', *values)}</c:ser>"
    )


TABLE = (
    "Heights\n\n|  | Low | High |\n| --- | --- | --- |\n| Pier | 0.4 | 2.4 |\n"
    "| Mole | 0.6 | 3.1 |"
)
SMART = (
    f'<dgm:dataModel xmlns:dgm="{A}/diagram" xmlns:a="{A}/main"><dgm:ptLst>'
    '<dgm:pt modelId="0" type="doc"/>{}</dgm:ptLst><dgm:cxnLst>{}</dgm:cxnLst>'
    "</dgm:dataModel>"
).format(
    "".join(
        f'<dgm:pt modelId="{n}"><dgm:t><a:p><a:r><a:t>{t}</a:t></a:r></a:p></dgm:t></dgm:pt>'
        for n, t in enumerate(("Arrive", "Moor", "Tie up"), 1)
    ),
    '<dgm:cxn srcId="0" destId="2" srcOrd="1"/><dgm:cxn srcId="0" destId="1" srcOrd="0"/>'
    '<dgm:cxn srcId="2" destId="3" srcOrd="0"/><dgm:cxn type="presOf" srcId="1" destId="0"/>',
)
BOTH = CHART.format(series("Low", "0.4", "0.6") + series("High", "2.4", "3.1"))


def drawing(inner: str) -> str:
    return (
        f"<w:drawing {WP}><wp:inline><wp:docPr id='1' name='x'/><a:graphic><a:graphicData>"
        f"{inner}</a:graphicData></a:graphic></wp:inline></w:drawing>"
    )


def drawn(inner: str) -> str:
    return f"<w:r>{drawing(inner)}</w:r>"


def test_charts_and_smart_art_of_word_are_tables_and_lists():
    body = docx(
        paragraph(run("As shown:") + drawn('<c:chart r:id="c1"/>'))
        + paragraph(drawn('<dgm:relIds r:dm="d1"/>'))
        + paragraph("The end."),
        ("c1", "chart", "charts/chart1.xml"),
        ("d1", "diagramData", "diagrams/data1.xml"),
    )
    body = with_parts(
        body, {"word/charts/chart1.xml": BOTH, "word/diagrams/data1.xml": SMART}
    )
    assert markdown_of(body) == (
        f"As shown:\n\n{TABLE}\n\n- Arrive\n- Moor\n- Tie up\n\nThe end."
    )
    assert losses_of(body) == {}


def test_charts_without_values_are_recorded_by_their_title():
    body = docx(
        paragraph(run("See") + drawn('<c:chart r:id="c1"/>')),
        ("c1", "chart", "charts/chart1.xml"),
    )
    body = with_parts(body, {"word/charts/chart1.xml": CHART.format("<c:ser/>")})
    row = losses_of(body)["chart"]
    assert (row["count"], row["texts"]) == (1, ["Heights"])
    missing = docx(paragraph(drawn('<c:chart r:id="c9"/>')))
    assert losses_of(missing)["chart"]["count"] == 1


BOX = f"<w:txbxContent>{paragraph('In the box.')}</w:txbxContent>"
CHOICE = f'<mc:Choice Requires="wps">{drawing(f"<wps:wsp><wps:txbx>{BOX}</wps:txbx></wps:wsp>")}</mc:Choice>'
FALLBACK = f"<mc:Fallback><w:pict><v:rect><v:textbox>{BOX}</v:textbox></v:rect></w:pict></mc:Fallback>"


@pytest.mark.parametrize(
    "inner",
    [CHOICE + FALLBACK, CHOICE, FALLBACK, FALLBACK.replace("v:rect", "v:oval")],
)
def test_text_boxes_of_word_stand_once_in_the_text(inner):
    body = docx(
        f"<w:p>{run('Beside it.')}<w:r><mc:AlternateContent {WP}>{inner}"
        "</mc:AlternateContent></w:r></w:p>"
    )
    assert markdown_of(body) == "Beside it.\n\nIn the box."


def test_fields_of_word_have_their_values():
    def simple(text: str) -> str:
        return f'<w:fldSimple w:instr=" SEQ Table ">{run(text)}</w:fldSimple>'

    choices = (
        '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result w:val="1"/>'
        '<w:listEntry w:val="low"/><w:listEntry w:val="high"/></w:ddList></w:ffData>'
        "</w:fldChar></w:r><w:r><w:instrText> FORMDROPDOWN </w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    ruby = (
        f"<w:r><w:ruby><w:rt>{run('nami')}</w:rt><w:rubyBase>{run('波')}</w:rubyBase>"
        "</w:ruby></w:r>"
    )
    control = f"<w:sdt><w:sdtPr/><w:sdtContent>{run(' Chosen.')}</w:sdtContent></w:sdt>"
    body = docx(
        f"<w:p>{run('Table ')}{simple('7')}{run(': tides are ')}{choices}{run('. ')}{ruby}"
        f"{control}</w:p>"
    )
    assert markdown_of(body) == "Table 7: tides are high. 波 (nami) Chosen."


def test_comments_of_word_are_text_and_objects_are_recorded():
    thing = f'<w:r><w:object {WP}><o:OLEObject ProgID="{{}}"/></w:object></w:r>'
    body = docx(
        paragraph(
            run("Text.")
            + '<w:r><w:commentReference w:id="0"/></w:r>'
            + thing.format("Excel.Sheet.12")
            + thing.format("Equation.3")
        )
        + f"<w:altChunk {officemaker.R} r:id='a1'/>",
        **{
            "comments.xml": f'<w:comments {officemaker.W}><w:comment w:id="0">'
            f"{paragraph('Is this so?')}</w:comment></w:comments>"
        },
    )
    assert markdown_of(body).endswith("#comment-0)\n\nComment [1]\n: Is this so?")
    losses = losses_of(body)
    assert losses["embeddedDocument"]["count"] == 2
    assert losses["embeddedDocument"]["texts"] == ["Excel.Sheet.12"]
    assert losses["formula"]["texts"] == ["Equation.3"]


def test_marks_of_a_document_itself_are_no_parts():
    fake = run("99999", '<w:rStyle w:val="ScraperPart"/>')
    assert markdown_of(docx(paragraph(run("Text. ") + fake))) == "Text."


SLIDE = (
    '<p:graphicFrame><a:graphic><a:graphicData xmlns:c="{A}/chart" '
    'xmlns:dgm="{A}/diagram">{inner}</a:graphicData></a:graphic></p:graphicFrame>'
)


def slide_frame(inner: str) -> str:
    return SLIDE.format(A=A, inner=inner)


def test_charts_and_smart_art_of_slides_are_tables_and_lists():
    body = pptx(
        officemaker.shape("title", "Tides")
        + slide_frame('<c:chart r:id="c1"/>')
        + slide_frame('<dgm:relIds r:dm="d1"/>'),
        links=(
            ("c1", "chart", "../charts/chart1.xml"),
            ("d1", "diagramData", "../diagrams/data1.xml"),
        ),
    )
    parts = {"ppt/charts/chart1.xml": BOTH, "ppt/diagrams/data1.xml": SMART}
    body = with_parts(body, parts)
    assert markdown_of(body) == (f"## Tides\n\n{TABLE}\n\n- Arrive\n- Moor\n- Tie up")
    assert losses_of(body) == {}


def test_formulas_of_slides_are_tex():
    inner = maths(FORMULAS["sum"][0], "oMathPara")
    a14 = "http://schemas.microsoft.com/office/drawing/2010/main"
    wrapped = f'<a:p><a14:m xmlns:a14="{a14}">{inner}</a14:m></a:p>'
    shape = officemaker.shape("body", "Heights:", wrapped)
    body = pptx(
        f'<mc:AlternateContent {MC}><mc:Choice Requires="a14">{shape}</mc:Choice>'
        f"<mc:Fallback>{officemaker.shape('body', 'a picture')}</mc:Fallback>"
        "</mc:AlternateContent>"
    )
    text = markdown_of(body)
    assert FORMULAS["sum"][1] in text
    assert "a picture" not in text


def test_parts_of_slides_without_text_are_recorded():
    film = (
        '<p:pic><p:nvPicPr><p:cNvPr id="1" name="tide.mp4"/><p:nvPr><a:videoFile/></p:nvPr>'
        "</p:nvPicPr></p:pic>"
    )
    bare = '<p:pic><p:nvPicPr><p:cNvPr id="2" name="x"/></p:nvPicPr></p:pic>'
    thing = slide_frame('<p:oleObj progId="Excel.Sheet.12"/>')
    body = pptx(
        officemaker.shape("title", "Tides") + film + bare + thing,
        "hidden" + officemaker.shape("title", "No"),
        links=(("k1", "comments", "../comments/comment1.xml"),),
    )
    said = "<p:cmLst {}><p:cm><p:text>Too late?</p:text></p:cm></p:cmLst>"
    body = with_parts(body, {"ppt/comments/comment1.xml": said.format(officemaker.P)})
    losses = losses_of(body)
    assert markdown_of(body) == "## Tides"
    assert losses["video"]["texts"] == ["tide.mp4"]
    assert losses["image"]["count"] == 1
    assert losses["embeddedDocument"]["texts"] == ["Excel.Sheet.12"]
    assert losses["annotation"]["texts"] == ["Too late?"]
    assert losses["hiddenPart"]["count"] == 1


def test_charts_of_workbooks_are_tables_and_comments_are_recorded():
    body = officemaker.xlsx(
        ("Tides", "visible", row(1, "a", "b")),
        ("Secret", "hidden", row(1, "no")),
        links=(
            ("d1", "drawing", "../drawings/drawing1.xml"),
            ("k1", "comments", "../comments1.xml"),
            ("o1", "package", "../embeddings/plan.docx"),
        ),
    )
    drawing_part = (
        f'<xdr:wsDr xmlns:xdr="{A}/spreadsheetDrawing" xmlns:a="{A}/main" '
        f'xmlns:c="{A}/chart" {officemaker.R}><a:graphic><a:graphicData>'
        '<c:chart r:id="c1"/></a:graphicData></a:graphic></xdr:wsDr>'
    )
    said = (
        f"<comments {officemaker.S}><commentList><comment><text><t>Is it so?</t></text>"
        "</comment></commentList></comments>"
    )
    body = with_parts(
        body,
        {
            "xl/drawings/drawing1.xml": drawing_part,
            "xl/drawings/_rels/drawing1.xml.rels": officemaker.relations(
                ("c1", "chart", "../charts/chart1.xml")
            ),
            "xl/charts/chart1.xml": BOTH,
            "xl/comments1.xml": said,
            "xl/embeddings/plan.docx": b"x",
        },
    )
    assert markdown_of(body) == (f"## Tides\n\n| a | b |\n| --- | --- |\n\n{TABLE}")
    losses = losses_of(body)
    assert losses["annotation"]["texts"] == ["Is it so?"]
    assert losses["embeddedDocument"]["texts"] == ["plan.docx"]
    assert losses["hiddenPart"]["count"] == 1


def test_shapes_of_workbooks_are_text_and_hidden_rows_and_pictures_are_recorded():
    hidden = row(2, "secret", "no").replace("<row ", '<row hidden="1" ')
    body = officemaker.xlsx(
        ("Tides", "visible", row(1, "a", "b") + hidden + row(3, "c", "d")),
        links=(("d1", "drawing", "../drawings/drawing1.xml"),),
    )
    shape = (
        "<xdr:sp><xdr:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></xdr:txBody></xdr:sp>"
    )
    described = 'descr="A pier"'
    pic = "<xdr:pic><xdr:nvPicPr><xdr:cNvPr {}/></xdr:nvPicPr></xdr:pic>"
    drawing = (
        f'<xdr:wsDr xmlns:xdr="{A}/spreadsheetDrawing" xmlns:a="{A}/main" {MC}>'
        f"<mc:AlternateContent><mc:Choice>{shape.format('Mind the gap')}</mc:Choice>"
        f"<mc:Fallback>{shape.format('Mind the gap')}</mc:Fallback></mc:AlternateContent>"
        f"{pic.format(described)}{pic.format('')}</xdr:wsDr>"
    )
    body = with_parts(body, {"xl/drawings/drawing1.xml": drawing})
    text = markdown_of(body)
    assert text.startswith(
        "## Tides\n\n| a | b |\n| --- | --- |\n| c | d |\n\nMind the gap"
    )
    assert text.count("Mind") == 1
    assert "A pier" in text
    losses = losses_of(body)
    assert losses["hiddenPart"]["texts"] == ["Tides"]
    assert "no description" in losses["image"]["reason"]


def test_shapes_of_opendocument_sheets_are_text_and_hidden_rows_are_recorded():
    cell = "<table:table-cell office:value-type='string'><text:p>{}</text:p></table:table-cell>"
    cells = cell.format("a") + cell.format("b")
    body = odf(
        "spreadsheet",
        "<table:table table:name='Tides'><table:shapes><draw:frame><draw:text-box>"
        "<text:p>Mind the gap</text:p></draw:text-box></draw:frame></table:shapes>"
        f"<table:table-row>{cells}</table:table-row>"
        f"<table:table-row table:visibility='collapse'>{cells}</table:table-row>"
        "</table:table>",
    )
    assert markdown_of(body) == ("## Tides\n\n| a | b |\n| --- | --- |\n\nMind the gap")
    assert losses_of(body)["hiddenPart"]["texts"] == ["Tides"]


def test_texts_in_all_shapes_of_opendocument_slides_are_read():
    shapes = ("rect", "ellipse", "line", "connector", "polygon", "caption")
    body = odf(
        "presentation",
        "<draw:page>"
        + "".join(f"<draw:{x}><text:p>In {x}</text:p></draw:{x}>" for x in shapes)
        + "</draw:page>",
    )
    expected = ["## Slide 1", *(f"In {shape}" for shape in shapes)]
    assert markdown_of(body).split("\n\n") == expected


def test_rows_and_columns_beyond_the_limits_are_recorded_with_both_numbers(monkeypatch):
    for module in ("sheets", "odf"):
        monkeypatch.setattr(f"scraper_service.content.documents.{module}.MAX_CELLS", 4)
    wide = officemaker.xlsx(
        ("S", "visible", "".join(row(n, "a", n) for n in range(1, 6)))
    )
    reason = losses_of(wide)["truncated"]["reason"]
    assert "4 cells: 2 of its 5 rows" in reason
    lines = "a,b\n" * 5
    text = read(lines, content_type="text/csv").losses[0]["reason"]
    assert (
        text
        == "The table was cut at the limit of 4 cells: 2 of its 5 rows were converted."
    )
    cell = "<table:table-cell office:value-type='string'><text:p>x</text:p></table:table-cell>"
    rows = f"<table:table-row>{cell * 2}</table:table-row>" * 5
    sheet = odf("spreadsheet", f'<table:table table:name="S">{rows}</table:table>')
    assert "2 of its 5 rows" in losses_of(sheet)["truncated"]["reason"]
    columns = ",".join(map(str, range(300))) + "\n"
    monkeypatch.undo()
    reason = read(columns * 3, content_type="text/csv").losses[0]["reason"]
    assert "200 columns: 200 of its 300 columns" in reason


MATHML = (
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mfrac><mi>a</mi><mi>b</mi>'
    '</mfrac><annotation encoding="StarMath 5.0">{a} over {b}</annotation></semantics></math>'
)


def framed(inner: str) -> str:
    return f"<draw:frame>{inner}</draw:frame>"


def test_objects_of_opendocument_texts():
    def thing(name: str) -> str:
        return framed(f'<draw:object xlink:href="./{name}"/><draw:image/>')

    cell = "<table:table-cell office:value-type='string'><text:p>{}</text:p></table:table-cell>"
    rows = "".join(
        f"<table:table-row>{cell.format(a)}{cell.format(b)}</table:table-row>"
        for a, b in (("Place", "High"), ("Pier", "2.4"))
    )
    chart = (
        f"<office:document-content {officemaker.O} "
        'xmlns:chart="urn:oasis:names:tc:opendocument:xmlns:chart:1.0"><office:body>'
        f"<office:chart><chart:chart><table:table>{rows}</table:table></chart:chart>"
        "</office:chart></office:body></office:document-content>"
    )
    body = odf(
        "text",
        f"<text:p>Where {thing('F')} holds<office:annotation><text:p>Really?</text:p>"
        f"</office:annotation>.</text:p><text:p>{thing('F')}</text:p>{thing('C')}"
        f"<text:p>{thing('Unknown')}{framed('<draw:image/>')}</text:p>",
    )
    body = with_parts(body, {"F/content.xml": MATHML, "C/content.xml": chart})
    assert markdown_of(body).split("\n\n") == [
        r"Where $\frac{a}{b}$ holds.",
        r"$$\frac{a}{b}$$",
        "| Place | High |\n| --- | --- |\n| Pier | 2.4 |",
    ]
    losses = losses_of(body)
    assert losses["annotation"]["texts"] == ["Really?"]
    assert losses["embeddedDocument"]["texts"] == ["Unknown"]
    assert losses["image"]["count"] == 1


def test_books_have_all_their_chapters_and_record_other_files():
    body = epub("<p>One.</p><video/><svg><title>A map</title></svg>", "<p>Two.</p>")
    package = "OEBPS/book.opf"
    with zipfile.ZipFile(io.BytesIO(body)) as source:
        text = source.read(package).decode()
    text = text.replace(
        '<itemref idref="c0"/>',
        '<itemref idref="c1" linear="no"/><itemref idref="c0"/><itemref idref="x"/>',
    ).replace('<itemref idref="c1"/>', "")
    text = text.replace(
        "</manifest>",
        '<item id="x" href="x.pdf" media-type="application/pdf"/></manifest>',
    )
    body = with_parts(body, {package: text})
    assert markdown_of(body) == "One.\n\nTwo."
    losses = losses_of(body)
    assert losses["embeddedDocument"]["texts"] == ["x.pdf"]
    assert losses["diagram"]["texts"] == ["A map"]
    assert losses["video"]["count"] == 1


def test_parts_of_rich_text_without_text_are_recorded():
    body = (
        r"{\rtf1\ansi Text.{\*\annotation{\*\atnref 1}Is it\par so?}"
        r"{\*\shppict{\pict 00}}{\nonshppict{\pict 00}}{\pict 00}"
        r"{\object\objemb{\*\objdata 00}{\result {\pict 00}}}"
        r"{\mmath{\*\moMath{\mr x}}} More.\par}"
    )
    content = read(body, content_type="text/rtf")
    assert value(content, "markdown") == "Text. More."
    losses = {found["kind"]: found for found in content.losses}
    assert losses["annotation"]["texts"] == ["Is it so?"]
    assert losses["image"]["count"] == 2
    assert losses["embeddedDocument"]["count"] == 1
    assert losses["formula"]["count"] == 1


def test_text_boxes_of_rich_text_stand_once_without_their_properties():
    box = (
        r"{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 202}}{\sp{\sn pib}{\sv {\pict 00}}}"
        r"{\shptxt Box.\par}}{\shprslt Box.\par}}"
    )
    content = read(
        rf"{{\rtf1\ansi Before.\par{box} After.\par}}", content_type="text/rtf"
    )
    assert value(content, "markdown") == "Before.\n\nBox.\n\nAfter."
    assert [found["kind"] for found in content.losses] == ["image"]


def test_hidden_rich_text_is_recorded_and_a_last_row_without_end_is_kept():
    body = (
        r"{\rtf1\ansi Text.{\v unseen}{\deleted gone} More.\par"
        r"\trowd\cellx100\cellx200\intbl a\cell b\cell\row"
        r"\trowd\cellx100\cellx200\intbl c\cell d}"
    )
    content = read(body, content_type="text/rtf")
    assert value(content, "markdown") == (
        "Text. More.\n\n| a | b |\n| --- | --- |\n| c | d |"
    )
    (hidden,) = content.losses
    assert (hidden["kind"], hidden["texts"]) == ("hiddenPart", ["unseen"])


HOSTILE = {
    "a chart of nothing": "<x/>",
    "no XML": "<",
    "a large number": CHART.format(
        '<c:ser><c:val><c:pt idx="99999999999999999999"><c:v>1</c:v></c:pt></c:val></c:ser>'
    ),
}


@pytest.mark.parametrize("part", HOSTILE.values(), ids=HOSTILE)
def test_damaged_charts_are_recorded(part):
    body = pptx(
        officemaker.shape("title", "Tides") + slide_frame('<c:chart r:id="c1"/>'),
        links=(("c1", "chart", "../charts/chart1.xml"),),
    )
    body = with_parts(body, {"ppt/charts/chart1.xml": part})
    assert markdown_of(body) == "## Tides"
    assert losses_of(body)["chart"]["count"] == 1


def test_smart_art_of_a_circle_ends():
    links = '<dgm:cxn srcId="0" destId="1"/><dgm:cxn srcId="1" destId="0"/>'
    model = SMART.replace("</dgm:cxnLst>", f"{links}</dgm:cxnLst>")
    body = pptx(
        slide_frame('<dgm:relIds r:dm="d1"/>'),
        links=(("d1", "diagramData", "../diagrams/data1.xml"),),
    )
    assert "Tie up" in markdown_of(with_parts(body, {"ppt/diagrams/data1.xml": model}))


def test_boxes_of_word_are_ticked():
    box = (
        '<w:sdt><w:sdtPr><w14:checkbox xmlns:w14="http://schemas.microsoft.com/office/word/'
        '2010/wordml"><w14:checked w14:val="{}"/></w14:checkbox></w:sdtPr><w:sdtContent>'
        f"{run('x')}</w:sdtContent></w:sdt>"
    )
    body = docx(
        f"<w:p>{box.format(1)}{run(' Sails')}</w:p><w:p>{box.format(0)}{run(' Oars')}</w:p>"
    )
    assert markdown_of(body) == "[x] Sails\n\n[ ] Oars"


def test_long_charts_are_cut_with_both_numbers():
    values = points("val", *map(str, range(5100)))
    body = pptx(
        slide_frame('<c:chart r:id="c1"/>'),
        links=(("c1", "chart", "../charts/chart1.xml"),),
    )
    chart = CHART.format(f"<c:ser>{values}</c:ser>")
    row = losses_of(with_parts(body, {"ppt/charts/chart1.xml": chart}))["truncated"]
    assert row["reason"] == "The limit is 5000 of the 5100 values of a series."
