"""Regular expressions of clients."""

import pytest

from broker.runtime.expressions import whole_matcher


def test_the_whole_text_must_match():
    matches = whole_matcher("a.c")
    assert matches("abc")
    assert not matches("abcd")
    assert not matches("xabc")


@pytest.mark.parametrize("pattern", ["[", "(?=a)", r"(a)\1"])
def test_an_expression_that_kafka_refuses_is_invalid(pattern):
    with pytest.raises(ValueError, match=r"missing|invalid"):
        whole_matcher(pattern)


def test_no_expression_takes_long():
    assert not whole_matcher("(a+)+(a|aa)*b")("a" * 249)


@pytest.mark.parametrize(
    ("pattern", "text", "is_match"),
    [
        ("", "", True),
        ("", "a", False),
        ("(?i)T[0-9]+", "t12", True),
        (".*", "a\nb", False),
        ("(?s).*", "a\nb", True),
        ("a|ab", "ab", True),
        ("\\pL+", "añ", True),
    ],
)
def test_it_is_matched_as_by_itself(pattern, text, is_match):
    assert whole_matcher(pattern)(text) is is_match


@pytest.mark.parametrize("count", [5, 20, 100])
def test_a_large_expression_is_matched_as_well(count):
    """RE2 compiles no set of the largest."""
    pattern = "|".join(f"[a-z]{{1000}}x{number}" for number in range(count))
    matches = whole_matcher(pattern)
    assert matches("a" * 1000 + "x3")
    assert not matches("a" * 999 + "x3")
