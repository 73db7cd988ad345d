"""A stream gives the same frames however it is split, up to the first size that is refused."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import FrameTooLarge
from protocol.framing import FramePool, FrameReader

SIZE_MAX = 64


def read_all(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    reader = FrameReader(SIZE_MAX, FramePool())
    frames: list[bytes] = []
    for piece in pieces:
        try:
            frames += map(bytes, reader.receive(memoryview(piece)))
        except FrameTooLarge:
            break
    return frames, reader.refused is not None


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(marks)]


@given(st.lists(st.binary(max_size=SIZE_MAX), max_size=8), st.lists(st.integers(0, 700)))
def test_frames_are_read_as_they_were_sent(payloads, places):
    stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    assert read_all(cut(stream, places)) == (payloads, False)
    assert read_all([bytes([byte]) for byte in stream]) == (payloads, False)


@given(
    st.lists(st.binary(max_size=SIZE_MAX), max_size=8),
    st.lists(st.integers(1, SIZE_MAX), max_size=4),
    st.lists(st.integers(0, 700)),
)
def test_the_memory_of_earlier_frames_changes_nothing(payloads, kept, places):
    """Frames of any size have memory from the pool, as large ones have."""
    pool = FramePool()
    reader = FrameReader(SIZE_MAX, pool)
    frames: list[bytes] = []
    stream = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
    with patch("protocol.framing.REUSED_BYTES_MIN", 1):
        for size in kept:
            pool.give(bytearray(b"\xee" * size))
        for piece in cut(stream, places):
            left = memoryview(piece)
            while left:
                count = len(left)
                if reader.has_room:
                    count = min(len(reader.room), count)
                elif reader.reads_size_alone:
                    count = min(reader.missing_bytes, count)
                if reader.has_room:
                    reader.room[:count] = left[:count]
                    whole = reader.received(count)
                else:
                    whole = reader.receive(left[:count])
                left = left[count:]
                frames += map(bytes, whole)
                for frame in whole:
                    pool.give(frame)
    assert frames == payloads


sizes = st.one_of(st.integers(-3, SIZE_MAX + 3), st.integers(-(2**31), 2**31 - 1))
parts = st.one_of(
    st.binary(max_size=20), sizes.map(lambda size: size.to_bytes(4, "big", signed=True))
)


@given(st.lists(parts).map(b"".join), st.lists(st.integers(0, 700)))
def test_any_bytes_in_any_pieces_end_alike(stream, places):
    assert read_all(cut(stream, places)) == read_all([stream])


@given(st.lists(st.binary(max_size=30)))
def test_no_more_is_kept_than_was_received(pieces):
    reader = FrameReader(SIZE_MAX, FramePool())
    received = 0
    for piece in pieces:
        received += len(piece)
        try:
            for frame in reader.receive(memoryview(piece)):
                received -= 4 + len(frame)
        except FrameTooLarge:
            return
        if reader.refused is not None:
            return
        assert reader.buffered_bytes <= received
        assert reader.begun == (received > 0)
