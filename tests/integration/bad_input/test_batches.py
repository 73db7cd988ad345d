"""Record batches that must not get into a log, sent to a live broker.

The codes are Apache Kafka 4.3's answers to the same bytes; a comment says where ours differ, and
why.
"""

import gzip
import itertools
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.bad_input.conftest import HOSTILE
from tests.support.raw_batches import HEADER_BYTES, batch, record, values_of, varint
from tests.support.raw_client import (
    CREATE_TOPICS,
    LIST_OFFSETS,
    PRODUCE,
    RawClient,
    array,
    create_topics_body,
    frame,
    header,
    int16,
    int32,
    int64,
    produce_body,
    string,
    topic_to_create,
)

NONE, OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC = 0, 1, 2, 3
TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_ACKS = 10, 18, 21
INVALID_TIMESTAMP, INVALID_RECORD, UNSUPPORTED_CODEC, INVALID_TXN = 32, 87, 76, 53

MESSAGE_BYTES_MAX = 1_048_588  # max.message.bytes
RECORD_OVERHEAD = len(record(b"x" * 1_000_000)) - 1_000_000
HOUR_MS = 3_600_000
GOOD = batch([b"one", b"two"])


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_header_key_that_is_not_utf8_is_stored_and_served_as_it_is(connect, policy):
    client = connect()
    name = f"header-keys-{policy}"
    configs = array(string("cleanup.policy") + string(policy))
    topic = string(name) + int32(1) + int16(1) + array() + configs
    assert client.create_topics(topic) == [NONE]
    headers = varint(1) + varint(2) + b"\xff\xfe" + varint(1) + b"v"
    sent = batch([b"v"], body=record(b"v", key=b"k", headers=headers))
    produced = client.produce(name, sent)
    assert (produced.error, produced.base_offset) == (NONE, 0), produced.message
    assert client.fetch(name, 0).records[HEADER_BYTES:] == sent[HEADER_BYTES:]


def batch_of_size(size: int) -> bytes:
    made = batch([b"x" * (size - HEADER_BYTES - RECORD_OVERHEAD)])
    assert len(made) == size
    return made


def now_ms() -> int:
    return int(time.time() * 1000)


