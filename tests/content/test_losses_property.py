"""Each part of a page stands in its Markdown or in its losses: never in neither or both."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from scraper_service.content.convert import make_content
from tests.content.officemaker import docx, paragraph, run
from tests.content.pages import options, source, value
from tests.content.pdfmaker import annotated, widget
from tests.content.test_document_parts import WP, maths, r
from tests.content.test_documents import read as read_document
from tests.content.test_pdf import read as read_pdf

MAX_PARTS = 5  # a loss has at most 5 texts
# Each part has its word once, as text, label, value or URL. All words differ.
PARTS = {
    "paragraph": "<p>The word {} is written here.",
    "heading": "<h2>About {}</h2>",
    "list": "<ul><li>one {}<li>two</ul>",
    "table": "<table><tr><th>name<th>size<tr><td>{}<td>4</table>",
    "spanning table": "<table><tbody><tr><td rowspan=0>north<td>{}<tr><td>nut</table>",
    "quotation": "<blockquote><p>Said by {}.</p></blockquote>",
    "code": "<pre><code class=language-python>{} = 1</code></pre>",
    "code with numbers": "<table class=highlight><tr><td class=blob-num "
    "data-line-number=1><td class=blob-code>{} = 1</table>",
    "diagram source": "<pre class=mermaid>graph TD\n  {} --> end</pre>",
    "rendered diagram": "<svg width=400 height=300><text>{} begins</text><text>then it "
    "ends</text></svg>",
    "canvas": "<canvas width=400 height=300 aria-label='Sales of {} by year'></canvas>",
    "formula": "<p>So <math><mi>{}</mi><mo>+</mo><mn>1</mn></math> holds.",
    "formula of TeX": "<script type='math/tex; mode=display'>\\alpha_{{{}}}</script>",
    "formula as a picture": "<p>So <img class=tex alt='{}^2' src=/latex.png> holds.",
    "formula without text": "<p>So <img class=tex alt='' "
    "src='https://latex.codecogs.com/png.image?{}'> holds.",
    "picture": "<p><img alt='A view' src=/pictures/{}.png>",
    "picture in its source": "<picture><source srcset=/pictures/{}.webp><img alt=View>"
    "</picture>",
    "picture in the page": "<p><img alt='Photo of {}' src='data:image/png;base64,"
    + "iVBORw0KGgo" * 60
    + "'>",
    "lazy picture": "<div><img class=lazy src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>"
    "<noscript><img src=/pictures/{}.jpg></noscript></div>",
    "video": "<video controls src=/films/{}.mp4></video>",
    "sound": "<audio controls src=/sounds/{}.mp3></audio>",
    "player": "<iframe src='https://www.youtube.com/embed/abcdefghijk' title='Film {}'>"
    "</iframe>",
    "frame": "<iframe width=600 height=400 src='https://maps.example/{}' title=Map></iframe>",
    "embedded document": "<embed src=/files/{}.pdf type=application/pdf>",
    "object": "<object data=/files/{}.pdf type=application/pdf></object>",
    "object with fallback": "<object data=/film.swf type=application/x-shockwave-flash>"
    "<p>The film shows {}.</p></object>",
    "panel of a tab": "<div role=tablist><button role=tab aria-controls=panel-{}>Tab"
    "</button></div><div role=tabpanel id=panel-{} hidden><p>In the tab: {}.</div>",
    "opened panel": "<button aria-expanded=false aria-controls=more-{}>More</button><p>So."
    "<div id=more-{} hidden><p>The words that it opens name {} too.</div>",
    "hidden part": "<div style='display:none'><p>These are some words that nobody can open, "
    "and they name {}.</div>",
    "details": "<details><summary>More</summary><p>Inside is {}.</details>",
    "shadow root": "<x-card><template shadowrootmode=open><p>In the shadow: {}.</template>"
    "</x-card>",
    "text field": "<p><label>Name <input type=text value='{}'></label>",
    "text area": "<p><label>Note <textarea>Text of {}</textarea></label>",
    "choice": "<p><label>Size <select><option>small<option selected>{}</select></label>",
    "output": "<p>The sum is <output>{}</output>.",
}
NAMES = st.sampled_from(sorted(PARTS))


def word(number):
    """Return a word of letters that is in no other word."""
    return f"zq{'abcdefghij'[number // 10]}{'abcdefghij'[number % 10]}qz"


def page_of(names, *, are_apart=True):
    """Return a page with the parts, and the word of each part."""
    words = [word(number) for number in range(len(names))]
    parts = [
        PARTS[name].replace("{{", "{").replace("}}", "}").replace("{}", own)
        for name, own in zip(names, words, strict=True)
    ]
    if are_apart:
        parts = [
            f"<p>Some text stands before part {number}.<section>{part}</section>"
            for number, part in enumerate(parts)
        ]
    body = "\n".join(["<p>Some text stands at the beginning.</p>", *parts])
    return f"<!doctype html><title>Parts</title><body>{body}</body>", words


def fates(names, **how):
    """Yield each part with whether its word is in the Markdown, and in the losses."""
    html, words = page_of(names, **how)
    content = make_content(source(html), options())
    markdown, lost = value(content, "markdown"), json.dumps(content.losses)
    for name, own in zip(names, words, strict=True):
        yield name, own in markdown, own in lost


@given(st.lists(NAMES, min_size=1, max_size=MAX_PARTS), st.booleans())
def test_each_part_is_in_the_markdown_or_in_the_losses(names, are_apart):
    found = fates(names, are_apart=are_apart)
    assert [fate for fate in found if fate[1] is fate[2]] == []


def test_each_part_alone_is_in_the_markdown_or_in_the_losses():
    wrong = [fate for name in PARTS for fate in fates([name]) if fate[1] is fate[2]]
    assert wrong == []


def test_each_loss_is_counted():
    names = [name for name in PARTS for _ in range(2)]
    html, _ = page_of(names)
    losses = make_content(source(html), options()).losses
    # The word of a removed picture is its alternative text, which stays.
    removed = "picture in the page"
    fate_of = fates(names[::2])
    lost = [name for name, _, is_lost in fate_of if is_lost or name == removed]
    assert sum(loss["count"] for loss in losses) == 2 * len(lost)
    assert [loss["kind"] for loss in losses] == sorted({x["kind"] for x in losses})


BOX = (
    f"<mc:AlternateContent {WP}><mc:Fallback><w:pict><v:rect><v:textbox><w:txbxContent>"
    "{}</w:txbxContent></v:textbox></v:rect></w:pict></mc:Fallback></mc:AlternateContent>"
)
WORD_PARTS = {
    "paragraph": lambda own: paragraph(f"The word {own} is written here."),
    "table": lambda own: (
        "<w:tbl><w:tr><w:tc>"
        + paragraph("name")
        + "</w:tc><w:tc>"
        + paragraph(own)
        + "</w:tc>"
        "</w:tr></w:tbl>"
    ),
    "formula": lambda own: f"<w:p>{run('So ')}{maths(r(own))}{run(' holds.')}</w:p>",
    "unknown formula": lambda own: (
        f"<w:p>{run('So ')}{maths('<m:knot>' + r(own) + '</m:knot>')}</w:p>"
    ),
    "object": lambda own: paragraph(
        run("See ")
        + f'<w:r><w:object {WP}><o:OLEObject ProgID="{own}"/></w:object></w:r>'
    ),
    "text box": lambda own: (
        f"<w:p>{run('By ')}<w:r>{BOX.format(paragraph(own))}</w:r></w:p>"
    ),
    "simple field": lambda own: (
        f'<w:p>{run("Table ")}<w:fldSimple w:instr=" SEQ T ">{run(own)}</w:fldSimple></w:p>'
    ),
    "control": lambda own: (
        f"<w:p>{run('It is ')}<w:sdt><w:sdtPr/><w:sdtContent>{run(own)}</w:sdtContent>"
        "</w:sdt></w:p>"
    ),
}


@given(st.lists(st.sampled_from(sorted(WORD_PARTS)), min_size=1, max_size=MAX_PARTS))
def test_each_part_of_a_word_document_is_in_the_markdown_or_in_the_losses(names):
    words = [word(number) for number in range(len(names))]
    parts = [WORD_PARTS[name](own) for name, own in zip(names, words, strict=True)]
    found = read_document(docx("".join(parts)))
    markdown, lost = value(found, "markdown"), json.dumps(found.losses)
    fates = [(own in markdown, own in lost) for own in words]
    assert [(n, f) for n, f in zip(names, fates, strict=True) if f[0] is f[1]] == []


PDF_PARTS = {
    "text": ((72, 11, "The word {} is written here."), None),
    "field": ((72, 11, "Name:"), ("Tx", "/V ({})")),
    "free note": (
        (72, 11, "Beside it:"),
        "/Subtype /FreeText /Contents (The note {} is here.)",
    ),
    "note": ((72, 11, "Beside it."), "/Subtype /Text /Contents (The note {} is here.)"),
}


@given(st.lists(st.sampled_from(sorted(PDF_PARTS)), min_size=1, max_size=MAX_PARTS))
def test_each_part_of_a_pdf_is_in_the_markdown_or_in_the_losses(names):
    words = [word(number) for number in range(len(names))]
    texts, notes = [], []
    for number, (name, own) in enumerate(zip(names, words, strict=True)):
        (left, size, text), note = PDF_PARTS[name]
        top = 740 - 60 * number
        texts.append((left, top, size, text.format(own)))
        box = (left + 100, top - 4, left + 300, top + 12)
        if isinstance(note, str):
            notes.append(f"{note.format(own)} /Rect [{' '.join(map(str, box))}]")
        elif note is not None:
            notes.append(widget(note[0], f"field{number}", box, note[1].format(own)))
    found = read_pdf(annotated(texts, *notes))
    markdown, lost = value(found, "markdown"), json.dumps(found.losses)
    fates = [(own in markdown, own in lost) for own in words]
    assert [(n, f) for n, f in zip(names, fates, strict=True) if f[0] is f[1]] == []
