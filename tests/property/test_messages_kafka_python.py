"""Every message in every version against kafka-python: equal bytes from equal values, both ways."""

import dataclasses
import importlib
import warnings
from typing import Any
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from protocol.kafka.codec import decode_message, encode_message
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from protocol.wire import ZERO_UUID, message_spec
from tests.support.message_fields import (
    MessageField,
    api_messages,
    each_version,
    fields_of,
    kafkas_fields_in,
    messages,
    record_messages,
)
from tests.support.thorough import examples, some_versions

# kafka-python is a client: it has no message that brokers write for themselves, nor the operators'
# UnregisterBroker, and does not speak KIP-848. If it adds a class, take it out of this table; for
# the records tests/unit/protocol has bytes from Kafka, for the others there is kio.
NOT_IN_KAFKA_PYTHON = set(
    each_version(
        (
            *record_messages(),
            UnregisterBrokerRequest,
            UnregisterBrokerResponse,
            ConsumerGroupHeartbeatRequest,
            ConsumerGroupHeartbeatResponse,
            ConsumerGroupDescribeRequest,
            ConsumerGroupDescribeResponse,
            GetTelemetrySubscriptionsRequest,
            GetTelemetrySubscriptionsResponse,
            PushTelemetryRequest,
            PushTelemetryResponse,
        )
    )
)

# Where kafka-python departs from Kafka's schema, in which records are never null and the default of
# a replica structure is -1 in all fields.
OTHER_DEFAULTS = {
    ("FetchRequest", "replica_state"): None,
    ("ListOffsetsRequest", "replica_id"): -1,
    ("PartitionProduceData", "records"): b"",
    ("PartitionData", "records"): b"",
}

# Where Kafka gives the same name to structures of several messages.
OTHER_NAMES = {
    "TopicToDescribe": "TopicData",
    "PartitionToDescribe": "PartitionData",
    "QuotaFilterComponent": "ComponentData",
    "DescribedQuota": "EntryData",
    "DescribedQuotaEntity": "EntityData",
    "DescribedQuotaValue": "ValueData",
    "QuotaAlteration": "EntryData",
    "QuotaOperation": "OpData",
    "AlteredQuota": "EntryData",
    "AlteredQuotaEntity": "EntityData",
}

with warnings.catch_warnings():
    # While it is imported, it reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    MODULES = [
        importlib.import_module(f"kafka.protocol.{name}")
        for name in ("admin", "consumer", "metadata", "producer", "sasl")
    ]
    from kafka.protocol.schemas.fields.codecs import BitField
ALL = set(each_version(api_messages() + record_messages()))


def their_class(cls: type, version: int) -> Any | None:
    """Return kafka-python's class, None if it has none that carries this version."""
    for module in MODULES:
        found = getattr(module, cls.__name__, None)
        if found is not None and found.min_version <= version <= found.max_version:
            return found
    return None


def leaf(field: MessageField) -> st.SearchStrategy[Any] | None:
    """Draw ApiVersions answers without an error: with one, only version 0 can be read."""
    return st.just(0) if field.name == "error_code" else None


def their_name(field: MessageField, theirs: Any) -> str:
    """Return the field's name in their class: some bit fields are sets there, with other names."""
    renamed = "authorized_operations"
    if field.name.endswith(renamed) and renamed in theirs._struct.fields:
        return renamed
    return field.name


def their_struct(theirs: Any, struct: type) -> Any:
    """Return the structure inside their class `theirs` that is our `struct`."""
    return getattr(theirs, OTHER_NAMES.get(struct.__name__, struct.__name__))


def to_their_value(value: Any, field: MessageField, theirs: Any, version: int) -> Any:
    """Return what a field of their class `theirs` holds for our value."""
    if isinstance(value, list):
        return [to_their_value(item, field, theirs, version) for item in value]
    if field.struct is not None and value is not None:
        return to_theirs(value, their_struct(theirs, field.struct), version)
    if field.wire == "uuid":
        return None if value == ZERO_UUID else UUID(bytes=value)
    if their_name(field, theirs) == "authorized_operations":
        bits = BitField.from_32_bit_field(value % 2**32)
        return None if bits == {31} else bits
    return value


def to_theirs(ours: Any, theirs: Any, version: int) -> Any:
    """Return their instance with our values; both must have the same fields in this version."""
    fields = {their_name(field, theirs): field for field in kafkas_fields_in(type(ours), version)}
    their_fields = {f.name: f for f in theirs._struct._fields if f.for_version_q(version)}
    assert their_fields.keys() == fields.keys()
    values = {}
    for name, field in fields.items():
        value = getattr(ours, field.name)
        assert their_fields[name].tag == field.tag
        if field.tag is None or value != field.default:
            values[name] = to_their_value(value, field, theirs, version)
    return theirs(version=version, **values)


def assert_equal(theirs: Any, ours: Any, version: int) -> None:
    """Compare what they decoded with what we encoded, field by field."""
    for field in kafkas_fields_in(type(ours), version):
        value, their_value = getattr(ours, field.name), getattr(theirs, their_name(field, theirs))
        if field.tag is not None and value == field.default:
            continue  # their value for an absent tag does not affect the bytes
        if field.struct is None or value is None:
            assert their_value == to_their_value(value, field, type(theirs), version), field.name
        elif field.is_list:
            for their_item, item in zip(their_value, value, strict=True):
                assert_equal(their_item, item, version)
        else:
            assert_equal(their_value, value, version)


def test_the_table_of_messages_missing_in_kafka_python_is_true() -> None:
    assert {pair for pair in ALL if their_class(*pair) is None} == NOT_IN_KAFKA_PYTHON


@pytest.mark.parametrize(
    ("cls", "version"),
    some_versions(ALL - NOT_IN_KAFKA_PYTHON, first=2),
)
def test_equal_values_have_equal_bytes(cls: type, version: int) -> None:
    theirs = their_class(cls, version)
    drawn = (
        messages(cls, version, leaf, own=False)
        if cls is ApiVersionsResponse
        else messages(cls, version, own=False)
    )

    @settings(
        max_examples=examples(20),
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )
    @given(drawn)
    def check(message: Any) -> None:
        data = encode_message(message, version)
        assert_equal(theirs.decode(data, version=version), message, version)
        assert to_theirs(message, theirs, version).encode(version=version) == data
        assert decode_message(cls, version, data) == (message, len(data))

    check()


def assert_defaults(cls: type, theirs: Any) -> None:
    for field in fields_of(cls):
        if field.is_own:
            continue
        their_field = theirs._struct.fields[their_name(field, theirs)]
        where = (cls.__name__, field.name)
        if where in OTHER_DEFAULTS:
            assert their_field.default == OTHER_DEFAULTS[where]
        elif field.default is dataclasses.MISSING:
            assert their_field.default in (0, "", b""), where
        else:
            their_default = to_their_value(field.default, field, theirs, version=0)
            assert their_field.default == their_default, where
        if field.struct is not None:
            assert_defaults(field.struct, their_struct(theirs, field.struct))


@pytest.mark.parametrize(
    "cls",
    [cls for cls in api_messages() if not NOT_IN_KAFKA_PYTHON & set(each_version((cls,)))],
)
def test_defaults_are_equal_and_where_there_is_none_it_is_zero(cls: type) -> None:
    assert_defaults(cls, their_class(cls, message_spec(cls).version_max))
