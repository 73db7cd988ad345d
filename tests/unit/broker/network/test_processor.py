"""A processor closes connections past their deadlines, and limits its log lines."""

import asyncio
import logging
import socket
from types import SimpleNamespace

import pytest
import uvloop

from broker.network.connection import Connection
from tests.unit.broker.network.test_connection import Rig, frames


async def test_an_unfinished_frame_meets_its_deadline() -> None:
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


async def test_connections_end_in_the_order_in_which_they_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    for _ in range(20):
        rig.connect()
    began, ended = list(rig.processor.connections), []
    monkeypatch.setattr(Connection, "abort", lambda connection, _: ended.append(connection))
    rig.processor.close_all(abort=True)
    assert ended == began
    assert ended[-1] is rig.connection


async def test_all_refusals_are_counted_and_few_are_logged(
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
    assert rig.transport.ended == "aborted"
    rig.connection.connection_lost(None)
    assert rig.budget.used_bytes == 0
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


async def test_many_bad_requests_leave_no_state_behind() -> None:
    rig = Rig(in_flight_max=2)
    rig.receive(frames(*[254] * 10))
    await rig.pump()
    await asyncio.sleep(0)
    assert rig.transport.written == b"bad" * 10
    assert (rig.budget.used_bytes, len(rig.connection.slots)) == (0, 0)
    assert rig.transport.reading


async def decoded_in_thread(rig: Rig) -> None:
    """Run the call as a thread would, and return to the loop."""
    ((call, done),) = rig.jobs
    rig.jobs.clear()
    try:
        call()
    except Exception as error:
        done(error)
    else:
        done(None)
    await rig.pump()


async def test_a_slow_frame_is_decoded_in_a_thread_and_later_frames_wait() -> None:
    rig = Rig()
    rig.receive(frames(1, 100, 2, 101, 3))
    await rig.pump()
    assert [request.header.correlation_id for request in rig.take()] == [1]
    assert not rig.transport.reading
    await rig.pump()
    assert rig.take() == []
    await decoded_in_thread(rig)
    requests = rig.take()
    assert [request.header.correlation_id for request in requests] == [100, 2]
    await decoded_in_thread(rig)
    assert rig.metrics.bad_requests == 1
    (last,) = rig.take()
    assert rig.transport.reading
    assert rig.jobs == []
    assert len(rig.connection.slots) == 5
    assert last.header.correlation_id == 3


async def test_a_disconnect_during_a_threads_decode_leaves_no_state_behind() -> None:
    rig = Rig()
    rig.receive(frames(100, 2))
    await rig.pump()
    rig.connection.connection_lost(None)
    await decoded_in_thread(rig)
    assert (rig.take(), rig.connection.decoded, rig.budget.used_bytes) == ([], None, 0)


async def test_a_disconnect_removes_the_frame_from_the_queue_for_a_thread() -> None:
    rig = Rig()
    withdrawn: list[str] = []
    walk = SimpleNamespace(withdraw=lambda: withdrawn.append("walk"))
    rig.record_work.submit = lambda *_: walk
    rig.receive(frames(100))
    await rig.pump()
    rig.connection.connection_lost(None)
    assert (withdrawn, rig.budget.used_bytes) == (["walk"], 0)


async def _cancelled_after(turns: int) -> None:
    rig = Rig()
    rig.connection.connection_lost(None)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        client.sendall(frames(1))
        ours, _ = server.accept()
        ours.setblocking(False)
        adopting = asyncio.create_task(rig.processor.adopt(ours, rig.connection.info))
        for _ in range(turns):
            await asyncio.sleep(0)
        adopting.cancel()
        await asyncio.wait([adopting])
        if adopting.cancelled():
            assert rig.processor.connections == {}
        else:
            rig.processor.close_all(abort=True)
        for _ in range(3):
            await asyncio.sleep(0)
    assert rig.metrics.connections_now == 0
    assert rig.budget.used_bytes == 0


@pytest.mark.parametrize("turns", range(1, 5))
def test_a_stopping_acceptor_leaves_no_connection_half_open(turns: int) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_cancelled_after(turns))
