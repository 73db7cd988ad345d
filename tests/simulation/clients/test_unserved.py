"""Offsets out of range: which of them a broker must not tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.clients.unserved import look_at_refusal
from tests.simulation.record import Record
from tests.support.log_ledger import HIGH_WATERMARK

KEY = ("t", 0)


@pytest.mark.parametrize(
    ("position", "start", "topic", "is_noted"),
    [
        (5, None, {}, True),
        (5, None, {"is_trimmed": True}, False),
        (5, 5, {"is_trimmed": True}, True),
        (4, 5, {"is_trimmed": True}, False),
        (4, 0, {"is_trimmed": True, "may_be_gone": True}, False),
        (9, 5, {"is_trimmed": True}, False),  # the log may end before it
    ],
)
def test_an_offset_in_the_log_is_not_out_of_range(
    position: int, start: int | None, topic: dict[str, bool], is_noted: bool
) -> None:
    record = Record()
    record.reached(KEY, HIGH_WATERMARK, 8, 1)
    flags = {"is_trimmed": False, "may_be_gone": False} | topic
    reading: Any = SimpleNamespace(topic=SimpleNamespace(**flags), key=KEY)
    asking: Any = SimpleNamespace(began_ns=2)
    look_at_refusal("c", record, asking, (reading, position, 1), 3, start)
    assert len(record.unserved) == is_noted
    look_at_refusal("c", record, asking, (reading, position, 56), 3, start)
    assert len(record.unserved) == is_noted
