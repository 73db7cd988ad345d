"""Timestamps of appended batches: each bound at its edge."""

import pytest

from protocol.record_batch import read_header
from storage.appending import check_timestamps
from storage.errors import InvalidTimestamp
from tests.support.log_house import NOW, batch


@pytest.mark.parametrize(
    ("first", "count", "accepted"),
    [
        (NOW - 100, 1, True),
        (NOW - 101, 1, False),
        (NOW + 50, 1, True),
        (NOW + 51, 1, False),
        (NOW + 49, 2, True),
        (NOW + 49, 3, False),
        (-1, 1, True),
    ],
)
def test_bounds(first, count, accepted):
    header = read_header(batch(count=count, timestamp=first))
    if accepted:
        check_timestamps(header, NOW, 100, 50)
        return
    with pytest.raises(InvalidTimestamp) as caught:
        check_timestamps(header, NOW, 100, 50)
    assert (caught.value.earliest, caught.value.latest) == (NOW - 100, NOW + 50)
