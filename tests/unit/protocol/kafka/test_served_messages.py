"""Every message of protocol.messages: the versions of Kafka 4.3, and no bytes that break a codec.

The tests in tests/property compare their bytes with kio and kafka-python.
"""

import importlib
import pkgutil
from dataclasses import is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import protocol.messages
from protocol.api_keys import ApiKey
from protocol.errors import DecodeError
from protocol.kafka.codec import decode_message, encode_message, step_encoder
from protocol.wire import MessageSpec
from tests.support.thorough import some_versions
from tests.unit.protocol.kafka.strategies import FEW, messages

# (first, last, first flexible request and response): Apache Kafka 4.3.0, by ApiKeys.messageType.
KAFKA_4_3 = {
    ApiKey.PRODUCE: (3, 13, 9),
    ApiKey.FETCH: (4, 18, 12),
    ApiKey.LIST_OFFSETS: (1, 11, 6),
    ApiKey.METADATA: (0, 13, 9),
    ApiKey.OFFSET_COMMIT: (2, 10, 8),
    ApiKey.OFFSET_FETCH: (1, 10, 6),
    ApiKey.FIND_COORDINATOR: (0, 6, 3),
    ApiKey.JOIN_GROUP: (0, 9, 6),
    ApiKey.HEARTBEAT: (0, 4, 4),
    ApiKey.LEAVE_GROUP: (0, 5, 4),
    ApiKey.SYNC_GROUP: (0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 6, 5),
    ApiKey.LIST_GROUPS: (0, 5, 3),
    ApiKey.SASL_HANDSHAKE: (0, 1, None),
    ApiKey.API_VERSIONS: (0, 4, 3),
    ApiKey.CREATE_TOPICS: (2, 7, 5),
    ApiKey.DELETE_TOPICS: (1, 6, 4),
    ApiKey.DELETE_RECORDS: (0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, 3),
    ApiKey.END_TXN: (0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: (1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5, 3),
    ApiKey.DESCRIBE_ACLS: (1, 3, 2),
    ApiKey.CREATE_ACLS: (1, 3, 2),
    ApiKey.DELETE_ACLS: (1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 4, 4),
    ApiKey.ALTER_CONFIGS: (0, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3, 2),
    ApiKey.DELETE_GROUPS: (0, 2, 2),
    ApiKey.ELECT_LEADERS: (0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0),
    ApiKey.OFFSET_DELETE: (0, 0, None),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2, 0),
    ApiKey.UPDATE_FEATURES: (0, 2, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
}


def classes() -> list[type[Any]]:
    names = [info.name for info in pkgutil.iter_modules(protocol.messages.__path__)]
    modules = [importlib.import_module(f"protocol.messages.{name}") for name in names]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if is_dataclass(value) and isinstance(getattr(value, "MESSAGE", None), MessageSpec)
    }
    return sorted(found, key=lambda cls: str(cls.__name__))


CLASSES = classes()
ALL = [
    (cls, version)
    for cls in CLASSES
    for version in range(cls.MESSAGE.version_min, cls.MESSAGE.version_max + 1)
]


def named(pairs: list[tuple[type[Any], int]]) -> list[Any]:
    return [pytest.param(*pair, id=f"{pair[0].__name__}-{pair[1]}") for pair in pairs]


@pytest.mark.parametrize("api_key", KAFKA_4_3, ids=lambda api_key: api_key.name)
@pytest.mark.parametrize("kind", ["request", "response"])
def test_versions_are_those_of_kafka_4_3(api_key: ApiKey, kind: str) -> None:
    specs = [cls.MESSAGE for cls in CLASSES if cls.MESSAGE.api_key == api_key]
    found = [
        (spec.version_min, spec.version_max, spec.flexible_since)
        for spec in specs
        if spec.kind == kind
    ]
    assert found == [KAFKA_4_3[api_key]]


def test_the_table_has_every_message() -> None:
    assert {cls.MESSAGE.api_key for cls in CLASSES} == set(KAFKA_4_3)


@pytest.mark.parametrize(("cls", "version"), named(ALL))
@FEW
@given(data=st.data())
def test_a_message_survives_a_round_trip_and_no_cut_of_it_is_read(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    value = data.draw(messages(cls, version))
    wire = encode_message(value, version)
    assert decode_message(cls, version, wire) == (value, len(wire))
    cuts = range(len(wire)) if len(wire) < 100 else range(0, len(wire), len(wire) // 100)
    for cut in cuts:
        with pytest.raises(DecodeError):
            decode_message(cls, version, wire[:cut])


@pytest.mark.parametrize(("cls", "version"), named(some_versions(ALL)))
@FEW
@given(data=st.data())
def test_encoding_in_steps_gives_the_same_bytes(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    value = data.draw(messages(cls, version))
    parts: list[Any] = [bytearray()]
    assert sum(step_encoder(cls, version)(value, parts)) <= sum(map(len, parts))
    assert b"".join(parts) == encode_message(value, version)


@pytest.mark.parametrize(("cls", "version"), named(some_versions(ALL, first=2)))
@FEW
@given(data=st.data())
def test_any_bytes_give_a_message_or_a_decode_error(
    cls: type[Any], version: int, data: st.DataObject
) -> None:
    wire = bytearray(encode_message(data.draw(messages(cls, version)), version))
    for position in data.draw(st.lists(st.integers(0, len(wire)), max_size=4)):
        wire[position : position + 1] = bytes((data.draw(st.integers(0, 255)),))
    for hostile in (wire, data.draw(st.binary(max_size=60))):
        try:
            _, end = decode_message(cls, version, hostile)
        except DecodeError:
            continue
        assert 0 <= end <= len(hostile)
