"""Settings as users type them: assignments, and keys that do not exist."""

import click
import pytest

from client.settings import parse_assignments, unknown_keys


def test_assignments_are_split_at_the_first_equals_sign():
    assert parse_assignments(["a=1", " b =x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


@pytest.mark.parametrize("text", ["", "a", "=1", " =1"])
def test_a_text_that_is_no_assignment_is_refused(text):
    with pytest.raises(click.UsageError, match="is not KEY=VALUE"):
        parse_assignments([text])


def test_a_misspelt_key_gets_a_suggestion():
    assert unknown_keys({"clenup.policy": "", "retention.ms": ""}) == "Did you mean cleanup.policy?"


@pytest.mark.parametrize(
    ("key", "value", "sent"),
    [
        ("retention.ms", "7d", "604800000"),
        ("retention.ms", "90s", "90000"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "1GiB", "1GiB"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("segment.bytes", "64 KiB", "65536"),
        ("segment.bytes", "1GB", "1GB"),
        ("barnabas.unflushed.bytes.max", "64MiB", "67108864"),
        ("log.flush.offset.checkpoint.interval.ms", "1m", "60000"),
        ("cleanup.policy", "compact", "compact"),
        ("retention.ms", "9999999999999w", "9999999999999w"),
    ],
)
def test_sizes_and_times_are_written_as_people_do(key: str, value: str, sent: str) -> None:
    assert parse_assignments([f"{key}={value}"]) == {key: sent}
