"""A start reads `__consumer_offsets` back, whatever happened to that topic meanwhile."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import raw_batches
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient, array, int8, int32, int64, string
from tests.support.under_test import against_kafka, broker_on

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, LIST_GROUPS, CREATE_PARTITIONS = 8, 9, 10, 16, 37
LOADING, NOT_COORDINATOR = 14, 16
NO_COORDINATOR_YET = (LOADING, 15, NOT_COORDINATOR)
GROUP_TOPIC = "__consumer_offsets"
CONTROL, TRANSACTIONAL = 0x20, 0x10
WAIT_S = 120
# By Java's hash of their single character: 99 and 102.
ODD, EVEN = "c", "f"

pytestmark = pytest.mark.skipif(against_kafka(), reason="Kafka's own directory is not written to")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    one = broker_on(tmp_path, {"offsets.topic.num.partitions": "2"})
    one.start()
    yield one
    one.end()


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient(broker.host, broker.port, timeout_s=WAIT_S)


def find_coordinator(client: RawClient) -> None:
    answer = client.call(FIND_COORDINATOR, 0, string("any"))
    assert answer.number(2) == 0


def commit(client: RawClient, group: str, offset: int) -> int:
    partition = int32(0) + int64(offset) + string("")
    topics = array(string("t") + array(partition))
    body = string(group) + int32(-1) + string("") + int64(-1) + topics
    answer = client.call(OFFSET_COMMIT, 2, body)
    assert (answer.number(4), answer.string(), answer.number(4), answer.number(4)) == (1, "t", 1, 0)
    return answer.number(2)


def committed(client: RawClient, group: str) -> tuple[int, int]:
    """(error, offset), once the groups are loaded."""
    deadline = time.monotonic() + WAIT_S
    while True:
        answer = client.call(OFFSET_FETCH, 1, string(group) + array(string("t") + array(int32(0))))
        assert (answer.number(4), answer.string()) == (1, "t")
        assert (answer.number(4), answer.number(4)) == (1, 0)
        offset, _, error = answer.number(8), answer.string(), answer.number(2)
        if error not in NO_COORDINATOR_YET or time.monotonic() > deadline:
            return error, offset
        time.sleep(0.05)


def listed(client: RawClient) -> tuple[int, set[str]]:
    """(error, ids)."""
    answer = client.call(LIST_GROUPS, 0, b"")
    error, count = answer.number(2), answer.number(4)
    return error, {(answer.string() or "", answer.string())[0] for _ in range(count)}


def append(broker: BrokerProcess, directory: Path, partition: int, batch: bytes) -> None:
    """Append a batch to a partition of the stopped broker."""
    assert not broker.running
    (path,) = (directory / f"{GROUP_TOPIC}-{partition}").glob("*.log")
    with path.open("ab") as file:
        file.write(batch)


def test_a_marker_without_records_does_not_stop_groups(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Kafka's cleaner leaves such batches: the last one of a producer, without its records."""
    with connect(broker) as client:
        client.create_topic("t")
        find_coordinator(client)
        assert [commit(client, group, 7) for group in (EVEN, ODD)] == [0, 0]
    broker.kill()
    directory = next(tmp_path.rglob(f"{GROUP_TOPIC}-0")).parent
    empty = raw_batches.batch(
        (),
        base_offset=1,
        last_offset_delta=0,
        leader_epoch=0,
        attributes=CONTROL | TRANSACTIONAL,
        producer_id=5,
        producer_epoch=0,
    )
    append(broker, directory, 0, empty)
    broker.start()
    with connect(broker) as client:
        assert [committed(client, group) for group in (EVEN, ODD)] == [(0, 7), (0, 7)]
        assert listed(client) == (0, {EVEN, ODD})


def test_an_acknowledged_commit_survives_more_partitions_of_the_offsets_topic(
    broker: BrokerProcess,
) -> None:
    """The group then maps to another partition; its records in the old one no longer count."""
    with connect(broker) as client:
        client.create_topic("t")
        find_coordinator(client)
        assert commit(client, ODD, 5) == 0  # into partition 99 % 2
        grown = array(string(GROUP_TOPIC) + int32(3) + int32(-1))
        answer = client.call(CREATE_PARTITIONS, 0, grown + int32(WAIT_S * 1000) + int8(0))
        assert (answer.number(4), answer.number(4)) == (0, 1)
        assert (answer.string(), answer.number(2)) == (GROUP_TOPIC, 0)
    broker.stop()
    broker.start()
    with connect(broker) as client:
        assert committed(client, ODD)[0] == 0
        assert commit(client, ODD, 100) == 0  # into partition 99 % 3
    broker.stop()
    broker.start()
    with connect(broker) as client:
        assert committed(client, ODD) == (0, 100)
