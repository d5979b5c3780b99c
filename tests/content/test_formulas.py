"""Formulas: each is TeX in the Markdown, or a loss."""

from __future__ import annotations

import pytest

from tests.content.pages import convert, markdown, value

MATHJAX = "<script src=https://cdn.example/npm/mathjax@3/es5/tex-chtml.js></script>"
SINGLE = (
    r"<script>MathJax = {tex: {inlineMath: [['$', '$'], ['\\(', '\\)']]}};</script>"
)


def _mi(code: str) -> str:
    return f"<mjx-mi class='mjx-i'><mjx-c class='mjx-c{code} TEX-I'></mjx-c></mjx-mi>"


def _mo(code: str) -> str:
    return f"<mjx-mo class='mjx-n'><mjx-c class='mjx-c{code}'></mjx-c></mjx-mo>"


def _chtml(inner: str, attributes: str = "") -> str:
    return (
        f"<mjx-container class=MathJax jax=CHTML {attributes}><mjx-math class=' MJX-TEX'>"
        f"{inner}</mjx-math></mjx-container>"
    )


def _svg(inner: str) -> str:
    return (
        "<mjx-container class=MathJax jax=SVG><svg><defs></defs><g stroke=currentColor>"
        f"<g data-mml-node=math>{inner}</g></g></svg></mjx-container>"
    )


def _node(name: str, code: str, place: str = "") -> str:
    return f"<g data-mml-node={name} transform='{place}'><use data-c={code}></use></g>"


SQUARE = (
    f"<mjx-msup>{_mi('1D465')}<mjx-script style='vertical-align: 0.36em'><mjx-mn class=mjx-n>"
    "<mjx-c class=mjx-c32></mjx-c></mjx-mn></mjx-script></mjx-msup>"
)
ROOT = (
    f"<mjx-msqrt><mjx-sqrt><mjx-surd>{_mo('221A')}</mjx-surd><mjx-box>{_mi('1D70B')}"
    "</mjx-box></mjx-sqrt></mjx-msqrt>"
)
FRACTION = (
    f"<mjx-mfrac><mjx-frac><mjx-num><mjx-nstrut></mjx-nstrut>{_mi('1D44E')}</mjx-num>"
    "<mjx-dbox><mjx-dtable><mjx-line></mjx-line><mjx-row><mjx-den><mjx-dstrut></mjx-dstrut>"
    f"{ROOT}</mjx-den></mjx-row></mjx-dtable></mjx-dbox></mjx-frac></mjx-mfrac>"
)
SUM = (
    f"<mjx-munderover><mjx-over>{_mi('1D45B')}</mjx-over><mjx-box><mjx-munder><mjx-row>"
    f"<mjx-base>{_mo('2211')}</mjx-base></mjx-row><mjx-row><mjx-under><mjx-TeXAtom>"
    f"{_mi('1D456')}{_mo('3D')}{_mi('1D457')}</mjx-TeXAtom></mjx-under></mjx-row></mjx-munder>"
    "</mjx-box></mjx-munderover>"
)
TWO_SCRIPTS = (
    f"<mjx-msubsup>{_mi('1D434')}<mjx-script>{_mi('1D458')}<mjx-spacer></mjx-spacer>"
    f"{_mi('1D45A')}</mjx-script></mjx-msubsup>"
)
MATRIX = (
    "<mjx-mtable><mjx-table><mjx-itable><mjx-mtr>"
    f"<mjx-mtd>{_mi('1D44E')}<mjx-tstrut></mjx-tstrut></mjx-mtd><mjx-mtd>{_mi('1D44F')}"
    f"</mjx-mtd></mjx-mtr><mjx-mtr><mjx-mtd>{_mi('1D450')}</mjx-mtd><mjx-mtd>{_mi('1D451')}"
    "</mjx-mtd></mjx-mtr></mjx-itable></mjx-table></mjx-mtable>"
)
CUBE_ROOT = (
    "<g data-mml-node=mroot><g transform='translate(800,0)'>"
    f"{_node('mi', '1D466')}</g>{_node('mn', '33', 'translate(200,400) scale(0.5)')}"
    f"{_node('mo', '221A')}<rect></rect></g>"
)
POWER = (
    f"<g data-mml-node=msubsup>{_node('mi', '211D')}{_node('mn', '32', 'translate(6,363)')}"
    f"{_node('mi', '1D456', 'translate(6,-247) scale(0.7)')}</g>"
)

