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


def _chtml(inner: str, attributes: str = "") -> str:
    return (
        f"<mjx-container class=MathJax jax=CHTML {attributes}><mjx-math class=' MJX-TEX'>"
        f"{inner}</mjx-math></mjx-container>"
    )


WRITTEN = {
    "chtml of MathJax 4": (
        _chtml(f"<mjx-mrow data-latex='x_1 * y'>{_mi('1D465')}</mjx-mrow>"),
        "$x_1 * y$",
    ),
    "svg of MathJax 4, displayed": (
        ("<p>a<mjx-container jax=SVG display=true><svg data-latex='x^2'><defs></defs></svg>"
        "</mjx-container>"),
        "a\n\n$$x^2$$",
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
    "what MathJax drew, without MathML or TeX": (
        _chtml(f"<mjx-msup>{_mi('1D465')}</mjx-msup>", "aria-label='x squared'"),
        None,
        "x squared",
    ),
    "what MathJax drew, with empty MathML": (
        "<mjx-container title='x'><mjx-math></mjx-math><math></math></mjx-container>",
        None,
        "x",
    ),
    "KaTeX with empty MathML": (
        ("<span class=katex><span class=katex-mathml><math></math></span>"
        "<span class=katex-html>x<span class=vlist>2</span></span></span>"),
        None,
        None,
    ),
    "AsciiMath": ("<script type=math/asciimath>x/y</script>", None, "x/y"),
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


def test_many_unclosed_formula_delimiters_take_linear_time():
    for part in ("\\(", "$$ ", "$x", "\\begin{a}", "\\begin{align}\\end{alig} "):
        assert markdown(f"{MATHJAX}<p>{part * 20_000}<p>end").endswith("end")


def test_formulas_of_main_content_stay():
    text = "<p>" + "Some words of main content stand here, and more follow. " * 9
    shown = _chtml(
        f"<mjx-mrow data-latex='x^{{2}}'>{_mi('1D465')}</mjx-mrow>", "display=true"
    )
    page = f"<main><h1>Title</h1>{text}{shown}{text}</main>"
    assert "\n\n$$x^{2}$$\n\n" in markdown(page, only_main_content=True)


def test_a_blank_annotation_leaves_the_mathml():
    note = "<annotation encoding=application/x-tex> </annotation>"
    page = f"<p>a <math><semantics><mi>z</mi>{note}</semantics></math> b"
    assert markdown(page) == "a $z$ b"


@pytest.mark.parametrize(
    ("mathml", "expected"),
    [
        ("<mfenced>x</mfenced>", "$x$"),
        ("<mfrac>1<mi>x</mi><mi>y</mi></mfrac>", "$1 x y$"),
        ("<msup><mi>x</mi>2<mi>y</mi></msup>", "$x 2 y$"),
        (
            "<mtable><mtr>x = 1</mtr><mtr><mtd>y</mtd></mtr></mtable>",
            "$\\begin{matrix} x = 1 \\\\ y \\end{matrix}$",
        ),
    ],
)
def test_text_that_mathml_forbids_stays(mathml, expected):
    assert markdown(f"<p>a <math>{mathml}</math> b") == f"a {expected} b"
