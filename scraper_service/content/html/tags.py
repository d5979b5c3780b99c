"""Which HTML elements are what."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Never content.
DROPPED = _names(
    "script style template svg noembed noframes object applet canvas map link meta base "
    "basefont title"
)
# Not part of the Markdown.
SKIPPED = _names(
    "select textarea datalist script style template svg noscript head title"
)
BLOCKS = _names(
    "address article aside blockquote body caption center dd details dialog dir div dl "
    "dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr "
    "legend li listing main menu nav ol optgroup option p plaintext pre search section "
    "summary table tbody td tfoot th thead tr ul xmp"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
# Their end tags may be left out, so that counting tags overrates their depth.
UNCOUNTED = VOID | _names("p li dt dd tr td th option thead tbody html head body")
CHROME_ROLES = _names(
    "navigation banner contentinfo complementary search dialog alertdialog menu menubar "
    "toolbar"
)
