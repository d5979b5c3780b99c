"""Shows the values of form fields as text, for Markdown, which has no fields.

A chosen option with a label, the text of a text area or a read-only field is content.
Controls of the page, such as a sort order or a search, are none.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from lxml import etree

from scraper_service.content.passes import texts_in

if TYPE_CHECKING:
    from scraper_service.content.html.document import Document

MAX_FIELDS = 500  # of a page; later ones are not shown
MAX_VALUE = 20_000  # characters of a text area
MAX_LABEL = 80  # characters
MAX_LABEL_PARTS = 20  # elements
NOT_SHOWN = "The value of a form field is not shown; the format html has the field."

_TAGS = ("select", "textarea", "input", "meter", "progress")
_TYPES = frozenset(
    "text email url tel number date time datetime-local month week".split()
)
# Names and labels of fields that steer the page.
_CONTROL = re.compile(
    r"sort|order|lang|locale|currency|country|quantity|qty|per.?page|limit|theme|filter|search"
    r"|query|view|page|newsletter|e-?mail|captcha|csrf|token|amount|menge|anzahl|sprache"
    r"|trier|cantidad|quantité|quantità",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"\W*(?:(?:please )?(?:select|choose|pick|any|all|none)\b|bitte|(?:aus)?wählen|choisi"
    r"|sélection|elige|elegir|selecc|scegli|selezion|escolha)|\W*\Z",
    re.IGNORECASE,
)


def show_form_values(document: Document) -> None:
    """Insert the values of the fields in a page's final tree as text; record the others."""
    found: dict[str, list[Any]] = {tag: [] for tag in _TAGS}
    for element in document.body.iter(*_TAGS):
        found[element.tag].append(element)
    if not any(found.values()):
        return
    selects, areas, inputs, meters, bars = (
        each[:MAX_FIELDS] for each in found.values()
    )
    fields = _Fields(document)
    for field in selects:
        fields.show_choice(field)
    for field in areas:
        fields.show_text(field)
    for field in inputs:
        fields.show_input(field)
    for field in meters + bars:
        value, most = field.get("value"), field.get("max")
        if value and not "".join(texts_in(field)).strip():
            field.text = f"{value}/{most}" if most else value


class _Fields:
    """The form fields of one page."""

    def __init__(self, document: Document):
        self._losses = document.losses
        labels = list(document.body.iter("label"))
        self._labels = {each.get("for"): each for each in reversed(labels)}

    def show_choice(self, field: Any) -> None:
        """Show the options that a list has selected, if it has a label."""
        chosen = [each for each in field.iter("option") if "selected" in each.attrib]
        texts = [" ".join("".join(texts_in(option)).split()) for option in chosen]
        said = ", ".join(text for text in texts if not _PROMPT.match(text))[:MAX_VALUE]
        if not said or self._is_control(field):
            return
        if self._has_label(field):
            _insert(field, "span", said)
        else:
            self._record(field, said)

    def show_text(self, field: Any) -> None:
        """Show the text of a text area, unless it is markup or very long."""
        text = "".join(texts_in(field)).strip("\n")
        if len(text) > MAX_VALUE or text.lstrip()[:1] == "<":
            self._record(field, text)
        elif text.strip():
            _insert(field, "pre" if "\n" in text else "span", text)

    def show_input(self, field: Any) -> None:
        """Show the value of a field that readers cannot change."""
        value = " ".join(field.get("value", "").split())[:MAX_VALUE]
        if not value or field.get("type", "text").lower() not in _TYPES:
            return
        if "readonly" in field.attrib or "disabled" in field.attrib:
            _insert(field, "span", value)
        elif not self._is_control(field) and self._has_label(field):
            self._record(field, value)

    def _record(self, field: Any, value: str) -> None:
        label = self._label_of(field).rstrip(": ")
        text = f"{label}: {value[:MAX_VALUE]}" if label else value[:MAX_VALUE]
        self._losses.add("formField", NOT_SHOWN, text=text, near=field)

    def _is_control(self, field: Any) -> bool:
        names = (field.get(name, "")[:200] for name in ("name", "id", "class", "type"))
        return _CONTROL.search(" ".join((*names, self._label_of(field)))) is not None

    def _has_label(self, field: Any) -> bool:
        """Return True if a label stands before a field, or around it."""
        if self._label(field) is not None or field.getparent().tag in {"td", "dd"}:
            return True
        text = _text_before(field)
        before = field.getprevious()
        if before is not None and not text.strip() and len(before) <= 1:
            text = "".join(texts_in(before))
        return text.rstrip().endswith(":")

    def _label(self, field: Any) -> Any:
        around = next(field.iterancestors("label"), None)
        named = self._labels.get(field.get("id")) if field.get("id") else None
        return named if around is None else around

    def _label_of(self, field: Any) -> str:
        """Return the text of the label of a field, else its ``aria-label``."""
        label = self._label(field)
        if label is None:
            return str(field.get("aria-label") or "")[:MAX_LABEL]
        texts = []
        for each in islice(label.iter(etree.Element), MAX_LABEL_PARTS):
            if each.tag not in {"option", "textarea"}:
                texts.append(each.text)
            texts.append(None if each is label else each.tail)
        return " ".join(" ".join(filter(None, texts)).split())[:MAX_LABEL]


def _text_before(field: Any) -> str:
    before = field.getprevious()
    text = field.getparent().text if before is None else before.tail
    return text or ""


def _insert(field: Any, tag: str, text: str) -> None:
    """Insert the value of a field behind it."""
    is_apart = tag == "pre" or _text_before(field)[-1:].isspace()
    shown = etree.Element(tag)
    shown.text = text if is_apart else f" {text}"
    shown.tail, field.tail = field.tail, None
    field.addnext(shown)
