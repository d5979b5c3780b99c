"""``make bench-quality`` measures what it is given, and says what it leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import WAIT_S

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "tests" / "samples" / "pages"


def run(**environment):
    names = {"WCXB", "CORPORA", "QUALITY_SCORERS"}
    inherited = {name: x for name, x in os.environ.items() if name not in names}
    return subprocess.run(
        (sys.executable, "-m", "tools.bench.quality", "--quick"),
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )


@pytest.mark.full
def test_main_content_is_scored_by_kind_of_page(tmp_path):
    (tmp_path / "html").mkdir()
    page = (PAGES / "table-page.html").read_bytes()
    (tmp_path / "html" / "1.html").write_bytes(page)
    row = {
        "id": "1",
        "url": "https://harbour.example/tides",
        "page_type": "documentation",
        "main_content": "All times are local.",
        "with": ["Heights are in metres", "not on the page"],
        "without": ["Moorings"],
    }
    (tmp_path / "truth.jsonl").write_text(json.dumps(row) + "\n")
    done = run(WCXB=str(tmp_path))
    [line] = [x for x in done.stdout.splitlines() if x.startswith("| documentation")]
    cells = line.split(" | ")
    assert cells[1] == "1"
    assert 0 < float(cells[2]) < 0.5
    assert cells[3:] == ["0.500", "0.000 |"]
    assert "stripping + html2text" in done.stdout
    assert "| With a summary |" in done.stdout
    assert "CORPORA names no directory" in done.stderr


@pytest.mark.full
def test_benchmarks_without_data_print_a_sentence_each():
    done = run()
    assert done.stderr.count("names no directory: its measures are skipped") == 3
    assert "| trafilatura, precision | .964 |" in done.stdout
