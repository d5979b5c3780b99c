"""The words of control of rich text files, by what is to be made of them."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"\\([a-zA-Z]{1,32})(-?\d{1,10})?\x20?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z'])|([{}])"
    r"|([^\\{}\r\n]+)|[\r\n]+|\\"
)
# Groups whose text is not that of the document.
SKIPPED = frozenset(
    "fonttbl colortbl stylesheet listtable listoverridetable rsidtbl generator pict "
    "themedata colorschememapping datastore latentstyles xmlnstbl header headerl headerr "
    "headerf footer footerl footerr footerf object objdata annotation atnid atnauthor "
    "atrfstart atrfend revtbl filetbl bkmkstart bkmkend mmathPr pgdsctbl falt panose "
    "shppict nonshppict private1 fldtype userprops docvar xe tc listpicture".split()
)
FACTS = frozenset("title author subject keywords doccomm".split())
SIGNS = {
    "emdash": "\u2014",
    "endash": "\u2013",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "bullet": "\u2022",
    "tab": "\t",
    "line": "\n",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
}
# Character sets of fonts, by number, to Python's codecs.
CHARSETS = {
    0: "cp1252",
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
}
LINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]+)"?', re.IGNORECASE)
