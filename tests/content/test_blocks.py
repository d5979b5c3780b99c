from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from scraper_service.content.formats.summary_and_tokens import (
    markdown_blocks,
    without_blocks,
)

PARTS = st.lists(
    st.sampled_from(
        [
            "# Head",
            "text\nof two lines",
            'q"uo\\te',
            "back\\n\\nslash\\",
            "ünï 漢字",
            "---",
            "```\ncode\n\nmore\n```",
            "- a\n- b",
            "\\\\",
        ]
    ),
    max_size=8,
)


@given(PARTS, st.data())
def test_whole_blocks_are_cut_out(parts, data):
    value = json.dumps("\n\n".join(parts), ensure_ascii=False).encode()
    blocks = markdown_blocks("\n\n".join(parts))
    worded = [part for part in parts if any(map(str.isalnum, part))]
    assert [json.loads(b'"%s"' % value[a:z]) for _, a, z in blocks] == worded
    assert [h for h, *_ in blocks] == [
        h for p in worded for h, *_ in markdown_blocks(p)
    ]
    gone = data.draw(st.sets(st.sampled_from(range(len(blocks))))) if blocks else set()
    spans = [blocks[number][1:] for number in sorted(gone)]
    numbers = iter(range(len(worded)))
    kept = [
        part
        for part in parts
        if not any(map(str.isalnum, part)) or next(numbers) not in gone
    ]
    assert json.loads(without_blocks(value, spans)) == "\n\n".join(kept)


def test_spaces_make_no_other_block():
    assert markdown_blocks("a  b")[0][0] == markdown_blocks("a\nb")[0][0]


def test_code_that_does_not_end_is_no_block():
    assert markdown_blocks("```\ncode\n\nmore") == ()
