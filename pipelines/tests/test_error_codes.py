"""What an error code becomes: nothing, a retry, or an error."""

from __future__ import annotations

import pytest

from pyspark_barnabas.wire.error_codes import (
    ERRORS,
    RETRIABLE,
    UNKNOWN_TOPIC,
    Retriable,
    check,
    check_partition,
    error_name,
)
from pyspark_barnabas.wire.errors import BrokerRefused


def test_no_error_passes():
    check(0, "writing")


@pytest.mark.parametrize("code", [*ERRORS, 119])
def test_a_code_is_tried_again_or_final(code):
    with pytest.raises(Retriable if code in RETRIABLE else BrokerRefused) as caught:
        check(code, "writing to t-0", "no room")
    assert str(caught.value) == (f"writing to t-0: the broker answers {error_name(code)} (no room)")


def test_an_unknown_code_is_named_by_its_number():
    assert error_name(119) == "error code 119"


def test_a_partition_that_its_leader_does_not_know_yet_is_asked_for_again():
    with pytest.raises(Retriable, match=r"t-0: the broker answers UNKNOWN_TOPIC_OR_PARTITION"):
        check_partition(UNKNOWN_TOPIC, "writing to t-0")
    with pytest.raises(BrokerRefused):
        check_partition(2, "writing to t-0")
    check_partition(0, "writing to t-0")
