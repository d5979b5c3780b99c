"""Markdown by feature: what is written for HTML beyond paragraphs, lists and links."""

from __future__ import annotations

import pytest

from tests.content.pages import convert, markdown, value

BASE = "https://site.example/dir/"

MATHS = {
    "TeX between dollars in the text": (
        "<p>a $$\\sum_{i=1}^n i_*$$ and $$x_{1}$$, $$ * 5 and 6",
        "a $$\\sum_{i=1}^n i_*$$ and $$x_{1}$$, $$ * 5 and 6",
    ),
    "mathml with its TeX": (
        (
            "<p>a <math><semantics><mi>x</mi><annotation encoding='application/x-tex'>x_1"
            "</annotation></semantics></math> b"
        ),
        "a $x_1$ b",
    ),
    "displayed mathml": (
        "a <math display=block><mi>x</mi><mo>=</mo><mn>1</mn></math> b",
        "a\n\n$$x = 1$$\n\nb",
    ),
    "mathml without TeX": (
        (
            "<math><mfrac><msup><mi>a</mi><mn>2</mn></msup><msqrt><mi>π</mi></msqrt></mfrac>"
            "<mo>≤</mo><msubsup><mo>∑</mo><mi>i</mi><mi>n</mi></msubsup></math>"
        ),
        "$\\frac{a^{2}}{\\sqrt{\\pi}} \\le \\sum_{i}^{n}$",
    ),
    "mathml with rare signs": (
        (
            "<math><mi>&#x3f5;</mi><mo>&#8810;</mo><mi>&#x1d400;</mi><mo>&#8728;</mo><mi>arcsin</mi><mtext></mtext>"
            "<mtext>5% of</mtext><msup><mi>x</mi><mo>&prime;</mo></msup>"
            "<mover><mi>y</mi><mo>&#x308;</mo></mover></math>"
        ),
        (r"$\epsilon \ll \mathbf{A} \circ \arcsin \text{5\% of} x^{\prime} \ddot{y}$"),
    ),
    "mathml in braces": (
        (
            "<math><mfenced open='{' close='}'><mi>x</mi><mi>y</mi></mfenced>"
            "<mfenced open='&#x27e8;' close=''><mi>z</mi></mfenced></math>"
        ),
        r"$\{x, y\} \langle z$",
    ),
    "matrix": (
        (
            "<math><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>"
            "<mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable></math>"
        ),
        "$\\begin{matrix} 1 & 2 \\\\ 3 & 4 \\end{matrix}$",
    ),
    "katex": (
        (
            "<p>a <span class=katex><span class=katex-mathml><math><semantics><mi>x</mi>"
            "<annotation encoding='application/x-tex'>x^2</annotation></semantics></math></span>"
            "<span class=katex-html aria-hidden=true>x2</span></span>."
        ),
        "a $x^2$.",
    ),
    "katex displayed": (
        (
            "<span class=katex-display><span class=katex><math><annotation "
            "encoding='application/x-tex'>y</annotation></math></span></span>"
        ),
        "$$y$$",
    ),
    "mathjax 2": (
        (
            "<p>a <span class=MathJax_Preview>p</span><span class=MathJax>drawn</span>"
            "<script type='math/tex'>x_1 < 2</script> b"
        ),
        "a $x_1 < 2$ b",
    ),
    "mathjax 2, displayed": (
        (
            "<div class=MathJax_Display><span class=MathJax>drawn</span></div>"
            "<script type='math/tex; mode=display'>x</script>"
        ),
        "$$x$$",
    ),
    "mathjax 3": (
        (
            "<mjx-container><mjx-math>d</mjx-math><mjx-assistive-mml><math><mi>x</mi></math>"
            "</mjx-assistive-mml></mjx-container>"
        ),
        "$x$",
    ),
    "TeX in the text": (
        "<p>a \\(x_1^2\\) and \\[y = *z*\\]",
        "a $x_1^2$ and $$y = *z*$$",
    ),
    "not TeX": ("<p>\\(group\\) in sed", "\\\\(group\\\\) in sed"),
    "formulas of Wikipedia": (
        "<img class=mwe-math-fallback-image-inline src=x.svg alt='{\\displaystyle x^{2}}'>",
        "$x^{2}$",
    ),
}

