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
