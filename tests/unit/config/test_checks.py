"""Each check: values that pass, values that fail, and the text of the refusal."""

import pytest

from config.checks import (
    accepts_all,
    at_least,
    between,
    between_or,
    not_empty,
    one_of,
    replica_list,
    some_of,
)

CASES = [
    (at_least(1), [1, 2], [0, -1], "1 or more"),
    (between(0, 1), [0, 0.5, 1], [-0.1, 1.1, float("nan")], "0 to 1"),
    (between_or(1, 9, -1), [1, 9, -1], [0, 10, -2], "1 to 9, or -1"),
    (one_of("a", "b"), ["a", "b"], ["A", "", "c"], "a, b"),
    (some_of("a", "b"), [(), ("a",), ("b", "a"), ("a", "a")], [("c",), ("a", "c")], "a list of"),
    (replica_list(), [(), ("*",), ("0:1", "12:3")], [("0:1", "*"), ("x",), ("0:",)], "a list"),
    (not_empty(), ["x", ("x",), ("x", "y")], ["", (), ("x", "x")], "not empty"),
    (accepts_all(), [0, "", ()], [], ""),
]


@pytest.mark.parametrize(("check", "good", "bad", "words"), CASES)
def test_a_check_accepts_and_refuses(check, good, bad, words):
    assert [value for value in good if not check.accepts(value)] == []
    assert [value for value in bad if check.accepts(value)] == []
    assert words in check.allowed
