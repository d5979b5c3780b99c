"""Schedules of monitors: expressions, words, and what clocks that change do to them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from scraper_service.options.monitors import (
    Schedule,
    check_zone,
    cron_of_text,
    normalize_cron,
)

BERLIN = ZoneInfo("Europe/Berlin")


def at(text, fold=0):
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def runs(cron, start, count, zone="Europe/Berlin"):
    schedule, found = Schedule(cron, zone), []
    for _ in range(count):
        start = schedule.next_after(start)
        found.append(datetime.fromtimestamp(start, ZoneInfo(zone)).isoformat())
    return found


@pytest.mark.parametrize(
    ("given", "cron"),
    [
        ("*/5 * * * *", "*/5 * * * *"),
        ("0 9 * jan-mar mon,WED", "0 9 * JAN-MAR MON,WED"),
        ("0 0 1 * 7", "0 0 1 * 7"),
        ("@daily", "0 0 * * *"),
        ("@WEEKLY", "0 0 * * 0"),
        ("7-59/15 * * * *", "7-59/15 * * * *"),
        ("0 5-5/2 * * *", "0 5 * * *"),  # one hour, not an open range
        ("58 23 * * *", "58 23 * * *"),
        ("58,0 0,23 1 * *", "58,0 0,23 1 * *"),  # no two days in a row
    ],
)
def test_an_expression_is_accepted(given, cron):
    assert normalize_cron(given) == cron


@pytest.mark.parametrize(
    "cron",
    [
        *("* * * * *", "*/4 * * * *", "*/7 * * * *", "0,3 * * * *", "58,0 0,23 * * *"),
        *("0 0 31 2 *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * 13 *"),
        *("0 0 * * 8", "0 0 L * *", "0 0 15W * *", "0 0 * * 1#2", "0 0 ? * *"),
        *("* * * *", "0 * * * * *", "", "@yearly", "5-3 * * * *", "*/0 * * * *"),
        *("0 0 * * FOO", "a b c d e", "0 0 -1 * *", "0 0 1,,2 * *"),
    ],
)
def test_an_expression_is_refused(cron):
    with pytest.raises(ValueError, match="cron"):
        normalize_cron(cron)


@pytest.mark.parametrize(
    ("cron", "allowed"),
    [
        ("60 * * * *", "minute takes 0 to 59"),
        ("0 24 * * *", "hour takes 0 to 23"),
        ("0 0 30 2 *", "day-of-month takes 1 to 31"),
        ("0 0 1 13 *", "month takes 1 to 12 or JAN to DEC"),
        ("0 0 * * 8", "day-of-week takes 0 to 7 or SUN to SAT"),
    ],
)
def test_a_refused_cron_field_names_its_allowed_values(cron, allowed):
    with pytest.raises(ValueError, match=allowed):
        normalize_cron(cron)


@pytest.mark.parametrize(
    ("text", "spread", "cron"),
    [
        ("every 30 minutes", 0, "*/30 * * * *"),
        ("Every  30   MINUTES", 7, "7-59/30 * * * *"),
        ("every 15 minutes starting at :07", 3, "7-59/15 * * * *"),
        ("every 60 minutes", 61, "1 * * * *"),
        ("hourly", 125, "5 * * * *"),
        ("every hour", 125, "5 * * * *"),
        ("every 6 hours", 60 * 8 + 5, "5 2-23/6 * * *"),
        ("every 24 hours", 60 * 26 + 5, "5 2 * * *"),
        ("daily", 60 * 26 + 5, "5 2 * * *"),
        ("daily at 9:00", 99, "0 9 * * *"),
        ("daily at 5:30 PM", 99, "30 17 * * *"),
        ("every day at 9am", 99, "0 9 * * *"),
        ("daily at 12am", 99, "0 0 * * *"),
        ("daily at 12:05 pm", 99, "5 12 * * *"),
        ("weekly", 1440 * 9 + 65, "5 1 * * 2"),
        ("weekly on Friday at 21:30", 99, "30 21 * * 5"),
        ("every sunday", 65, "5 1 * * 0"),
        ("weekdays at 8:15", 99, "15 8 * * 1-5"),
        ("monthly", 65, "5 1 1 * *"),
    ],
)
def test_words_stand_for_an_expression(text, spread, cron):
    assert cron_of_text(text, spread) == cron
    assert normalize_cron(cron) == cron


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("every 7 minutes", "nearest is every 6 minutes"),
        ("every 5 hours", "nearest is every 4 hours"),
        ("every 1000 minutes", "nearest is every 30 minutes"),
        ("daily at 25:00", "9:00"),
        ("daily at 13pm", "9:00"),
        ("daily at 9", "9:00"),
        ("every 15 minutes starting at :75", ":59"),
        ("now and then", "every N minutes"),
        ("", "every N minutes"),
    ],
)
def test_unknown_words_are_refused_with_the_accepted_words(text, told):
    with pytest.raises(ValueError, match=told):
        cron_of_text(text, 0)


def test_a_time_skipped_by_daylight_saving_runs_at_the_next_valid_minute():
    assert runs("30 2 * * *", at("2026-03-28T12:00"), 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_times_of_a_gap_run_once():
    assert runs("*/30 * * * *", at("2026-03-29T01:10"), 3) == [
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]


def test_a_time_that_occurs_twice_runs_once():
    assert runs("30 2 * * *", at("2026-10-24T12:00"), 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    assert runs("*/30 * * * *", at("2026-10-25T02:10"), 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T03:00:00+01:00",
    ]
    # From within the repeated hour: its times have run.
    assert runs("*/30 * * * *", at("2026-10-25T02:10", fold=1), 1) == [
        "2026-10-25T03:00:00+01:00"
    ]


@pytest.mark.parametrize(
    ("now", "last"),
    [
        ("2026-06-01T10:17", "2026-06-01T10:15:00+02:00"),
        ("2026-06-01T10:15", "2026-06-01T10:15:00+02:00"),
        ("2026-03-29T03:05", "2026-03-29T03:00:00+02:00"),
    ],
)
def test_the_last_run_time_is_the_latest_that_has_come(now, last):
    found = Schedule("*/15 * * * *", "Europe/Berlin").last_until(at(now))
    assert datetime.fromtimestamp(found, BERLIN).isoformat() == last


def test_the_last_run_time_in_a_repeated_hour_is_in_its_first_run():
    schedule = Schedule("*/15 * * * *", "Europe/Berlin")
    found = schedule.last_until(at("2026-10-25T02:05", fold=1))
    assert found == at("2026-10-25T02:45")


def test_a_day_of_month_or_a_day_of_week_is_enough():
    assert runs("0 0 13 * 5", at("2026-02-01T00:00"), 3) == [
        "2026-02-06T00:00:00+01:00",
        "2026-02-13T00:00:00+01:00",
        "2026-02-20T00:00:00+01:00",
    ]


@pytest.mark.parametrize(
    ("cron", "count"), [("*/30 * * * *", 1440), ("0 9 * * *", 30), ("5 4 29 2 *", 0)]
)
def test_the_runs_of_a_month_are_counted(cron, count):
    assert Schedule(cron).count(at("2026-03-10T10:00"), 30) == count


def test_count_runs_equals_the_number_of_run_times():
    schedule, start = Schedule("*/20 3,9 * * 1-5"), at("2026-06-03T09:10")
    found, time = 0, start
    while (time := schedule.next_after(time)) <= start + 30 * 86_400:
        found += 1
    assert schedule.count(start, 30) == found


def test_a_time_zone_must_be_an_iana_name():
    assert check_zone("America/New_York") == "America/New_York"
    with pytest.raises(ValueError, match="Mars/X"):
        check_zone("Mars/X")
