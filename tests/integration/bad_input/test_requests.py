"""Well-formed requests for things that do not exist, or for too much.

The codes are Apache Kafka 4.3's answers; a comment says where ours differ, and why.
"""

import struct

import pytest

from tests.integration.bad_input.conftest import HOSTILE
from tests.support.raw_batches import batch
from tests.support.raw_client import (
    DELETE_TOPICS,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
    topic_to_create,
)

OUT_OF_RANGE, UNKNOWN_TOPIC, INVALID_TOPIC, UNSUPPORTED_VERSION = 1, 3, 17, 35
INVALID_PARTITIONS, INVALID_REPLICATION, INVALID_REQUEST, POLICY = 37, 38, 42, 44
SESSION_NOT_FOUND, UNKNOWN_EPOCH = 70, 75


@pytest.mark.parametrize("offset", [-1, -(2**63), 99_999_999, 2**63 - 1])
def test_fetch_from_an_invalid_offset(connect, offset):
    fetched = connect().fetch(HOSTILE, offset)
    assert (fetched.error, fetched.records) == (OUT_OF_RANGE, b"")


def test_fetch_at_the_end_is_empty(connect):
    client = connect()
    fetched = client.fetch(HOSTILE, client.end_offset(HOSTILE))
    assert (fetched.error, fetched.records) == (0, b"")


@pytest.mark.parametrize("size_max", [0, 1])
def test_fetch_of_no_bytes_gives_a_whole_batch(connect, size_max):
    """KIP-74: the consumer must make progress."""
    client = connect()
    sent = batch([b"x" * 5000])
    produced = client.produce(HOSTILE, sent)
    fetched = client.fetch(HOSTILE, produced.base_offset, size_max=size_max)
    assert fetched.error == 0
    assert fetched.records[61:] == sent[61:]


@pytest.mark.parametrize("size_max", [-1, -(2**31)])
def test_fetch_of_a_negative_size(connect, size_max):
    """Kafka fails within (-1); one batch, or any error, is as good."""
    client = connect()
    produced = client.produce(HOSTILE, batch([b"x" * 100]))
    fetched = client.fetch(HOSTILE, produced.base_offset, size_max=size_max)
    assert len(fetched.records) < 1000


@pytest.mark.parametrize(("topic", "partition"), [(HOSTILE, 5), (HOSTILE, -1), ("nowhere", 0)])
def test_fetch_from_an_unknown_partition(connect, topic, partition):
    assert connect().fetch(topic, 0, partition).error == UNKNOWN_TOPIC


def test_fetch_of_100_000_partitions_is_bounded(connect):
    """Each asks for a mebibyte of the same partition: the whole answer would be 100 GiB."""
    client = connect()
    client.produce(HOSTILE, batch([b"x" * 100_000]))
    end = client.end_offset(HOSTILE)
    partition = int32(0) + int64(end - 1) + int32(1 << 20)
    body = int32(-1) + int32(0) + int32(1) + int32(1 << 20) + int8(0)
    body += array(string(HOSTILE) + array(*[partition] * 100_000))
    client.socket.settimeout(60)
    answer = client.call(FETCH, 4, body)
    assert len(answer.data) < 100_000 * 60 + (4 << 20)


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (12345, 1, SESSION_NOT_FOUND),
        (-5, 7, SESSION_NOT_FOUND),
        (0, 5, SESSION_NOT_FOUND),
        (0, 0, 0),
        (0, -1, 0),
        (12345, -1, 0),
        (12345, 0, 0),
    ],
)
def test_unknown_fetch_sessions(connect, session_id, epoch, code):
    head = struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, session_id, epoch)
    answer = connect().call(FETCH, 7, head + array() + array())
    answer.number(4)
    assert answer.number(2) == code


@pytest.mark.parametrize("timestamp", [-3, -4, -5, -99, -(2**63)])
def test_list_offsets_of_times_unknown_in_its_version(connect, timestamp):
    asked = array(string(HOSTILE) + array(int32(0) + int64(timestamp)))
    answer = connect().call(LIST_OFFSETS, 1, int32(-1) + asked)
    answer.number(4)
    answer.string()
    answer.take(8)
    assert answer.number(2) == UNSUPPORTED_VERSION


@pytest.mark.parametrize(("topic", "partition"), [(HOSTILE, 5), (HOSTILE, -1), ("nowhere", 0)])
def test_list_offsets_of_an_unknown_partition(connect, topic, partition):
    asked = array(string(topic) + array(int32(partition) + int64(-1)))
    answer = connect().call(LIST_OFFSETS, 1, int32(-1) + asked)
    answer.number(4)
    answer.string()
    answer.take(8)
    assert answer.number(2) == UNKNOWN_TOPIC


