"""The frame of a record in a coordinator's log: an int16 before the key's body and the value's.

In the key it is the type of the record, in the value the version of the body (Kafka's
CoordinatorRecordSerde). `protocol.group_records` and `protocol.transaction_records` have the types.
"""

import struct
from typing import Any, Final

from protocol.errors import DecodeError
from protocol.kafka.codec import decode_message, encode_message
from protocol.wire import Buffer, message_spec

_INT16: Final = struct.Struct(">h")


def frame_key(key: Any) -> bytes:
    """Return a key: the type of its class, then its body."""
    return _INT16.pack(message_spec(type(key)).api_key) + encode_message(key, 0)


def frame_value(value: Any, version: int) -> bytes:
    """Return a value in one version of its body."""
    return _INT16.pack(version) + encode_message(value, version)


def read_type(key: Buffer, log: str) -> int:
    """Return the type of a record by its key; `log` names the kind of log. Raises DecodeError."""
    return _int16(key, f"a {log} record's key")


def read_body(cls: type[Any], version: int, data: Buffer) -> Any:
    """Decode a key or value of a known version. Raises DecodeError, also for trailing bytes."""
    body, end = decode_message(cls, version, data, _INT16.size)
    if end != len(data):
        raise DecodeError(f"{cls.__name__}: {len(data) - end} bytes are left after its body")
    return body


def read_value(cls: type[Any], value: Buffer, log: str) -> Any:
    """Decode a value in the version that it says. Raises DecodeError, also for unknown ones."""
    version = _int16(value, f"a {log} record's value")
    spec = message_spec(cls)
    if not spec.version_min <= version <= spec.version_max:
        raise DecodeError(
            f"{cls.__name__} has version {version}, known are {spec.version_min} to "
            f"{spec.version_max}: a newer Kafka wrote it"
        )
    return read_body(cls, version, value)


def _int16(data: Buffer, what: str) -> int:
    if len(data) < _INT16.size:
        raise DecodeError(f"{what} of {len(data)} bytes: its int16 takes 2")
    number: int
    (number,) = _INT16.unpack_from(data)
    return number
