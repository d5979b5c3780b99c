"""Parts of office files beside their text: formulas, charts, SmartArt, notes, objects."""

from __future__ import annotations

import pytest

from tests.content import officemaker
from tests.content.officemaker import docx, paragraph, run, with_parts
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
    return {row["kind"]: row for row in read(body).losses}


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
    assert content.losses == ()


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
        f"As shown:\n\n{TABLE}\n\n- Arrive\n- Moor\n  - Tie up\n\nThe end."
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


@pytest.mark.parametrize("inner", [CHOICE + FALLBACK, CHOICE, FALLBACK])
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
