"""Openers: all records between two offsets."""

import pytest

from client.msgpack.batch_openers import OFFSET_END, CodecOpener, RecordOpener
from protocol.record_errors import RecordError
from protocol.records import Record, batches, build


@pytest.mark.parametrize("codec", range(5))
def test_records_between_the_offsets_are_returned(codec: int) -> None:
    records = [Record(0, 5, b"k", b"%d" % number) for number in range(4)]
    raw = b"before" + bytes(build(records, base_offset=10, codec=codec))
    opener = RecordOpener()
    assert not opener.has_nothing(raw)
    for first, end in ((0, OFFSET_END), (11, 13), (14, OFFSET_END), (0, 10)):
        found = opener.opened(raw, len(b"before"), first, end)
        assert [one.offset for one in found] == [n for n in range(10, 14) if first <= n < end]
        assert [one.value for one in found] == [b"%d" % (one.offset - 10) for one in found]


def test_the_codec_of_what_was_opened_is_noted() -> None:
    raw = b"".join(
        bytes(build([Record(0, 5, None, b"v")], base_offset=n, codec=codec))
        for n, codec in enumerate((0, 4, 0))
    )
    opener = CodecOpener()
    assert not opener.has_nothing(raw)
    starts = [start for start, _ in batches(raw)]
    codecs = []
    for start in starts:
        assert [one.value for one in opener.opened(raw, start, 0, OFFSET_END)] == [b"v"]
        codecs.append(opener.codec)
    assert codecs == [0, 4, 4]


def test_what_is_no_record_is_an_error() -> None:
    raw = bytearray(build([Record(0, 5, None, b"v")]))
    raw[-3] = 0x7F  # the size of the value
    with pytest.raises(RecordError):
        RecordOpener().opened(bytes(raw), 0, 0, OFFSET_END)
