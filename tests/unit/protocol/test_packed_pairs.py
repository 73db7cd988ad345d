"""A list of structs of two numbers, kept as bytes: equal to a list, and encoded like one."""

import pytest

from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from protocol.packed_pairs import PACKED_PAIR, PackedPairs

PAIRS = [(7, 0), (1 << 62, (1 << 63) - 1), (0, 300)]


def packed_of(pairs):
    return b"".join(PACKED_PAIR.pack(*pair) for pair in pairs)


def make(producer_id, first_offset):
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def response(aborted):
    data = PartitionData(
        partition_index=3, high_watermark=9, aborted_transactions=aborted, records=b"r"
    )
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[data, data])])


def test_it_is_a_list_of_structs():
    packed = PackedPairs(make, packed_of(PAIRS[:1]))
    packed.extend(packed_of(PAIRS[1:]))
    assert len(packed) == 3
    assert list(packed) == [make(*pair) for pair in PAIRS]
    assert packed == [make(*pair) for pair in PAIRS]
    assert packed != [make(*pair) for pair in PAIRS[1:]]
    assert packed != 5
    assert not PackedPairs(make)


@pytest.mark.parametrize("version", [4, 11, 12, 18])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_it_is_encoded_as_the_list_is(version, count):
    pairs = [(number, 2 * number) for number in range(count)]
    plain = encode_message(response([make(*pair) for pair in pairs]), version)
    packed = encode_message(response(PackedPairs(make, packed_of(pairs))), version)
    assert packed == plain
    decoded, _ = decode_message(FetchResponse, version, memoryview(packed))
    assert len(decoded.responses[0].partitions[1].aborted_transactions) == count


def test_a_list_that_is_encoded_may_be_encoded_again():
    packed = PackedPairs(make, packed_of(PAIRS))
    assert encode_message(response(packed), 4) == encode_message(response(packed), 4)
    assert len(packed) == 3