NOTES = {
    "footnotes": (
        (
            "<p>a<sup><a href='#fn1'>1</a></sup> b<sup><a href='#fn1'>1</a></sup>"
            "<ol><li id=fn1>Said by somebody. <a href='#r1'>↩</a></ol>"
        ),
        f"a[^1] b[^1]\n\n[^1]: Said by somebody. [↩]({BASE}page.html#r1)",
    ),
    "footnotes with paragraphs": (
        (
            "<p>a<a href='#fn:x' role=doc-noteref>[2]</a>"
            "<ol><li id=fn:x><p>It was said.<p>And heard.</ol>"
        ),
        "a[^2]\n\n[^2]: It was said.\n\n    And heard.",
    ),
    "a reference to nothing is a link": (
        "a<sup><a href='#fn1'>1</a></sup>",
        f"a[1]({BASE}page.html#fn1)",
    ),
    "footnotes among other items, which keep their numbers": (
        (
            "<p>a<sup><a href='#n2'>2</a></sup><ol><li id=n1>One.<li id=n2>Said by somebody."
            "<li id=n3>Three.</ol>"
        ),
        "a[^2]\n\n1. One.\n\n[^2]: Said by somebody.\n\n3. Three.",
    ),
    "references behind the notes, at the second one too": (
        (
            "<ol><li id=n1>Said by somebody.</ol><p>a<sup><a href='#n1'>1</a></sup>"
            "<ol><li id=n2>Said by another.</ol><p>b<sup><a href='#n2'>2</a></sup>"
        ),
        (
            f"1. Said by somebody.\n\na[1]({BASE}page.html#n1)\n\n"
            f"1. Said by another.\n\nb[2]({BASE}page.html#n2)"
        ),
    ),
    "a short note, which would be read as an address, stays an item": (
        "a<sup><a href='#n'>1</a></sup><ol><li id=n>Ibid.</ol>",
        f"a[1]({BASE}page.html#n)\n\n1. Ibid.",
    ),
    "callouts of GitHub": (
        (
            "<div class='markdown-alert markdown-alert-tip'><p class=markdown-alert-title>Tip"
            "</p><p>Do it.</p></div>"
        ),
        "> [!TIP]\n> Do it.",
    ),
    "callouts of Sphinx, with a list": (
        (
            "<div class='admonition warning'><p class=admonition-title>Warning</p><p>Do not."
            "<ul><li>a</ul></div>b"
        ),
        "> [!WARNING]\n> Do not.\n>\n> - a\n\nb",
    ),
    "a title which says more": (
        "<div class='admonition note'><p class=admonition-title>Mind this</p><p>Do.</div>",
        "> [!NOTE]\n> **Mind this**\n>\n> Do.",
    ),
    "definitions": (
        "<dl><dt>a<dd>one<dd>two<dt>b<dd><p>three<p>four</dl>",
        "a\n: one\n: two\n\nb\n: three\n\nfour",
    ),
    "a definition that is a list": ("<dl><dt>a<dd><ul><li>b</ul></dl>", "a\n\n- b"),
    "details": (
        "<details><summary>More</summary><p>text</p></details>",
        "More\n\ntext",
    ),
}

CODE = {
    name: (page, f"```{language}\nx\n```")
    for name, page, language in (
        ("highlight.js", "<pre><code class='hljs language-rust'>x</code></pre>", "rust"),
        ("highlight.js, bare", "<pre><code class='hljs python'>x</code></pre>", "python"),
        ("prism", "<pre class='line-numbers language-css'><code>x</code></pre>", "css"),
        ("prettify", "<pre class='prettyprint lang-java'>x</pre>", "java"),
        ("shiki", "<pre class=shiki data-language=ts><code>x</code></pre>", "ts"),
        ("rouge", ("<div class='language-ruby highlighter-rouge'><div class=highlight>"
         "<pre>x</pre></div></div>"), "ruby"),
        ("pygments", ("<div class='highlight-python notranslate'><div class=highlight>"
         "<pre>x</pre></div></div>"), "python"),
        ("github", "<div class='highlight highlight-source-shell'><pre>x</pre></div>", "shell"),
        ("github, lang", "<pre lang=go><code>x</code></pre>", "go"),
        ("mediawiki", "<div class='mw-highlight mw-highlight-lang-php'><pre>x</pre></div>", "php"),
        ("crayon", "<pre class='lang:sql decode:true'>x</pre>", "sql"),
        ("enlighter", "<pre data-enlighter-language=kotlin>x</pre>", "kotlin"),
        ("pandoc", "<pre class='sourceCode haskell'>x</pre>", "haskell"),
        ("none", "<pre class=language-plaintext>x</pre>", ""),
        ("not ASCII", "<pre><code class=language-föö>x</code></pre>", "föö"),
    )
} | {
    "lines that are elements": (
        "<pre><code><div class=line>a</div><div class=line>b</div></code></pre>",
        "```\na\nb\n```",
    ),
    "code of many lines": ("a <code>b<br>c</code> d", "a\n\n```\nb\nc\n```\n\nd"),
    "words side by side": ("<code>U+00DF</code><code>0x C3</code>", "`U+00DF` `0x C3`"),
    "spans side by side": ("<code>a</code><code>`b</code>", "``a`b``"),
    "keys side by side": ("<kbd>Ctrl</kbd><kbd>K</kbd>", "`Ctrl` `K`"),
    "space in code": ("a<code> b</code>", "a` b`"),
}  # fmt: skip

