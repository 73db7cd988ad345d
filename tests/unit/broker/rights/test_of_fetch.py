"""Fetch: partitions without the right, replicas, and a fetch that waits while its right goes."""

import asyncio
from typing import Any

import pytest

from tests.support.rights_cases import CLUSTER, CLUSTER_ACTION, DESCRIBE, READ, TOPIC, batch, grant
from tests.support.rights_rig import RightsRig, codes

PLACE = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}


def named(*names: str) -> list[dict[str, Any]]:
    return [{"topic": name, "partitions": [PLACE]} for name in names]


async def produce(rights: RightsRig) -> None:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch()}]}]
    assert codes(await rights.admin("PRODUCE", 9, acks=-1, timeout_ms=9999, topic_data=data)) == [0]


async def test_partitions_without_the_right_are_refused_in_their_places(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, READ, "t"))
    answer = await rights.ask("FETCH", 12, max_wait_ms=0, min_bytes=0, topics=named("a", "t", "m"))
    found = [(one.topic, one.partitions[0].error_code) for one in answer.responses]
    assert (found, answer.error_code) == ([("a", 29), ("t", 0), ("m", 29)], 0)


async def test_what_is_refused_does_not_end_the_wait(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, READ, "t"))
    ask = rights.ask("FETCH", 12, max_wait_ms=60_000, min_bytes=1, topics=named("m", "t"))
    waiting = asyncio.create_task(ask)
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await produce(rights)
    answer = await waiting
    assert [one.partitions[0].error_code for one in answer.responses] == [29, 0]
    assert answer.responses[1].partitions[0].records


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_waiting_fetch_is_authorised_again(rights: RightsRig, by_id: bool) -> None:
    rights.allow(grant(TOPIC, READ, "t"))
    topics = [{"topic_id": rights.topic_id, "partitions": [PLACE]}] if by_id else named("t")
    version = 16 if by_id else 12
    for _ in range(2):  # the second is on the quick way
        rights.allow(grant(TOPIC, READ, "t"))
        ask = rights.ask("FETCH", version, max_wait_ms=60_000, min_bytes=1 << 20, topics=topics)
        waiting = asyncio.create_task(ask)
        await asyncio.sleep(0.02)
        await produce(rights)
        rights.allow()
        rights.rig.services.purgatory.notify(rights.rig.services.partitions.get("t", 0))
        for parked in tuple(rights.rig.services.partitions.get("t", 0).watchers):
            parked.complete()
        answer = await waiting
        (partition,) = answer.responses[0].partitions
        assert (partition.error_code, partition.records or b"") == (29, b"")


async def test_a_waiting_fetch_goes_on_after_another_change(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, READ, "t"))
    ask = rights.ask("FETCH", 12, max_wait_ms=60_000, min_bytes=1, topics=named("t"))
    waiting = asyncio.create_task(ask)
    await asyncio.sleep(0.02)
    rights.allow(grant(TOPIC, READ, "t"), grant(TOPIC, DESCRIBE, "t"))
    await produce(rights)
    answer = await waiting
    assert answer.responses[0].partitions[0].records


async def test_a_remembered_right_ends_with_its_acl(rights: RightsRig) -> None:
    rights.allow(grant(TOPIC, READ, "t"))
    for _ in range(3):
        answer = await rights.ask("FETCH", 12, max_wait_ms=0, min_bytes=0, topics=named("t"))
        assert codes(answer) == [0, 0] or set(codes(answer)) == {0}
    rights.allow()
    answer = await rights.ask("FETCH", 12, max_wait_ms=0, min_bytes=0, topics=named("t"))
    assert 29 in codes(answer)


@pytest.mark.parametrize("version", [14, 15])
async def test_a_replica_needs_the_cluster(rights: RightsRig, version: int) -> None:
    replica: dict[str, Any] = {"replica_state": {"replica_id": 2}}
    if version < 15:
        replica = {"replica_id": 2}
    topics = [{"topic_id": rights.topic_id, "partitions": [PLACE]}]
    ask = {"max_wait_ms": 0, "min_bytes": 0, "topics": topics, **replica}
    rights.allow(grant(TOPIC, READ))
    answer = await rights.ask("FETCH", version, **ask)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 29)
    rights.allow(grant(CLUSTER, CLUSTER_ACTION))
    answer = await rights.ask("FETCH", version, **ask)
    assert answer.responses[0].partitions[0].error_code == 6