BATCHES = {
    "no bytes": (b"", INVALID_RECORD),
    "ten bytes": (b"x" * 10, INVALID_RECORD),
    "zeros": (bytes(100), CORRUPT),
    "cut by one byte": (GOOD[:-1], INVALID_RECORD),
    "cut within the header": (GOOD[:40], INVALID_RECORD),
    "two batches": (GOOD + GOOD, INVALID_RECORD),
    "a byte after the batch": (GOOD + b"x", INVALID_RECORD),  # Kafka cuts it off: 0
    "wrong CRC": (batch(crc=1), CORRUPT),
    "a bit flipped in a record": (GOOD[:-1] + bytes([GOOD[-1] ^ 4]), CORRUPT),
    "length 2^31 - 1": (batch(batch_length=2**31 - 1), INVALID_RECORD),  # Kafka overflows: -1
    "length -1": (batch(batch_length=-1), CORRUPT),
    "length 13": (batch(batch_length=13), CORRUPT),
    "length 48": (batch(batch_length=48), CORRUPT),
    "magic 0": (batch(magic=0), INVALID_RECORD),
    "magic 1": (batch(magic=1), INVALID_RECORD),
    "magic 3": (batch(magic=3), CORRUPT),
    "base offset 7": (batch(base_offset=7), INVALID_RECORD),
    "no records": (batch([], last_offset_delta=-1, record_count=0), INVALID_RECORD),
    "count 0": (batch(record_count=0), INVALID_RECORD),
    "count -1": (batch(record_count=-1), INVALID_RECORD),
    "count 2 of 1": (batch(record_count=2), INVALID_RECORD),
    "offsets for 2 of 1": (batch(last_offset_delta=1), INVALID_RECORD),
    "negative offset range": (batch(last_offset_delta=-5), INVALID_RECORD),
    "control batch": (batch(attributes=0x20), INVALID_RECORD),
    "producer without a sequence": (batch(producer_id=1, producer_epoch=0), INVALID_RECORD),
    "transactional, outside a transaction": (batch(attributes=0x10), INVALID_TXN),
    "codec 5": (batch(attributes=5), UNSUPPORTED_CODEC),  # Kafka fails within: -1
    "codec 7": (batch(attributes=7), UNSUPPORTED_CODEC),  # the same
    "larger than max.message.bytes": (batch_of_size(MESSAGE_BYTES_MAX + 1), TOO_LARGE),
    "larger, and a wrong CRC": (batch([b"x" * MESSAGE_BYTES_MAX], crc=1), TOO_LARGE),
    "two hours ahead": (batch(timestamp=now_ms() + 2 * HOUR_MS), INVALID_TIMESTAMP),
    "timestamp 2^63 - 1": (batch(timestamp=2**63 - 1), INVALID_TIMESTAMP),
    "timestamp -2^63": (batch(timestamp=-(2**63)), INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("acks", [-1, 1])
def test_wrong_batches_are_refused_and_not_stored(connect, name, acks):
    data, code = BATCHES[name]
    client = connect()
    end = client.end_offset(HOSTILE)
    produced = client.produce(HOSTILE, data, acks=acks)
    assert (produced.error, produced.base_offset) == (code, -1)
    assert client.end_offset(HOSTILE) == end


STORED = {
    "as large as may be": batch_of_size(MESSAGE_BYTES_MAX),
    "no timestamp": batch(timestamp=-1),
    "before 1970": batch(timestamp=-5),
    "a leader epoch of its own": batch(leader_epoch=99),
    "a sequence without a producer": batch(base_sequence=5),
    "attributes nobody knows": batch(attributes=0x4000),
}


@pytest.mark.parametrize("name", STORED)
def test_odd_batches_that_kafka_accepts_are_accepted(connect, name):
    client = connect()
    end = client.end_offset(HOSTILE)
    produced = client.produce(HOSTILE, STORED[name])
    assert (produced.error, produced.base_offset) == (NONE, end)
    stored = client.fetch(HOSTILE, end, size_max=2 * MESSAGE_BYTES_MAX).records
    assert stored[16:] == STORED[name][16:]  # all but base offset, length and leader epoch
    assert stored[8:12] == STORED[name][8:12]


def test_a_null_record_set_is_refused(connect):
    """Kafka 4.3 never answers it."""
    assert connect().produce(HOSTILE, None).error in (CORRUPT, INVALID_RECORD)


def test_damage_within_a_batch_of_right_crc_is_kept_as_sent(connect):
    """The broker does not unpack batches (unless `barnabas.validate.records` is set). Kafka: 87.

    What matters here: fetching it, and looking up offsets by time, does no harm.
    """
    client = connect()
    for body in (b"garbage", record(b"a", headers=varint(-1)), record(b"a", size=1000), b""):
        for attributes in range(5):
            data = batch([b"a"], body=body, attributes=attributes)
            produced = client.produce(HOSTILE, data)
            assert produced.error in (NONE, INVALID_RECORD, CORRUPT)
            if produced.error == NONE:
                stored = client.fetch(HOSTILE, produced.base_offset, size_max=1000).records
                assert stored[16 : len(data)] == data[16:]
                offsets_by_time(client, [HOSTILE], now_ms() - HOUR_MS)


def offsets_by_time(client: RawClient, topics: list[str], timestamp: int) -> list[tuple[int, int]]:
    """Return each topic's (error code, offset) for the first record at or after `timestamp`."""
    asked = array(*(string(name) + array(int32(0) + int64(timestamp)) for name in topics))
    answer = client.call(LIST_OFFSETS, 1, int32(-1) + asked)
    assert answer.number(4) == len(topics)
    found = {}
    for _ in topics:
        name = answer.string()
        assert (answer.number(4), answer.number(4)) == (1, 0)
        error = answer.number(2)
        answer.number(8)
        found[name] = error, answer.number(8)
    return [found[name] for name in topics]


def create_with_settings(client: RawClient, name: str, **settings: str) -> int:
    """Create a topic with these settings; an underscore stands for a dot."""
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    body = create_topics_body(topic_to_create(name, configs=configs))
    answer = client.call(CREATE_TOPICS, 4, body)
    assert (answer.number(4), answer.number(4), answer.string()) == (0, 1, name)
    return answer.number(2)


def gzip_bomb(size_mib: int) -> bytes:
    """Return gzip of `size_mib` MiB of zeros, in pieces of 10; its checksum is never reached."""
    packer = zlib.compressobj(9, wbits=31)
    pieces = [packer.compress(bytes(10 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)]
    return pieces[0] + pieces[1] * (size_mib // 10 - 1) + packer.flush()


def test_bombs_are_stored_compressed_and_not_unpacked(connect, control):
    """1 MiB of gzip unpacks to 1 GiB; a lookup by time has to unpack it, up to its bound."""
    client = connect()
    client.socket.settimeout(60)
    bomb = gzip_bomb(1000)
    topics = [f"bombs-{number}" for number in range(8)]
    for topic in topics:
        assert create_with_settings(client, topic) == NONE
        data = batch([b"x"], body=bomb, attributes=1, timestamp=1000, max_timestamp=5000)
        assert client.produce(topic, data).error == NONE
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(offsets_by_time, client, topics, 4000)
        served = 0
        while not asked.done():
            control.check_served(control.client)
            served += 1
        assert asked.result() == [(TOO_LARGE, -1)] * len(topics)
    # A client that waited for all the bombs would be served once; a few may get in before them.
    assert served > 5, f"others waited for the bombs: {served} answers meanwhile"
    assert control.memory_growth_bytes() < 300 << 20


def test_a_batch_larger_than_a_segment(connect):
    client = connect()
    code = create_with_settings(
        client, "small", segment_bytes=str(1 << 20), max_message_bytes=str(4 << 20)
    )
    assert code == NONE
    assert client.produce("small", batch_of_size((1 << 20) + 1)).error == RECORD_LIST_TOO_LARGE
    assert client.produce("small", batch_of_size(1 << 20)).error == NONE


def test_a_record_without_a_key_on_a_compacted_topic(connect):
    client = connect()
    assert create_with_settings(client, "compacted", cleanup_policy="compact") == NONE
    assert client.produce("compacted", batch([b"a"])).error == INVALID_RECORD
    keyed = batch([b"a"], body=record(b"a", key=b"k"))
    assert client.produce("compacted", keyed).error == NONE
    packed = batch([b"a"], body=gzip.compress(record(b"a")), attributes=1)
    assert client.produce("compacted", packed).error == INVALID_RECORD
    garbage = batch([b"a"], body=b"garbage", attributes=1)
    assert client.produce("compacted", garbage).error != NONE
    assert client.end_offset("compacted") == 1


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_invalid_acks(connect, acks):
    client = connect()
    end = client.end_offset(HOSTILE)
    assert client.produce(HOSTILE, GOOD, acks=acks).error == INVALID_ACKS
    assert client.end_offset(HOSTILE) == end


def test_acks_0_is_not_answered(connect):
    client = connect()
    end = client.end_offset(HOSTILE)
    client.send(frame(header(PRODUCE, 8) + produce_body(HOSTILE, GOOD, acks=0)))
    assert client.end_offset(HOSTILE) == end + 2


@pytest.mark.parametrize(
    "body",
    [
        produce_body(HOSTILE, batch(crc=1), acks=0),
        produce_body(HOSTILE, b"", acks=0),
        produce_body("nowhere", GOOD, acks=0),
        produce_body(HOSTILE, GOOD, partition=7, acks=0),
    ],
)
def test_acks_0_with_an_error_closes_the_connection(connect, body):
    """This is the only way to signal an error to a producer that expects no answer."""
    client = connect()
    client.send(frame(header(PRODUCE, 8) + body))
    assert client.is_closed()


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("nowhere", 0, UNKNOWN_TOPIC),
        (HOSTILE, 7, UNKNOWN_TOPIC),
        (HOSTILE, -1, UNKNOWN_TOPIC),
        ("a/b", 0, UNKNOWN_TOPIC),
        ("..", 0, UNKNOWN_TOPIC),
        ("../control", 0, UNKNOWN_TOPIC),
        ("", 0, UNKNOWN_TOPIC),
    ],
)
def test_producing_to_an_unknown_partition(connect, topic, partition, code):
    assert connect().produce(topic, GOOD, partition).error == code


def test_wrong_batches_among_right_ones_of_one_connection(connect):
    """Pipelined: each gets its own answer, in order, and only the right ones are stored."""
    client = connect()
    end = client.end_offset(HOSTILE)
    wrong = itertools.cycle([batch(crc=1), batch(record_count=5), b"", bytes(61)])
    sent = [batch([b"%d" % n]) if n % 3 else next(wrong) for n in range(60)]
    for n, data in enumerate(sent):
        client.send(frame(header(PRODUCE, 8, n) + produce_body(HOSTILE, data)))
    codes = []
    for n in range(60):
        answer = client.receive_frame()
        assert answer[:4] == int32(n)
        place = 4 + 4 + len(string(HOSTILE)) + 4 + 4
        codes.append(int.from_bytes(answer[place : place + 2], "big"))
    assert [code == NONE for code in codes] == [bool(n % 3) for n in range(60)]
    stored = b""
    while len(values_of(stored)) < 40:
        stored += client.fetch(HOSTILE, end + len(values_of(stored))).records
    assert values_of(stored) == [b"%d" % n for n in range(60) if n % 3]
