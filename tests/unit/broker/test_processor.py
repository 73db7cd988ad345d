"""A processor ends connections past their deadlines, and says so without flooding the log."""

import logging

import pytest

from tests.unit.broker.test_connection import Rig, frames


async def test_a_frame_begun_and_not_ended_meets_its_deadline() -> None:
    rig = Rig()
    rig.receive(frames(1)[:3])
    rig.clock.advance(29_000)
    rig.receive(frames(1)[3:4])  # a byte now and then does not help
    rig.processor.sweep()
    assert rig.transport.ended == ""
    rig.clock.advance(2_000)
    rig.processor.sweep()
    assert rig.transport.ended == "aborted"
    assert rig.metrics.frames_timed_out == 1


async def test_the_deadline_is_of_one_frame_not_of_a_busy_connection() -> None:
    rig = Rig()
    for _ in range(10):
        rig.receive(frames(1)[:3])
        rig.clock.advance(20_000)
        rig.processor.sweep()
        rig.receive(frames(1)[3:])
    assert rig.transport.ended == ""


async def test_idle_connections_end_and_active_ones_stay() -> None:
    rig = Rig()
    rig.clock.advance(599_000)
    rig.receive(frames(1))
    rig.clock.advance(2_000)
    rig.processor.sweep()
    assert rig.transport.ended == ""
    rig.clock.advance(600_000)
    rig.processor.sweep()
    assert rig.transport.ended == "aborted"
    assert rig.metrics.connections_closed_idle == 1


async def test_refusals_are_all_counted_and_few_are_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    with caplog.at_level(logging.WARNING, "barnabas.network"):
        for _ in range(100):
            rig.processor.count_refusal(rig.connection, ValueError("x"))
    assert rig.metrics.protocol_errors == 100
    assert len(caplog.records) == 5
