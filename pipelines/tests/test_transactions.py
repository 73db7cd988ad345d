"""Requests of transactions byte by byte, and what a coordinator answers to them."""

from __future__ import annotations

import random
import uuid

import pytest

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.errors import BrokerRefused
from pyspark_barnabas.wire.primitives import parse
from pyspark_barnabas.wire.transactions import (
    ONGOING,
    Described,
    Holder,
    Transactions,
    add_partitions_request,
    describe_request,
    end_request,
    list_request,
    read_add_partitions,
    read_describe,
    read_end,
    read_list,
)

HOLDER = Holder("me", 5, 2)
HELD = "00 02 6d 65 00 00 00 00 00 00 00 05 00 02"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            add_partitions_request(HOLDER, [("t", 1), ("t", 0)]),
            f"{HELD} 00 00 00 01 00 01 74 00 00 00 02 00 00 00 01 00 00 00 00",
        ),
        (end_request(HOLDER, committed=True), f"{HELD} 01"),
        (end_request(HOLDER, committed=False), f"{HELD} 00"),
        (describe_request("me"), "02 03 6d 65 00"),
        (list_request(["Empty"]), "02 06 45 6d 70 74 79 01 00"),
        (protocol.find_coordinator_request(protocol.TRANSACTION, "me"), "00 02 6d 65 01"),
        (protocol.init_producer_id_request("me", 9), "00 02 6d 65 00 00 00 09"),
    ],
)
def test_requests_byte_by_byte(body, expected):
    assert body.hex(" ") == expected


@pytest.mark.parametrize(
    ("codes", "first"),
    [([], 0), ([0, 0], 0), ([55, 3, 55], 3), ([55, 55], 55), ([0, 48], 48)],
)
def test_the_partition_that_failed_is_told_before_those_it_kept_from_being_added(codes, first):
    rows = b"".join(index.to_bytes(4, "big") + code.to_bytes(2, "big")
                    for index, code in enumerate(codes))  # fmt: skip
    whole = bytes(4) + b"\0\0\0\x01\0\x01t" + len(codes).to_bytes(4, "big") + rows
    assert parse(read_add_partitions, bytearray(whole)) == (first, None)


@pytest.mark.parametrize("read", [read_add_partitions, read_end, read_describe, read_list])
def test_garbage_does_not_parse(read):
    dice = random.Random(1)
    refused = 0
    for _ in range(500):
        try:
            parse(read, bytearray(dice.randbytes(dice.randrange(30))))
        except BrokerRefused:
            refused += 1
    assert refused > 50


@pytest.fixture
def transactions(topic):
    return Transactions(topic.cluster)


def test_a_transaction_from_its_beginning_to_its_end(topic, transactions):
    name = uuid.uuid4().hex
    holder = transactions.begin(name, 60_000)
    assert transactions.describe([name]) == {name: Described("Empty", *holder[1:])}
    assert transactions.add(holder, [(topic.name, 0)]) == 0
    assert transactions.describe([name])[name].state == ONGOING
    assert transactions.open_ids(name[:9]) == [name]
    assert transactions.open_ids("another") == []
    assert transactions.end([holder], committed=True) == {holder: 0}
    assert transactions.end([holder], committed=True) == {holder: 0}  # repeated
    assert transactions.end([holder], committed=False) == {holder: 48}
    assert transactions.open_ids(name) == []


def test_an_id_that_is_taken_over_is_over_for_its_holder(topic, transactions):
    name = uuid.uuid4().hex
    holder = transactions.begin(name, 60_000)
    transactions.add(holder, [(topic.name, 0)])
    later = transactions.begin(name, 60_000)
    assert later.epoch > holder.epoch
    assert transactions.add(holder, [(topic.name, 1)]) in (47, 90)
    assert transactions.end([holder], committed=True)[holder] in (47, 90)


def test_many_ids_are_asked_for_together(transactions):
    names = [f"{uuid.uuid4().hex}" for _ in range(150)]
    found = transactions.describe(names)
    assert set(found) == set(names)
    assert {one.state for one in found.values()} == {""}


def test_a_partition_that_does_not_exist_is_refused(topic, transactions):
    holder = transactions.begin(uuid.uuid4().hex, 60_000)
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        transactions.add(holder, [(topic.name, 0), (topic.name, 99)])
    assert transactions.add(holder, [(topic.name, 0)]) == 0
    transactions.end([holder], committed=False)