WRITTEN = {
    "chtml": (
        f"<p>It is {_chtml(SQUARE + _mo('3D') + FRACTION)} there.",
        r"It is $x^{2} = \frac{a}{\sqrt{\pi}}$ there.",
    ),
    "chtml, displayed": (
        "<p>a" + _chtml(SUM + TWO_SCRIPTS, "display=true"),
        ("a\n\n$$\\sum_{i = j}^{n} A_{m}^{k}$$"),
    ),
    "matrix in chtml": (
        _chtml(MATRIX),
        r"$\begin{matrix} a & b \\ c & d \end{matrix}$",
    ),
    "chtml of MathJax 4": (
        _chtml(f"<mjx-mrow data-latex='x_1 * y'>{_mi('1D465')}</mjx-mrow>"),
        "$x_1 * y$",
    ),
    "svg": (
        "<p>a " + _svg(POWER + _node("mo", "2264") + CUBE_ROOT),
        r"a $\mathbb{R}_{i}^{2} \le \sqrt[3]{y}$",
    ),
    "fraction in svg": (
        _svg(
            f"<g data-mml-node=mfrac>{_node('mn', '31')}{_node('mn', '32')}<rect></rect></g>"
        ),
        r"$\frac{1}{2}$",
    ),
    "attributes": (
        ("<p>a <span class=ql-formula data-value='e=mc^2'>e</span> <i data-tex='a_1*b*'></i>"
        " <b data-latex='\\(q\\)'>q</b><div data-katex='\\frac12'>?</div>"),
        ("a $e=mc^2$ *$a_1*b*$* **$q$**\n\n$$\\frac12$$"),
    ),
    "attributes of other things": (
        "<p data-math=true data-formula='=SUM(A1)'>a <b data-value=4>b</b>",
        "a **b**",
    ),
    "mathml in an attribute": (
        ("<p>a <img class=Wirisformula src=a.png alt='x squared' data-mathml="
        "'«math»«msup»«mi»x«/mi»«mn»2«/mn»«/msup»«/math»'>"),
        "a $x^{2}$",
    ),
    "pictures with the TeX in their URL": (
        ("<p>a <img src='https://latex.codecogs.com/svg.image?\\inline&amp;space;"
        "\\frac{a}{b}&amp;space;&plus;1' alt=equation>"
        "<img src='https://s0.wp.com/latex.php?latex=x%5E2+%2B+1&bg=fff&s=0'>"
        "<img src='https://chart.googleapis.com/chart?cht=tx&chl=x_%7B1%7D'>"
        "<img src='data:image/gif;base64,R0lG' data-src="
        "'https://latex.codecogs.com/gif.latex?q%5E2'>"
        "<img src='https://i.upmath.me/svg/%5Calpha'>"),
        r"a $\frac{a}{b} +1$$x^2 + 1$$x_{1}$$q^2$$\alpha$",
    ),
    "pictures with the TeX as their text": (
        ("<p>a <img src=http://mathurl.com/ab.png alt='\\(y_1\\)'> <img class=tex alt=z src=z>"
        "<p><img src=/ql-cache/quicklatex.com-ab.png class=ql-img-displayed-equation alt='\\[b\\]'"
        "><p><img src=https://wikimedia.org/api/rest_v1/media/math/render/svg/ab"
        " alt='{\\displaystyle c^2}'>"),
        "a $y_1$ $z$\n\n$$b$$\n\n$c^2$",
    ),
    "delimiters": (
        MATHJAX + "<p>a \\(x_1 &lt; *y*  z\\) and $$\\frac a b_1*$$<p>\\[c [d](e) _f_\\]",
        "a $x_1 < *y*  z$ and\n\n$$\\frac a b_1*$$\n\n$$c [d](e) _f_$$",
    ),
    "lines of an environment": (
        MATHJAX + "<p>\\begin{align}<br>\n a &amp;= b_1 \\\\[2pt]<br>\n  c &amp;= *d*\n"
        "\\end{align}",
        "$$\\begin{align}\n a &= b_1 \\\\[2pt]\n  c &= *d*\n\\end{align}$$",
    ),
    "line breaks around a formula": (
        MATHJAX + "<p>a<br>b \\(c_1\\)<br><b>d</b> \\(e\\)",
        "a  \nb $c_1$  \n**d** $e$",
    ),
    "declared dollars": (
        SINGLE + "<p>a $n$ and $a*b*c$, but $5 to $9 or $5-$10 and 5$, $x < 5 dollars$.",
        "a $n$ and $a*b*c$, but $5 to $9 or $5-$10 and 5$, $x < 5 dollars$.",
    ),
    "dollars that KaTeX renders": (
        ("<script>renderMathInElement(document.body, {delimiters: [{left: '$', right: '$'}]})"
        "</script><p>$a_1 [b](c)$"),
        "$a_1 [b](c)$",
    ),
    "dollars that nobody declares": (
        MATHJAX + "<p>a $x_1*b*$ for $5 or *six* $7 *",
        "a $x_1*b*$ for $5 or \\*six\\* $7 \\*",
    ),
    "script of KaTeX with its call": (
        ('<script src=/js/auto-render.min.js onload="renderMathInElement(document.body, '
        "{delimiters: [{left: '$', right: '$'}]})\"></script><p>$a, b*c*$"),
        "$a, b*c*$",
    ),
    "style sheet of KaTeX": ("<link href=/katex.css><p>\\(a*b*\\)", "$a*b*$"),
    "MathML with a prefix": (
        "<p>a <mml:math><mml:msup><mml:mi>x</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math>",
        "a $x^{2}$",
    ),
    "MathML in a script": (
        "<p>a <script type=math/mml><math><msup><mi>x</mi><mn>2</mn></msup></math></script>",
        "a $x^{2}$",
    ),
    "preview that MathJax has not replaced": (
        "<p>a <span class=MathJax_Preview>x + 1</span> b",
        "a x + 1 b",
    ),
    "code": (MATHJAX + "<p><code>\\(a_1\\)</code>", "`\\(a_1\\)`"),
    "classes of formulas": (
        ("<p><span class='math inline'>x_1*2*</span> <span class=math-container>$a_1*$</span> "
        "<math-renderer class=js-inline-math>$b_1*$</math-renderer> "
        "<code class='language-math math-inline'>\\alpha_1</code>"
        "<math-renderer class=js-display-math>$$c$$</math-renderer>"),
        "$x_1*2*$ $a_1*$ $b_1*$ $\\alpha_1$\n\n$$c$$",
    ),
    "KaTeX without MathML": (
        "<p>a <span class=katex><span class=katex-html><span>x+y</span></span></span>",
        "a $x+y$",
    ),
    "formulas in cells and lists": (
        SINGLE + "<ul><li>$$a\n+b$$</ul><table><tr><th>a<th>b<tr><td>$x_1$<td>$$y$$</table>",
        "- $$a\n  +b$$\n\n| a | b |\n| --- | --- |\n| $x_1$ | $y$ |",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_formulas_are_tex(page, expected):
    content = convert(page)
    assert value(content, "markdown") == expected
    assert content.losses == ()


LOST = {
    "a picture without a text": ("<img class=tex src=/a.png>", "/a.png", None),
    "a picture with a generic text": (
        "<img alt=equation src=/latex.codecogs.com/a.png>",
        "/latex.codecogs.com/a.png",
        "equation",
    ),
    "unknown structure": (
        _chtml("<mjx-mmultiscripts></mjx-mmultiscripts>", "aria-label='x over y'"),
        None,
        "x over y",
    ),
    "AsciiMath": ("<script type=math/asciimath>x/y</script>", None, "x/y"),
    "no characters": (_chtml("<mjx-mi></mjx-mi>"), None, None),
    "KaTeX without MathML": (
        "<span class=katex><span class=katex-html>x<span class=vlist>2</span></span></span>",
        None,
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("page", "url", "text"), LOST.values(), ids=LOST)
def test_a_formula_without_its_source_is_a_loss(page, url, text):
    content = convert(f"<p>Words before, {page} words behind.", "markdown", "images")
    [loss] = content.losses
    assert (loss["kind"], loss["count"]) == ("formula", 1)
    assert loss.get("urls") == ([f"https://site.example{url}"] if url else None)
    assert text is None or loss["texts"] == [text]
    assert value(content, "markdown") == "Words before, words behind."
    assert value(content, "images") == []


def test_many_delimiters_that_nothing_closes_take_linear_time():
    for part in ("\\(", "$$ ", "$x", "\\begin{a}", "\\begin{align}\\end{alig} "):
        assert markdown(f"{MATHJAX}<p>{part * 20_000}<p>end").endswith("end")


def test_formulas_of_main_content_stay():
    text = "<p>" + "Some words of main content stand here, and more follow. " * 9
    page = f"<main><h1>Title</h1>{text}{_chtml(SQUARE, 'display=true')}{text}</main>"
    assert "\n\n$$x^{2}$$\n\n" in markdown(page, only_main_content=True)
