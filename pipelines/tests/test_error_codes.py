"""What an error code becomes: nothing, a retry, or an error."""

from __future__ import annotations

import pytest

from pyspark_barnabas.wire.error_codes import ERRORS, RETRIABLE, Retriable, check, error_name
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