@pytest.mark.parametrize(
    ("topic", "current_epoch", "epoch", "code", "end"),
    [
        (HOSTILE, -1, 999, 0, -1),
        (HOSTILE, 999, 0, UNKNOWN_EPOCH, -1),
        ("nowhere", -1, 0, UNKNOWN_TOPIC, -1),
    ],
)
def test_offset_for_unknown_epochs(connect, topic, current_epoch, epoch, code, end):
    asked = array(string(topic) + array(int32(0) + int32(current_epoch) + int32(epoch)))
    answer = connect().call(OFFSET_FOR_LEADER_EPOCH, 3, int32(-1) + asked)
    answer.take(8)
    answer.string()
    assert answer.number(4) == 1
    assert (answer.number(2), answer.number(4)) == (code, 0)
    answer.number(4)
    assert answer.number(8) == end


NAMES = ["..", ".", "", "x" * 250, "a/b", "../up", "a\0b", "%2e%2e", "a b", "a:b", b"\xff\xfe"]


@pytest.mark.parametrize("name", NAMES)
def test_invalid_topic_names(connect, name):
    client = connect()
    assert client.create_topic(name) == INVALID_TOPIC


def test_names_that_would_collide(connect):
    """`.` and `_` are one character in Kafka's metric names."""
    client = connect()
    assert client.create_topic("one.two") == 0
    assert client.create_topic("one_two") == INVALID_TOPIC
    assert client.create_topic("x" * 249) == 0


@pytest.mark.parametrize(
    ("partitions", "replicas", "code"),
    [
        (1_000_000, 1, POLICY),
        (2**31 - 1, 1, POLICY),
        (0, 1, INVALID_PARTITIONS),
        (-5, 1, INVALID_PARTITIONS),
        (1, 3, INVALID_REPLICATION),
        (1, 0, INVALID_REPLICATION),
        (1, -5, INVALID_REPLICATION),
    ],
)
def test_invalid_topics(connect, partitions, replicas, code):
    client = connect()
    assert client.create_topic("impossible", partitions, replicas) == code
    assert client.fetch("impossible", 0).error == UNKNOWN_TOPIC


def test_the_same_topic_twice_in_one_request(connect):
    twice = topic_to_create("twice")
    codes = connect().create_topics(twice, twice, topic_to_create("beside"))
    assert sorted(codes) == [0, INVALID_REQUEST]


@pytest.mark.parametrize("count", [10_001, 50_000])
def test_too_many_topics_in_one_request(connect, count):
    client = connect()
    client.socket.settimeout(60)
    codes = client.create_topics(*[topic_to_create(f"many-{n}") for n in range(count)])
    assert len(codes) == count
    assert set(codes) == {POLICY}


def test_deleting_unknown_topics(connect):
    names = array(string("nowhere"), string(".."), string("../control"))
    answer = connect().call(DELETE_TOPICS, 1, names + int32(10_000))
    answer.number(4)
    found = [(answer.string(), answer.number(2)) for _ in range(answer.number(4))]
    assert sorted(found) == [("..", 3), ("../control", 3), ("nowhere", 3)]


def test_metadata_of_invalid_names_creates_nothing(connect):
    names = [b"..", b"a/b", b"x" * 300, b""]
    answer = connect().call(METADATA, 4, array(*map(string, names)) + int8(1))
    codes = metadata_codes(answer)
    assert set(codes) == {INVALID_TOPIC}


def metadata_codes(answer) -> list[int]:
    """Return the error code of each topic in a Metadata answer of version 4."""
    answer.number(4)
    for _ in range(answer.number(4)):
        answer.number(4)
        answer.string()
        answer.number(4)
        answer.string()
    answer.string()
    answer.number(4)
    codes = []
    for _ in range(answer.number(4)):
        codes.append(answer.number(2))
        answer.string()
        answer.number(1)
        assert answer.number(4) == 0
    return codes


def test_a_million_empty_names(connect):
    client = connect()
    client.socket.settimeout(60)
    client.send_request(METADATA, 4, array(*[int16(0)] * 200_000) + int8(0))
    answer = client.receive_frame()
    assert len(answer) < 200_000 * 20


@pytest.mark.parametrize("transactional_id", ["tx", "x" * 32_000])
def test_before_a_coordinator_was_looked_for_there_is_none(connect, transactional_id):
    """The first FindCoordinator creates its topic. (Kafka's may not be ready yet: 14 to 16.)"""
    answer = connect().call(INIT_PRODUCER_ID, 0, string(transactional_id) + int32(1000))
    answer.number(4)
    code, producer_id, epoch = struct.unpack(">hqh", answer.take(12))
    assert code in (14, 15, 16)
    assert (producer_id, epoch) == (-1, -1)
