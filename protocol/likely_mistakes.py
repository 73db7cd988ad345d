"""A guess at the peer when its first bytes cannot be a request: a clause for the error.

It guesses only if the bytes leave no doubt. The first four bytes of a frame are
its size, so a TLS hello or an HTTP request shows up as a size that no frame may have.
"""

import struct
from typing import Final

_HTTP = "this looks like HTTP; the listener speaks Kafka's protocol or msgpack"
_BEGINNINGS: Final = {
    **dict.fromkeys(
        (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC"), _HTTP
    ),
    b"HTTP": _HTTP,
    b"PRI ": _HTTP,  # version 2
    b"SSH-": "this looks like SSH",
}
_TLS_HANDSHAKE: Final = (b"\x16\x03\x00", b"\x16\x03\x01", b"\x16\x03\x02", b"\x16\x03\x03")
_ARRAY_OF_4: Final = 0x94  # how a request begins in msgpack
_FIRST_OF_KAFKA: Final = struct.Struct(">hh")
_API_KEY_MAX, _VERSION_MAX = 100, 30


def of_size(size: int) -> str:
    """Guess which peer announces `size` (signed) as a frame's size; "" if unclear."""
    raw = size.to_bytes(4, "big", signed=True)
    if raw[:3] in _TLS_HANDSHAKE:
        return "this looks like TLS; this listener is not encrypted (security.protocol=PLAINTEXT)"
    if raw[0] == _ARRAY_OF_4:
        return "this looks like msgpack without the four bytes of its size before it"
    return _BEGINNINGS.get(raw, "")


def of_kafka_frame(frame: memoryview) -> str:
    """Guess which peer sends `frame`, which is no request of Kafka's protocol; "" if unclear."""
    if frame[:1] == bytes([_ARRAY_OF_4]):
        return "this looks like msgpack; it has a listener of its own (MSGPACK)"
    return ""


def of_msgpack_frame(frame: memoryview) -> str:
    """Guess which peer sends `frame`, which is no request in msgpack; "" if unclear."""
    if len(frame) >= _FIRST_OF_KAFKA.size + 4:
        api_key, version = _FIRST_OF_KAFKA.unpack_from(frame)
        if 0 <= api_key <= _API_KEY_MAX and 0 <= version <= _VERSION_MAX:
            return "this looks like Kafka's protocol; it has a listener of its own (PLAINTEXT)"
    return ""


def said(words: str) -> str:
    """Return `words` as a clause to append to an error's message."""
    return f": {words}" if words else ""