CODE |= {
    "lines drawn as blocks": (
        (
            "<pre class=language-js><code><span class=gatsby-highlight-code-line>a <b>+</b> 1</span>"
            "<span class=gatsby-highlight-code-line></span>"
            "<span class='gatsby-highlight-code-line'>b</span></code></pre>"
        ),
        "```js\na + 1\n\nb\n```",
    ),
    "lines with newlines between them": (
        "<pre><code><span class=line>a</span>\n<span class=line></span>\n<span data-line>b</span>",
        "```\na\n\nb\n```",
    ),
    "highlighted lines between others": (
        (
            "<pre><code>def f():\n<span class=gatsby-highlight-code-line>  a = 1</span><span class="
            "gatsby-highlight-code-line>  b = 2</span>  return a\n<i>g</i> <b>h</b> <span "
            "class=code-line>i</span>\n</code></pre>"
        ),
        "```\ndef f():\n  a = 1\n  b = 2\n  return a\ng h i\n```",
    ),
    "a part of a line that is called a line": (
        "<pre><code>a <span class=line>b</span> c\nd</code></pre>",
        "```\na b c\nd\n```",
    ),
    "numbers of lines": (
        (
            "<pre><span class=line><span class='line-number'>1</span>a</span><span class=line>"
            "<span class='line-number'>2</span>b</span></pre>"
        ),
        "```\na\nb\n```",
    ),
    "numbers in a block of their own": (
        (
            "<table><tr><td><pre><code><span class=lnt>1\n</span><span class=lnt>2\n</span></code>"
            "</pre><td><pre><code class=language-c>a\nb</code></pre></table>"
        ),
        "```c\na\nb\n```",
    ),
    "numbers in cells": (
        (
            "<pre><code><table><tr><td class='hljs-ln-line hljs-ln-numbers'><div class=hljs-ln-n>1"
            "</div><td class='hljs-ln-line hljs-ln-code'>a<tr><td class='hljs-ln-numbers'><div>2"
            "</div><td class='hljs-ln-line hljs-ln-code'>b</table></code></pre>"
        ),
        "```\na\nb\n```",
    ),
    "what cannot be selected": (
        (
            "<pre><span style='user-select: none'>$ </span>ls\n"
            "<span class=select-none>$ </span>cd</pre>"
        ),
        "```\nls\ncd\n```",
    ),
}

