"""A processor ends connections past their deadlines, and says so without flooding the log."""

import asyncio
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


async def test_an_api_that_cannot_be_imported_costs_one_connection() -> None:
    rig = Rig()
    rig.receive(frames(253))
    await rig.pump()
    assert (rig.transport.ended, rig.budget.used_bytes) == ("aborted", 0)
    assert rig.metrics.protocol_errors == 1


async def test_a_bad_request_is_answered_in_its_turn_and_the_connection_goes_on() -> None:
    rig = Rig()
    rig.receive(frames(1, 254, 2))
    await rig.pump()
    first, second = rig.take()
    assert [request.header.correlation_id for request in (first, second)] == [1, 2]
    assert rig.transport.written == b""
    rig.connection.respond(first, [b"a"])
    rig.connection.respond(second, [b"b"])
    await asyncio.sleep(0)
    assert (rig.transport.written, rig.transport.ended) == (b"abadb", "")
    assert (rig.budget.used_bytes, len(rig.connection.slots)) == (0, 0)
    assert (rig.metrics.bad_requests, rig.metrics.protocol_errors) == (1, 0)


async def test_many_bad_requests_leave_nothing_behind() -> None:
    rig = Rig(in_flight_max=2)
    rig.receive(frames(*[254] * 10))
    await rig.pump()
    await asyncio.sleep(0)
    assert rig.transport.written == b"bad" * 10
    assert (rig.budget.used_bytes, len(rig.connection.slots)) == (0, 0)
    assert rig.transport.reading
