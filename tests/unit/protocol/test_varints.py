"""Varints: every length, both signs, and invalid ones."""

import pytest

from protocol.record_errors import InvalidRecord
from protocol.varints import read_varint, read_varlong
from tests.support.raw_batches import varint

NUMBERS = [0, 1, 63, 64, 8191, 8192, 1 << 20, (1 << 31) - 1, -1, -64, -65, -8193, -(1 << 31)]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("read", [read_varint, read_varlong])
def test_a_number_is_read_with_the_position_after_it(read, number):
    assert read(b"x" + varint(number) + b"y", 1) == (number, 1 + len(varint(number)))


@pytest.mark.parametrize("number", [1 << 62, -(1 << 63), (1 << 63) - 1])
def test_a_long_has_64_bits(number):
    assert read_varlong(varint(number), 0) == (number, len(varint(number)))


@pytest.mark.parametrize(("read", "size_max"), [(read_varint, 5), (read_varlong, 10)])
def test_a_varint_that_is_too_long_is_refused(read, size_max):
    with pytest.raises(InvalidRecord, match=f"more than {size_max} bytes"):
        read(b"\x80" * size_max + b"\0", 0)
    with pytest.raises(IndexError):
        read(b"\x80", 0)
