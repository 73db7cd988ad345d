"""A peer with another protocol is named only if its bytes leave no doubt."""

import pytest

from protocol.errors import FrameTooLarge
from protocol.likely_mistakes import of_kafka_frame, of_msgpack_frame, of_size

SIZE_MAX = 100 * 1024 * 1024


@pytest.mark.parametrize(
    ("begins", "named"),
    [
        (b"\x16\x03\x01\x02", "TLS"),
        (b"\x16\x03\x03\x00", "TLS"),
        (b"GET ", "HTTP"),
        (b"POST", "HTTP"),
        (b"HEAD", "HTTP"),
        (b"HTTP", "HTTP"),
        (b"PRI ", "HTTP"),
        (b"SSH-", "SSH"),
        (b"\x94\xa7pr", "msgpack without the four bytes"),
    ],
)
def test_other_protocols_are_named_by_the_bytes_of_the_frame_size(
    begins: bytes, named: str
) -> None:
    size = int.from_bytes(begins, "big", signed=True)
    assert f"this looks like {named}" in str(FrameTooLarge(size, SIZE_MAX))


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, SIZE_MAX + 1, 0x16030401])
def test_an_unspecific_size_is_only_refused(size: int) -> None:
    assert of_size(size) == ""
    assert str(FrameTooLarge(size, SIZE_MAX)).endswith(")")


def test_each_dialect_on_the_port_of_the_other_is_named() -> None:
    kafka = memoryview(b"\0\x12\0\3\0\0\0\1\xff\xff\0")
    msgpack = memoryview(b"\x94\xacapi_versions\1\xc0\x80")
    assert "MSGPACK" in of_kafka_frame(msgpack)
    assert "PLAINTEXT" in of_msgpack_frame(kafka)
    assert of_kafka_frame(kafka) == of_msgpack_frame(msgpack) == ""
    assert of_msgpack_frame(memoryview(b"")) == of_kafka_frame(memoryview(b"")) == ""
