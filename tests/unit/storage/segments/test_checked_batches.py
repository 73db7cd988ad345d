"""Reading a file as whole batches, in order, within its range of offsets."""

import pytest

from storage.errors import DamagedLog
from storage.segments.checked_batches import CHUNK_BYTES, read_batches
from tests.support.compacting import keyed, nothing, placed, source_of


def test_batches_larger_than_a_chunk_are_read_whole():
    large = placed(0, keyed([(b"a", b"x" * (CHUNK_BYTES + 10)), (b"b", b"1")]))
    small = [placed(2 + n, keyed([(b"%d" % n, b"y" * 1000)])) for n in range(1500)]
    source = source_of(large, *small, end_offset=2000)
    told = []
    found = list(read_batches(source, told.append))
    assert [header.base_offset for _, header, _ in found] == [0, *range(2, 1502)]
    assert sum(told) == source.size == sum(header.size for _, header, _ in found)


@pytest.mark.parametrize(
    ("position", "value", "words"),
    [
        (17, 0xFF, "CRC"),
        (70, 0xFF, "CRC"),
        (16, 7, "magic"),
        (11, 0, "batch length"),
        (8, 0x7F, "size"),
        (0, 0x10, "offsets"),
    ],
)
def test_damage_is_reported_with_its_position(position, value, words):
    batches = [bytearray(placed(n, keyed([(b"a", b"%d" % n)]))) for n in range(3)]
    batches[1][position] = value
    source = source_of(*batches)
    with pytest.raises(DamagedLog) as caught:
        list(read_batches(source, nothing))
    assert words in str(caught.value)
    assert (caught.value.path, caught.value.position) == ("/0.source", len(batches[0]))


@pytest.mark.parametrize(("first", "second", "end"), [(5, 4, 100), (0, 9, 9), (0, 1, 2)])
def test_offsets_must_rise_within_the_segment(first, second, end):
    batches = [
        placed(first, keyed([(b"a", b"1")])),
        placed(second, keyed([(b"a", b"1"), (b"b", b"1")])),
    ]
    with pytest.raises(DamagedLog) as caught:
        list(read_batches(source_of(*batches, end_offset=end), nothing))
    assert caught.value.position == len(batches[0])
