"""Times on the command line."""

import click
import pytest

from client.commands.times import parse_duration, parse_time, time_text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("0", 0),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123", 1_700_000_000_123),
        ("2023-11-14", 1_699_920_000_000),
    ],
)
def test_a_time_is_parsed(text, wanted):
    assert parse_time(text) == wanted


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "2023-13-01", "1.5"])
def test_an_invalid_time_is_refused(text):
    with pytest.raises(click.UsageError, match="is not a time"):
        parse_time(text)


@pytest.mark.parametrize(
    ("time_ms", "wanted"),
    [
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**63 - 1, str(2**63 - 1)),
    ],
)
def test_a_time_is_shown(time_ms, wanted):
    assert time_text(time_ms) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("500ms", 500), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("7d", 604_800_000)],
)
def test_a_duration_is_parsed(text, wanted):
    assert parse_duration(text) == wanted


@pytest.mark.parametrize("digits", [str(2**63), "9" * 30, "9" * 5000])
@pytest.mark.parametrize("unit", ["", "ms", "d"])
def test_a_number_that_is_too_large_is_refused_in_one_sentence(digits, unit):
    with pytest.raises(click.UsageError, match="is too large; the maximum is"):
        (parse_duration if unit else parse_time)(digits + unit)


def test_a_time_before_1970_is_refused():
    with pytest.raises(click.UsageError, match="is before 1970"):
        parse_time("1969-12-31T23:59:59.999Z")


@pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1.5h", "PT1H", "1 h"])
def test_an_invalid_duration_is_refused(text):
    with pytest.raises(click.UsageError, match="is not a duration"):
        parse_duration(text)