TABLES = {
    "code, headings and quotations in cells, below a header": (
        (
            "<table><caption><h3>t</h3></caption><tr><th><h4>a</h4><th>b<tr><td><pre>x = 1\n\n y|z"
            "</pre>c<td><h3>d</h3><p>e</p><blockquote>f</blockquote></table>"
        ),
        (
            "### t\n\n| a | b |\n| --- | --- |\n"
            "| `x = 1`<br>` y\\|z`<br>c | **d**<br>e<br>f |"
        ),
    ),
    "code and headings in cells, without a header": (
        "<table><tr><td><pre>a</pre><td><h3>b</h3></table>",
        "```\na\n```\n\n### b",
    ),
    "sections of text in a cell": (
        "<table><tr><th>a<th>b<tr><td><h3>c</h3>d<h3>e</h3>f<h3>g</h3>h<h3>i</h3>j<h3>k</h3>l</table>",
        "a\n\nb\n\n### c\n\nd\n\n### e\n\nf\n\n### g\n\nh\n\n### i\n\nj\n\n### k\n\nl",
    ),
    "alignment": (
        "<table><tr><th align=right>a<th style='text-align: center'>b<tr><td>1<td>2</table>",
        "| a | b |\n| ---: | :---: |\n| 1 | 2 |",
    ),
    "one column with a header": (
        "<table><thead><tr><th>a</thead><tr><td>b</table>",
        "| a |\n| --- |\n| b |",
    ),
    "a list in a cell": (
        "<table><tr><th>a<th>b<tr><td><ul><li>c<li>d</ul><td>e</table>",
        "| a | b |\n| --- | --- |\n| c<br>d | e |",
    ),
    "code with a pipe in a cell": (
        "<table><tr><th>a<th>b<tr><td><code>c|d</code><td><b>e</b></table>",
        "| a | b |\n| --- | --- |\n| `c\\|d` | **e** |",
    ),
}

