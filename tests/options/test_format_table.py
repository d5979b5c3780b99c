"""The table of formats has every format, and what must be known of it."""

from __future__ import annotations

from typing import get_args

from scraper_service.options.formats import FORMATS, NAMED, ROW_OF, Format


def test_every_format_has_a_single_row_with_its_name():
    assert list(ROW_OF) == [row.cls for row in FORMATS if row.tag == row.cls.type]
    assert set(ROW_OF) == set(get_args(Format))


def test_format_names_are_unique_and_aliases_come_after_the_main_name():
    assert len({row.name for row in FORMATS}) == len(FORMATS)
    names = [row.name for row in FORMATS]
    for row in FORMATS:
        assert names.index(row.name) >= names.index(ROW_OF[row.cls].name)


def test_a_name_without_required_options_stands_for_its_format():
    for row in NAMED.values():
        if row.is_bare:
            assert isinstance(row.format(), row.cls)
