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
