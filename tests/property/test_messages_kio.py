"""Every message in every version against kio: equal bytes from equal values, both ways."""

import dataclasses
import importlib
import io
import re
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from protocol import metadata_records
from protocol.kafka.codec import decode_message, encode_message
from protocol.wire import ZERO_UUID, message_spec
from tests.support.message_fields import (
    MessageField,
    api_messages,
    each_version,
    embedded_messages,
    kafkas_fields_in,
    messages,
    record_messages,
)
from tests.support.thorough import examples, some_versions

# kio has the messages of clients and of the quorum, but not those of the metadata log. If kio adds
# a class, take it out of this table; tests/unit/protocol has bytes from Kafka.
NOT_IN_KIO = set(each_version(tuple(metadata_records.METADATA_RECORDS.values())))

# kio converts times through floats; up to here every millisecond survives.
TIME_MS_MAX = 2**41
TIMES = (
    "log_append_time_ms",
    "retention_time_ms",
    "session_lifetime_ms",
    "transaction_start_time_ms",
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ALL = set(each_version(api_messages() + record_messages() + embedded_messages()))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def kio_class(cls: type, version: int) -> type | None:
    """Return kio's class of this version, None if it has none."""
    kind = message_spec(cls).kind
    package = snake(cls.__name__.removesuffix("Request").removesuffix("Response"))
    try:
        module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    found: type = getattr(module, cls.__name__)
    return found


def leaf(field: MessageField) -> st.SearchStrategy[Any] | None:
    """Draw what kio's narrower types can hold: known errors, and times in datetime's range."""
    if field.name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if field.name in TIMES:
        # kio has no way to say -1 where a time may not be missing.
        least = 0 if field.name == "transaction_start_time_ms" else -1
        return st.integers(least, TIME_MS_MAX)
    return None


def kio_names(field: MessageField) -> set[str]:
    """Return kio's possible names of a field: times lose their unit; a K and an R are two words."""
    return {field.name, field.name.removesuffix("_ms"), field.name.replace("kraft", "k_raft")}


def item_type(annotation: Any) -> Any:
    """Return the type in a tuple or a union with None."""
    while get_origin(annotation) in (UnionType, tuple):
        (annotation,) = (arg for arg in get_args(annotation) if arg not in (NoneType, ...))
    return annotation


def to_kio_value(value: Any, annotation: Any, kafka_type: str, version: int) -> Any:
    if isinstance(value, list):
        return tuple(to_kio_value(v, item_type(annotation), kafka_type, version) for v in value)
    if value is None and dataclasses.is_dataclass(annotation):
        return annotation()  # an absent tagged structure
    if dataclasses.is_dataclass(value):
        return to_kio(value, item_type(annotation), version)
    match kafka_type:
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return None if value == ZERO_UUID else UUID(bytes=value)
        case "error_code":
            return ErrorCode(value)
    return value


def to_kio(ours: Any, theirs: Any, version: int) -> Any:
    """Return kio's instance with our values; both must have the same fields in this version."""
    values = {}
    their_fields = list(dataclasses.fields(theirs))
    for field in kafkas_fields_in(type(ours), version):
        (their_field,) = (f for f in their_fields if f.name in kio_names(field))
        their_fields.remove(their_field)
        assert their_field.metadata.get("tag") == field.tag
        kafka_type = their_field.metadata.get("kafka_type", "")
        values[their_field.name] = to_kio_value(
            getattr(ours, field.name), their_field.type, kafka_type, version
        )
    assert not their_fields, f"{type(ours).__name__} v{version} lacks {their_fields}"
    return theirs(**values)


def test_the_table_of_messages_missing_in_kio_is_true() -> None:
    assert {pair for pair in ALL if kio_class(*pair) is None} == NOT_IN_KIO


@pytest.mark.parametrize(
    ("cls", "version"),
    some_versions(ALL - NOT_IN_KIO),
)
def test_equal_values_have_equal_bytes(cls: type, version: int) -> None:
    theirs = kio_class(cls, version)
    read, write = entity_reader(theirs), entity_writer(theirs)

    @settings(
        max_examples=examples(20),
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
    )
    @given(messages(cls, version, leaf, own=False))
    def check(message: Any) -> None:
        data = encode_message(message, version)
        expected = to_kio(message, theirs, version)
        decoded, size = read(data, 0)
        assert (decoded, size) == (expected, len(data))
        with io.BytesIO() as out:
            write(out, decoded)
            assert out.getvalue() == data
        assert decode_message(cls, version, data) == (message, len(data))

    check()