SPANS = {
    "pictures of emoji": (
        (
            "<p>a <img class=wp-smiley src=/x.svg alt=😀>b <img class='smilie emoji' src=x alt=👨‍👩‍👧>"
            "<img class=emoji src=x alt='no 😀'><img class=emoji src=x alt=OK><img src=x alt=😀>"
        ),
        f"a 😀b 👨‍👩‍👧![no 😀]({BASE}x) ![OK]({BASE}x) ![😀]({BASE}x)",
    ),
    "mail that Cloudflare hides, without marks in the link": (
        (
            "<a href='/cdn-cgi/l/email-protection#0160416c2f63'><i></i> <span>[email&nbsp;protected]"
            "</span></a> <a href='/cdn-cgi/l/email-protection#0160416c2f63'>[email&nbsp;protected]</a>"
        ),
        "[a@m.b](mailto:a@m.b) [a@m.b](mailto:a@m.b)",
    ),
    "words of different elements": (
        (
            "<p><strong>Ada (UK)</strong><span>Reviewed 1</span><p><b>un</b><span>happy</span>"
            "<p><span class=l>TESTED BY:</span><span>Ada</span> at <span>10:</span><span>30</span>"
        ),
        "**Ada (UK)** Reviewed 1\n\n**un**happy\n\nTESTED BY: Ada at 10:30",
    ),
    "notes in the text": (
        (
            "<p>a<sup>1</sup><span>a note</span> b<label></label><input type=checkbox id=i>"
            "<span class=sidenote>note</span> c <span>d</span><span role=tooltip>tip</span>"
            "<p>x<sup>2</sup><span>y</span> <a href=x>Some words</a><sup>1</sup>"
        ),
        (
            "a<sup>1</sup> a note b note c d tip\n\n"
            f"x<sup>2</sup>y [Some words]({BASE}x)<sup>1</sup>"
        ),
    ),
    "cells of spans": (
        (
            "<div role=table><div role=row><span role=columnheader>Size</span>"
            "<span role=columnheader>Price</span></div></div>"
        ),
        "Size Price",
    ),
    "the first paragraph and the first heading of a link are linked": (
        "<a href=x><img src=i alt=p><h2>a</h2><p>b</p><h3>c</h3></a><h3>d</h3>",
        f"[![p]({BASE}i)]({BASE}x)\n\n## [a]({BASE}x)\n\nb\n\n### c\n\n### d",
    ),
    "a link that begins with a heading": (
        "<a href=x><h2>a</h2><p>b</p><h3>c</h3></a>",
        f"## [a]({BASE}x)\n\nb\n\n### c",
    ),
    "emphasis in Chinese": ("<b>「中文」</b>是", "<strong>「中文」</strong>是"),
    "emphasis in Chinese beside others": (
        "<b>a</b> 是<b>「中文」</b>是 <i>b</i>",
        "**a** 是<strong>「中文」</strong>是 *b*",
    ),
    "signs that are bold in a word": ("<b>a</b> b<b>®</b> <b>c</b>", "**a** b® **c**"),
    "emphasis between letters": ("a<b>b</b>c<i>d</i>e", "a**b**c*d*e"),
    "emphasis by the same tag twice": ("<em>a <em>b</em> c</em>", "*a _b_ c*"),
    "scripts": ("10<sup>6</sup> H<sub>2</sub>O", "10<sup>6</sup> H<sub>2</sub>O"),
    "scripts with space or blocks in them": (
        "<p>a<sup> 1 </sup>b<sub></sub></p><sub>c<p>d</p></sub>",
        "a <sup>1</sup> b\n\nc\n\nd",
    ),
    "scripts that are typography": ("1<sup>st</sup> A<sup>®</sup>", "1st A®"),
    "ruby": ("<ruby>漢<rt>kan</rt></ruby>字", "漢(kan)字"),
    "ruby with parentheses": ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"),
    "right to left": ("<p dir=rtl>שלום <b>עולם</b> \u200fא", "שלום **עולם** \u200fא"),
    "joiners": ("<p>می\u200cشوم 👩\u200d💻", "می\u200cشوم 👩\u200d💻"),
    "emoji in emphasis": ("<b>a 😀</b> b", "**a 😀** b"),
    "an exclamation before a link": ("a!<a href=x>b</a>", f"a\\![b]({BASE}x)"),
    "an exclamation in emphasis that goes on": (
        "<b>a!</b><b><a href=x>b</a></b>",
        f"**a\\![b]({BASE}x)**",
    ),
    "an exclamation, a space, a link": ("a! <a href=x>b</a>", f"a! [b]({BASE}x)"),
    "an exclamation": ("<p>Hello!", "Hello!"),
    "brackets beside a link": ("[a]<span>(b)</span>", "[a]\\(b)"),
    "brackets beside a date": ("[a]<time>(b)</time>", "[a]\\(b)"),
    "names with underscores": ("a_b __init__ *", "a_b \\_\\_init\\_\\_ \\*"),
    "a heading that ends in a hash": ("<h2>C#</h2>", "## C\\#"),
    "entities in addresses": ("<a href='x?a=1&amp;lt;=2'>a</a>", f"[a]({BASE}x?a=1&amp;lt;=2)"),
    "two breaks": ("a<br><br>b<br>c", "a\n\nb  \nc"),
    "breaks in emphasis": ("<b>a<br><br>b</b>", "**a  \nb**"),
    "links stand apart": (
        "<a href=x>one</a><a href=y>two</a>",
        f"[one]({BASE}x) [two]({BASE}y)",
    ),
    "spans of a row stand apart": (
        "<p><span class=tag>one</span><span class=tag>two</span><span class=b>s</span>",
        "one twos",
    ),
    "spans of one word do not": (
        "<p><span>wo</span><span>rd</span> <span class=c>w</span><span class=c>ord</span>",
        "word word",
    ),
    "nor spans of code or of scripts without spaces": (
        ("<p><code><span class=n>ab</span><span class=n>cd</span></code> "
        "<span class=n>漢字</span><span class=n>漢字</span>"),
        "`abcd` 漢字漢字",
    ),
    "an image whose data are left out and that has no description": (
        "<a href=x><img src='data:image/gif;base64,R0lG'></a>a",
        "a",
    ),
    "an image of a script of lazy images": (
        "<img src='data:image/gif;base64,R0lG' own-lazy-src='/a.png'>",
        "![](https://site.example/a.png)",
    ),
    "an image that noscript tells of": (
        "<p>words <img src='data:image/gif;base64,R0lG'><noscript><img src=a.png></noscript>",
        f"words ![]({BASE}a.png)",
    ),
    "images stand apart from words": (
        "<p>a<img src=x>b <b>c <img src=x></b>d <a href=y><img src=x></a><a href=y>e</a>, <img src=x>.",
        (
            f"a ![]({BASE}x) b **c ![]({BASE}x)** d [![]({BASE}x)]({BASE}y) [e]({BASE}y), "
            f"![]({BASE}x)."
        ),
    ),
    "dates stand apart from names": (
        "<p><span>a</span><time>May 1</time><span>b</span> (<time>May 2</time>), <time> 1 </time> c",
        "a May 1 b (May 2), 1 c",
    ),
    "mail that Cloudflare hides": (
        (
            "<a href='/cdn-cgi/l/email-protection' data-cfemail='0160416c2f63'>[hidden]</a> "
            "<a href='/cdn-cgi/l/email-protection#0160416c2f63'>b <i data-cfemail=0160416c2f63>"
            "[<u>hidden</u>]</i></a> <a href='/cdn-cgi/l/email-protection#x'>c</a>"
        ),
        (
            "[a@m.b](mailto:a@m.b) [b *a@m.b*](mailto:a@m.b) "
            "[c](https://site.example/cdn-cgi/l/email-protection#x)"
        ),
    ),
    "films without the words for browsers that show none": (
        "<video><source src=x>No films here</video><audio>None, but <a href=y>this</a>.</audio>",
        f"[this]({BASE}y)",
    ),
    "an image as a definition": (
        "<dl><dt>a<dd><img src=x></dl>",
        f"a\n: ![]({BASE}x)",
    ),
    "rows and columns with nothing in them": (
        "<table><tr><th>a<th><th>b<tr><td>1<td><td>2<tr><td> <td><td><br><tr><td>3<td><td></table>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |",
    ),
    "an empty row before the header": (
        "<table><thead><tr><th><th></thead><tr><th>a<th>b<tr><td>1<td>2</table>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "a column beside an empty one": ("<table><tr><td>a<td><tr><td>b<td></table>", "a\n\nb"),
    "spans of several words stand apart": (
        "<p><span class=a>Ada</span><span>The first one</span><a href=x>Read</a><span>3</span>",
        f"Ada The first one [Read]({BASE}x)3",
    ),
    "spans of a name do not": (
        "<p><span class=a>You</span><span class=b>Tube</span> <span>a b</span><span>c</span>",
        "YouTube a bc",
    ),
    "spans in spans stand apart": (
        ("<p><span><b>Maker</b></span><span><i>Ada and Sons</i></span><p><a href=x>b (2)</a><a href=y>Cd</a>"),
        f"**Maker** *Ada and Sons*\n\n[b (2)]({BASE}x) [Cd]({BASE}y)",
    ),
    "labels stand apart from their values": (
        ("<p><span class=a-label>Size</span><span class=a-value>Small</span>"
         "<p><span class=tag-name>tea</span><span class=tag-count>3</span>"),
        "Size Small\n\ntea 3",
    ),
    "prices stand apart": (
        ("<p><span>$98.00</span><span>$130</span><span>Was $140</span><p><span>€1</span><span>9% off</span>"
         "<p><span>1</span><span>9% off</span> <span>H2</span><span>O as it is</span>"),
        "$98.00 $130 Was $140\n\n€1 9% off\n\n19% off H2O as it is",
    ),
    "a number of a note does not": ("<p><span>a b</span><a href=x>1</a>", f"a b[1]({BASE}x)"),
    "who is quoted in a forum": (
        "<blockquote><div><cite>Ada wrote:</cite>a</div></blockquote><blockquote><cite>B</cite> c",
        "> Ada wrote:\n>\n> a\n\n> B c",
    ),
    "punctuation before a letter is not bold": (
        "<p><b>a:</b>b</p><p>c<i>“</i>d</p><p><b>e.</b>f <b>g</b></p><p>h<b>, i</b>",
        "**a**:b\n\nc“d\n\n**e**.f **g**\n\nh, **i**",
    ),
    "a bracket before a letter is": (
        "<b>a (b)</b>c",
        "<strong>a (b)</strong>c",
    ),
    "bold in what is bold without it": (
        ("<h2>1. <b>a</b> <b><a href=x>b</a></b></h2><h2>a <b>b</b></h2>"
        "<table><tr><th><b>c</b><th>d <b>e</b><tr><td><b>f</b><td>g</table>"),
        f"## 1. a [b]({BASE}x)\n\n## a **b**\n\n| c | d **e** |\n| --- | --- |\n| **f** | g |",
    ),
    "a bold link around a heading": (
        "<a href=x><h2><strong>a</strong></h2></a>",
        f"## [a]({BASE}x)",
    ),
    "buttons stand apart": ("<button>a</button><button>b</button>", "a b"),
}  # fmt: skip

LISTS = {
    "bulleted lists that are drawn with numbers": (
        "<ul style='list-style-type: decimal'><li>a<li>b</ul><ul style='color: red'><li>c</ul>",
        "1. a\n2. b\n\n- c",
    ),
    "numbers of items": ("<ol><li>a<li value=5>b<li>c</ol>", "1. a\n5. b\n6. c"),
    "text between items": ("<ul>x<li>a</li>y<li>b</ul>", "x\n\n- a\n\ny\n\n- b"),
    "items without a list": ("<div><li>a<li>b</div>", "- a\n- b"),
    "links as items": ("<ul><a href=x>a</a><a href=y>b</a></ul>", f"- [a]({BASE}x)\n- [b]({BASE}y)"),
    "a rule in an item": ("<ul><li>a<li><hr></ul>", "- a\n- ___"),
    "a numbered list that cannot interrupt": (
        "<ul><li>a<ol start=3><li>b</ol></ul>",
        "- a\n\n  3. b",
    ),
    "a quotation in an item": ("<ul><li>a<blockquote>b</blockquote></ul>", "- a\n\n  > b"),
    "lists in sections of their own": (
        "<div><ul><li>a</ul></div><div><ul><li>b</ul></div>",
        "- a\n\n* b",
    ),
}  # fmt: skip

CASES = MATHS | NOTES | CODE | TABLES | SPANS | LISTS


PLAYERS = """<p>a</p><iframe src="https://www.youtube.com/embed/dQw4w9WgXcQ?rel=0" title="To
 prune"></iframe><iframe src=about:blank data-src="//player.vimeo.com/video/7?h=1"></iframe>
<iframe src="https://ads.example/embed"></iframe><iframe srcdoc="<b>c</b>"
 src="https://www.youtube.com/embed/dQw4w9WgXcQ"></iframe><video controls><source src=v.mp4
><p>Too old.</p></video><video autoplay muted src=w.mp4></video><audio controls
 src="blob:https://site.example/1"></audio><audio controls src=/s.mp3 aria-label=Talk></audio>"""


def test_players_are_links():
    content = convert(PLAYERS, "markdown", "links")
    found = {
        "To prune": "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
        "Video": "https://player.vimeo.com/video/7?h=1",
        "Video ": f"{BASE}v.mp4",
        "Talk": "https://site.example/s.mp3",
    }
    links = [f"[{title.strip()}]({url})" for title, url in found.items()]
    written = "\n\n".join(["a", *links[:2], "**c**", " ".join(links[2:])])
    assert value(content, "markdown") == written
    ads = "https://ads.example/embed"  # a frame that is no player has its URL in the links
    assert set(value(content, "links")) == {*found.values(), ads}


def test_players_stay_with_the_main_content_around():
    page = f"<main><h1>Title</h1>{TEXT}{PLAYERS}{TEXT}</main>"
    assert "To prune" in markdown(page, only_main_content=True)


@pytest.mark.parametrize(("page", "expected"), CASES.values(), ids=CASES)
def test_html_becomes_markdown(page, expected):
    assert markdown(page) == expected


TEXT = "<p>" + "Some words of main content stand here, and more of them follow. " * 9

MAIN = {
    "images that wait for others": (
        "<p>a<img src=grey-placeholder.png><img src=/loading.svg alt=b></p>",
        "a ![b](https://site.example/loading.svg)\n\n",
    ),
    "what is bold twice": (
        "<p><b>a <b>b</b></b> <em>c <em>d</em></em>",
        "**a b** *c _d_*\n\n",
    ),
    "links to where they stand": (
        "<h2><a href=#a>§</a>a</h2><h2>b <a href=page.html#b><span>#</span></a></h2>",
        "## a\n\n## b\n\n",
    ),
    "copies for smaller screens": (
        (
            "<h2>a</h2><h2>a</h2><h3>a</h3><div><img src=x alt=b></div><div><img src=x alt=b></div>"
            "<p><img src=y alt='c d e'><img src=y alt='c d e'></p><p><img src=z><img src=z></p>"
        ),
        (
            f"## a\n\n### a\n\n![b]({BASE}x)\n\n![c d e]({BASE}y)\n\n"
            f"![]({BASE}z) ![]({BASE}z)\n\n"
        ),
    ),
}


MAIN |= {
    "a list that is all of an item": (
        "<p>a<ul><li>b<li><div><ul><li>c<li>d</ul></div><li>e</ul>",
        "a\n\n- b\n  - c\n  - d\n- e\n\n",
    ),
    "a list that is all of a list": ("<p>a<ul><li><ul><li>b<li>c</ul></ul>", "a\n\n- b\n- c\n\n"),
    "an item that is all of an item": (
        "<p>a<ul><li><span><li>b</span></li></ul>", "a\n\n- b\n\n",
    ),
    "a list of pictures": (
        "<ul><li><ul><li><img src=x alt=c><li><img src=y></ul><p>b</ul>",
        f"- ![c]({BASE}x) ![]({BASE}y)\n\n  b\n\n",
    ),
    "signs alone": (
        "<p>a</p><p>.</p><div>|</div><ul><li>\u00b7<li>b</ul><p>*</p><p>\u200d</p>", "a\n\n- b\n\n",
    ),
    "rules in a list": (
        "<p>a<ul><li><hr><p>b</p><hr><li>c</ul>", "a\n\n- b\n\n- c\n\n",
    ),
    "rules beside each other": ("<p>a</p><hr><div><hr></div><p>b</p>", "a\n\n---\n\nb\n\n"),
    "headings that link to themselves": (
        (
            "<h2 id=a><a href=#a>a</a></h2><h3><a href=http://www.site.example/dir/page.html#b>b</a>"
            "</h3><h3><a href=other.html#b>c</a></h3><h3><a href=page.html>d</a></h3>"
        ),
        f"## a\n\n### b\n\n### [c]({BASE}other.html#b)\n\n### d\n\n",
    ),
    "links back from notes": (
        "<ol><li id=n>a <a href=#r>\u21a9\ufe0e</a><li>b <a href=#s>\u2191</a> <a href=#t>[^]</a></ol>",
        "1. a\n2. b\n\n",
    ),
    "what stands beside code": (
        (
            "<div><div><span class=name>JavaScript</span><a class=copy>Copy</a></div>"
            "<pre>a()<button>Copy</button></pre></div><pre><div><b>python</b><i>Copy code</i></div><code>b</code></pre>"
            "<div><span>src/c.rs</span><span>Copied!</span>"
            "<pre><code class=lang-rust>c</code></pre><span>Rust</span></div>"
        ),
        (
            "```javascript\na()\n```\n\n```python\nb\n```\n\n"
            "src/c.rs\n\n```rust\nc\n```\n\n"
        ),
    ),
    "what is named like its language": (
        "<section><h3>Python</h3><pre>a</pre></section>", "### Python\n\n```\na\n```\n\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("page", "expected"), MAIN.values(), ids=MAIN)
def test_main_content_leaves_out_elements_without_information(page, expected):
    body = f"<main><h1>Title</h1>{page}{TEXT}</main>"
    whole = markdown(body)
    main = markdown(body, only_main_content=True)
    assert main.startswith(f"# Title\n\n{expected}Some words")
    assert whole != main or "Python" in page


def test_rules_at_the_edges_of_main_content_are_dropped():
    page = f"<main><hr><h1>Title</h1>{TEXT}<hr></main>"
    text = markdown(page, only_main_content=True)
    assert text.startswith("# Title")
    assert text.endswith("follow.")


SESSION = "0123456789abcdef0123456789abcdef"
SESSIONS = {
    f"/topic.php?t=7&sid={SESSION}#p3": "/topic.php?t=7#p3",
    f"https://site.example/topic.php?sid={SESSION}&t=7": "/topic.php?t=7",
    f"/post.php?s={SESSION}&p=1": "/post.php?p=1",
    f"/file;jsessionid={SESSION.upper()}.node1?doc=10.1": "/file?doc=10.1",
    f"/cart?PHPSESSID={SESSION}": "/cart",
    f"/picture?w=1&s={SESSION}": f"/picture?w=1&s={SESSION}",  # a signature
    "/calls?sid=CA12&session=keynote-of-the-first-day": "/calls?sid=CA12&session=keynote-of-the-first-day",
}


@pytest.mark.parametrize(("href", "expected"), SESSIONS.items())
def test_links_are_without_the_session_of_the_visitor(href, expected):
    content = convert(f"<p><a href='{href}'>a</a>", "markdown", "links", "html")
    address = f"https://site.example{expected}"
    assert value(content, "markdown") == f"[a]({address})"
    assert value(content, "links") == [address]
    assert f'"{address.replace("&", "&amp;")}"' in value(content, "html")
    alone = convert(f"<p><a href='{href}'>a</a>", "links")
    assert value(alone, "links") == [address]
