# ruff: noqa: RUF001  # marks of other scripts
from __future__ import annotations

import pytest

from scraper_service.content.formats.summary_and_tokens import summary
from scraper_service.content.words import split
from scraper_service.options.formats import Summary
from tests.content.pages import convert, value

ENGLISH = (
    "The lighthouse of the island was built of red brick in 1871. "
    "Its keeper, Mr. A. B. Holm, lived there for 40 years with three goats. "
    "Ships from the north could see the lighthouse at a distance of 20.5 miles. "
    "The brick came from a yard on the island that no longer exists. "
    "Today the lighthouse is a museum, which the island opens in summer. "
    "Visitors climb 130 steps to the lamp of the lighthouse. "
    "There is a small shop, too, that sells cards and red bricks. "
    "Nobody knows what became of the goats of the keeper. "
    "The museum shows the log that the keeper wrote on the island. "
    "In winter the island has eleven inhabitants and one ferry a week."
)
SPLIT = {
    "english": (
        'He said "Stop!" and left. It was 3.5 km, e.g. far. Was it? Yes… No.',
        ['He said "Stop!" and left.', "It was 3.5 km, e.g. far.", "Was it?", "Yes…", "No."],
    ),
    "german": (
        "Am 3. Mai kam Dr. Holm, z.B. mit der Fähre. Er blieb.",
        ["Am 3. Mai kam Dr. Holm, z.B. mit der Fähre.", "Er blieb."],
    ),
    "spanish": ("¿Quién es? Nadie lo sabe.", ["¿Quién es?", "Nadie lo sabe."]),
    "chinese": ("灯塔建于一八七一年。它是红色的！真的吗？", ["灯塔建于一八七一年。", "它是红色的！", "真的吗？"]),
    "japanese": ("「待って。」彼は言った。", ["「待って。」", "彼は言った。"]),
    "hindi": ("यह एक घर है। वह लाल है।", ["यह एक घर है।", "वह लाल है।"]),
    "arabic": ("هل هو هنا؟ نعم.", ["هل هو هنا؟", "نعم."]),
    "russian": ("Это было в 5 ч. утра. Он ушёл.", ["Это было в 5 ч. утра.", "Он ушёл."]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SPLIT.values(), ids=SPLIT)
def test_sentence_ends_follow_the_rules_of_the_language(text, expected):
    assert list(split(text)) == expected


def test_a_summary_is_two_to_five_sentences_of_the_page_in_its_order():
    found = summary(ENGLISH, "The lighthouse of the island")
    sentences = list(split(found))
    assert 2 <= len(sentences) <= 5
    places = [ENGLISH.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    assert "lighthouse" in found


def test_a_summary_contains_only_prose():
    markdown = (
        "# The heading of this long page is a sentence.\n\n"
        f"{ENGLISH}\n\n```\nThe code of the lighthouse is no sentence of prose.\n```\n\n"
        "| The lighthouse of the island | is in a table of the island |\n| --- | --- |\n\n"
        "- [Home](/) \n- [The lighthouse](/a)\n\n![The lighthouse of the island](x.png)"
    )
    found = summary(markdown, "The lighthouse of the island")
    assert all(sentence in ENGLISH for sentence in split(found))


def test_links_and_emphasis_are_no_part_of_a_summary():
    markdown = "The [old lighthouse](https://a.example) was **never** seen by any ship."
    assert summary(markdown) == "The old lighthouse was never seen by any ship."


def test_texts_of_scripts_without_spaces_have_summaries():
    text = "".join(f"第{n}座灯塔建于海边的岩石之上。它的灯光照亮了整个港口的夜晚。" for n in range(8))  # fmt: skip
    found = summary(text)
    assert 2 <= len(list(split(found))) <= 5
    assert all(sentence in text for sentence in split(found))
    thai = "ประภาคารแห่งนี้สร้างขึ้นเมื่อหนึ่งร้อยปีก่อน " * 8
    assert summary(thai)


def test_a_page_without_prose_is_summed_up_by_its_description():
    page = "<title>t</title><meta name=description content='All about it.'><p>Menu"
    assert value(convert(page, Summary()), "summary") == "All about it."
    assert value(convert("", Summary()), "summary") == ""


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(ENGLISH, "text/plain"), (f"# a\n\n{ENGLISH}", "text/markdown")],
)
def test_texts_and_documents_have_summaries(body, content_type):
    found = convert(body, Summary(), content_type=content_type)
    assert value(found, "summary")
    assert found.answered_by == "rules"


def test_sentences_without_their_end_are_in_no_summary():
    whole = "The lighthouse of the island was built of red brick in 1871."
    cut = "Ships see the lighthouse (which has a lamp called Bridges!"
    begun = "The keeper of the lighthouse wrote his log as in the following example:"
    assert summary(f"{begun}\n\n{cut}\n\n{whole}") == whole
