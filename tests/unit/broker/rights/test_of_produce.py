"""Produce: acks=0, ids, transactional batches, and what waits while a right is taken away."""

import asyncio
from typing import Any

from broker.transactions.transaction_coordinator import TransactionCoordinator
from tests.support.rights_cases import TOPIC, TXN, UNKNOWN_ID, WRITE, batch, grant
from tests.support.rights_rig import RightsRig, codes


def topics(*names: str, records: Any = None) -> list[dict[str, Any]]:
    return [
        {"name": name, "partition_data": [{"index": 0, "records": records or batch()}]}
        for name in names
    ]


async def end_offset(rights: RightsRig) -> int:
    return rights.rig.services.partitions.get("t", 0).log.end_offset


async def test_what_may_be_written_is_written_beside_what_may_not(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, WRITE, "t"))
    answer = await rights.ask("PRODUCE", 9, acks=1, timeout_ms=1, topic_data=topics("a", "t", "m"))
    found = [(one.name, one.partition_responses[0].error_code) for one in answer.responses]
    assert found == [("a", 29), ("t", 0), ("m", 29)]


async def test_acks_0_closes_the_connection_and_appends_the_rest(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, WRITE, "t"))
    before = await end_offset(rights)
    assert await rights.ask("PRODUCE", 9, acks=0, timeout_ms=1, topic_data=topics("t", "m")) is None
    (reason,) = rights.rig.connection.aborted
    assert "TOPIC_AUTHORIZATION_FAILED" in reason
    assert await end_offset(rights) == before + 1


async def test_acks_0_without_any_right_appends_nothing(rights: RightsRig) -> None:
    assert await rights.ask("PRODUCE", 9, acks=0, timeout_ms=1, topic_data=topics("t")) is None
    assert len(rights.rig.connection.aborted) == 1
    assert await end_offset(rights) == 0


async def test_acks_0_with_the_right_closes_nothing(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, WRITE, "t"))
    assert await rights.ask("PRODUCE", 9, acks=0, timeout_ms=1, topic_data=topics("t")) is None
    assert rights.rig.connection.aborted == []


async def test_a_topic_is_refused_under_its_id(rights: RightsRig) -> None:
    data = [
        {"topic_id": one, "partition_data": [{"index": 0, "records": batch()}]}
        for one in (rights.topic_id, UNKNOWN_ID)
    ]
    answer = await rights.ask("PRODUCE", 13, acks=1, timeout_ms=1, topic_data=data)
    assert codes(answer) == [100, 29] or codes(answer) == [29, 100]


async def test_a_transactional_batch_needs_its_id(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, WRITE))
    data = topics("t", records=batch(7))
    ask = {"transactional_id": "x", "acks": -1, "timeout_ms": 1000}
    assert codes(await rights.ask("PRODUCE", 11, **ask, topic_data=data)) == [53]
    rights.allow(grant(TOPIC, WRITE), grant(TXN, WRITE))
    assert 53 not in codes(await rights.ask("PRODUCE", 11, **ask, topic_data=data))


async def test_an_id_without_a_transactional_batch_does_nothing(
    rights: RightsRig, monkeypatch: Any
) -> None:
    def line_up(*_: object) -> None:
        raise AssertionError("the id of another is not waited for")

    monkeypatch.setattr(TransactionCoordinator, "line_up", line_up)
    rights.allow(grant(TOPIC, WRITE))
    ask = {"transactional_id": "x", "acks": 1, "timeout_ms": 1000}
    assert codes(await rights.ask("PRODUCE", 12, **ask, topic_data=topics("t"))) == [0]


async def test_a_queued_batch_is_authorised_again(rights: RightsRig, monkeypatch: Any) -> None:
    appends = rights.rig.services.appends
    rights.allow(grant(TOPIC, WRITE))
    monkeypatch.setattr(appends, "_must_wait", lambda _: True)
    ask = {"acks": 1, "timeout_ms": 60_000}
    waiting = asyncio.create_task(rights.ask("PRODUCE", 9, **ask, topic_data=topics("t")))
    await asyncio.sleep(0.01)
    assert appends.queued
    rights.allow()
    monkeypatch.undo()
    appends.drain()
    assert codes(await waiting) == [29]
    assert await end_offset(rights) == 0


async def test_a_queued_batch_goes_on_after_another_change(
    rights: RightsRig, monkeypatch: Any
) -> None:
    appends = rights.rig.services.appends
    rights.allow(grant(TOPIC, WRITE))
    monkeypatch.setattr(appends, "_must_wait", lambda _: True)
    ask = {"acks": 1, "timeout_ms": 60_000}
    waiting = asyncio.create_task(rights.ask("PRODUCE", 9, **ask, topic_data=topics("t")))
    await asyncio.sleep(0.01)
    rights.allow(grant(TOPIC, WRITE), grant(TXN, WRITE))
    monkeypatch.undo()
    appends.drain()
    assert codes(await waiting) == [0]


async def test_what_lined_up_behind_a_transaction_is_authorised_again(
    rights: RightsRig, monkeypatch: Any
) -> None:
    ended = asyncio.Event()

    async def free() -> None:
        await ended.wait()

    monkeypatch.setattr(TransactionCoordinator, "is_free", lambda *_: False)
    monkeypatch.setattr(TransactionCoordinator, "line_up", lambda *_: free())
    rights.allow(grant(TOPIC, WRITE), grant(TXN, WRITE))
    data = topics("t", records=batch(7))
    ask = {"transactional_id": "x", "acks": -1, "timeout_ms": 1000}
    waiting = asyncio.create_task(rights.ask("PRODUCE", 12, **ask, topic_data=data))
    await asyncio.sleep(0.01)
    rights.allow(grant(TXN, WRITE))
    ended.set()
    assert codes(await waiting) == [29]


async def test_each_topic_is_authorised_again_in_each_piece_of_a_large_request(
    rights: RightsRig, monkeypatch: Any
) -> None:
    monkeypatch.setattr("broker.handlers.produce.LARGE", 0)
    monkeypatch.setattr("broker.large_produces.LARGE", 0)
    monkeypatch.setattr("broker.large_produces.PIECE_COUNT", 4)  # two topics and partitions
    rights.allow(grant(TOPIC, WRITE))
    data = topics("t", "t", "m", "t")
    asking = asyncio.create_task(
        rights.ask("PRODUCE", 9, acks=1, timeout_ms=1_000, topic_data=data)
    )
    while await end_offset(rights) < 2:
        await asyncio.sleep(0)
    rights.allow(grant(TOPIC, WRITE, "t"))
    found = [one.partition_responses[0].error_code for one in (await asking).responses]
    assert found == [0, 0, 29, 0]
    assert await end_offset(rights) == 3
