from __future__ import annotations

import random
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper_service.content.formats import diff
from scraper_service.content.formats.diff import FILE, as_json, as_patch, hunks

LINES = st.lists(st.sampled_from(["a", "b", "c", "", " a", "-a", "+b", "\\ x", "d\r"]))
TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"])
)


def applied(old, found):
    """Apply hunks as the numbers in them say; check context and deleted lines."""
    before = diff._lines(old)
    result, at = [], 0
    for hunk in found:
        start = hunk.old_start - bool(hunk.old_lines)
        result += before[at:start]
        at = start
        assert len(result) + bool(hunk.new_lines) == hunk.new_start
        counts = {" ": 0, "-": 0, "+": 0}
        for change in hunk.changes:
            counts[change.sign] += 1
            if change.sign != "+":
                assert before[at] == change.text
                at += 1
                assert change.old == at
            if change.sign != "-":
                result.append(change.text)
                assert change.new == len(result)
        assert counts[" "] + counts["-"] == hunk.old_lines
        assert counts[" "] + counts["+"] == hunk.new_lines
    return "".join(result + before[at:])


@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS)
def test_applying_a_diff_to_the_old_text_gives_the_new_text(old, new):
    assert applied(old, hunks(old, new)) == new
    assert bool(hunks(old, new)) == (old != new)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("limits", [(1, 10**6), (3, 40), (0, 0)])
@settings(max_examples=200, deadline=None)
@given(TEXTS, TEXTS)
def test_a_diff_is_exact_where_the_search_gives_up(limits, old, new):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "MAX_EDITS", limits[0])
        search = diff._Search(
            *_numbers(diff._lines(old), diff._lines(new)),
            steps=limits[1],
        )
        search.run()
    assert _replayed(search) == search.new


def _numbers(before, after):
    numbers = {line: n for n, line in enumerate({*before, *after})}
    return [numbers[line] for line in before], [numbers[line] for line in after]


def _replayed(search):
    result, at = [], 0
    for start, end, new_start, new_end in sorted(search.spans):
        result += search.old[at:start] + search.new[new_start:new_end]
        at = end
    return result + search.old[at:]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Fee: 4", "Fee: 5"),
        ("Fee: 4\n", "Fee: 5"),
        ("one\ntwo", "one\ntwo\n"),
        ("one\ntwo\nthree", "three"),
        ("x", "one\nx"),
        ("\n".join(map(str, range(60))), "\n".join(map(str, range(0, 60, 7)))),
        ("ä\r\nö\u2028\x0b\nü", "ä\nö\u2028\x0bx\nü"),
        ("--- a\n+++ b\n@@ -1 +1 @@", "--- a\n@@ -1,1 +1 @@\n"),
    ],
)
def test_git_applies_a_diff(tmp_path, old, new):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    patch = as_patch(hunks(old, new))
    target = tmp_path / FILE
    target.write_bytes(old.encode())
    done = subprocess.run(
        ["git", "apply", "-"],
        input=patch.encode(),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == new.encode()


def test_the_json_of_a_diff_has_the_numbers_of_the_lines():
    found = hunks("one\ntwo\nFee: 4\nend", "one\nFee: 5\nend")
    [file] = as_json(found)["files"]
    [chunk] = file["chunks"]
    assert (file["from"], file["to"]) == (FILE, FILE)
    assert chunk["content"] == "@@ -1,4 +1,3 @@"
    assert chunk["changes"] == [
        {"type": "normal", "normal": True, "ln1": 1, "ln2": 1, "content": " one"},
        {"type": "del", "ln": 2, "content": "-two"},
        {"type": "del", "ln": 3, "content": "-Fee: 4"},
        {"type": "add", "ln": 2, "content": "+Fee: 5"},
        {"type": "normal", "normal": True, "ln1": 4, "ln2": 3, "content": " end"},
    ]


def test_changes_far_from_each_other_are_chunks_of_their_own():
    old = [f"line {number}" for number in range(100)]
    new = [*old[:10], "x", *old[11:90], *old[91:]]
    first, second = hunks("\n".join(old), "\n".join(new))
    assert (first.header, second.header) == ("@@ -8,7 +8,7 @@", "@@ -88,7 +88,6 @@")


def test_moved_lines_of_a_large_text_are_found_in_bounded_steps():
    """The steps are bounded, not the time: that depends on the machine."""
    chance = random.Random(7)
    old = [str(number) for number in range(9000)]
    new = chance.sample(old, 6000)
    found = hunks("\n".join(old), "\n".join(new))
    assert applied("\n".join(old), found) == "\n".join(new)
