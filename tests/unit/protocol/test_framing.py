"""Frames from a stream: cut anywhere, and with any announced size."""

import tracemalloc

import pytest

from protocol.errors import FrameTooLarge
from protocol.framing import KEPT_BYTES_MAX, REUSED_BYTES_MIN, FramePool, FrameReader

SIZE_MAX = 104_857_600  # Kafka's socket.request.max.bytes


def reader_of(size_max: int) -> FrameReader:
    return FrameReader(size_max, FramePool())


def sized(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def receive(reader: FrameReader, data: bytes) -> list[bytearray]:
    return reader.receive(memoryview(data))


@pytest.mark.parametrize(
    ("pieces", "frames"),
    [
        ([b""], []),
        ([sized(b"one")], [b"one"]),
        ([sized(b"one") + sized(b"two")], [b"one", b"two"]),
        ([sized(b"")], [b""]),
        ([sized(b"") * 3 + sized(b"x")], [b"", b"", b"", b"x"]),
        ([b"\0", b"\0\0", b"\0"], [b""]),
        ([b"\0\0\0", b"\3o", b"n", b"e"], [b"one"]),
        ([b"\0\0\0\3", b"one"], [b"one"]),
        ([b"\0\0\0\3on", b"e" + sized(b"two") + b"\0\0"], [b"one", b"two"]),
        ([b"\0\0\0\3on", b"", b"e"], [b"one"]),
        ([b"\0", b"\0\0\3one" + sized(b"two")], [b"one", b"two"]),
        ([sized(b"one")[:-1]], []),
    ],
)
def test_frames_however_the_stream_is_cut(pieces, frames):
    reader = reader_of(SIZE_MAX)
    assert [frame for piece in pieces for frame in receive(reader, piece)] == frames


def test_a_partial_frame_is_reported():
    reader = reader_of(SIZE_MAX)

    def state() -> tuple[bool, int, int]:
        return reader.begun, reader.buffered_bytes, reader.announced

    assert state() == (False, 0, 0)
    receive(reader, sized(b"whole") + b"\0\0")
    assert state() == (True, 2, 0)
    receive(reader, b"\0\5")
    assert state() == (True, 0, 5)
    receive(reader, b"abcd")
    assert state() == (True, 4, 5)
    assert receive(reader, b"e") == [b"abcde"]
    assert state() == (False, 0, 0)


def test_frames_are_writable_and_share_no_memory():
    shared = bytearray(sized(b"one") + sized(b"two"))
    frames = reader_of(SIZE_MAX).receive(memoryview(shared))
    shared[:] = bytes(len(shared))
    assert frames == [b"one", b"two"]
    frames[0][0] = 0x4F
    assert all(isinstance(frame, bytearray) for frame in frames)


def test_the_receive_buffer_is_released():
    """A remaining view would prevent a resize of the buffer."""
    shared = bytearray(sized(b"one") + b"\0\0\0\x09half")
    reader = reader_of(SIZE_MAX)
    view = memoryview(shared)
    reader.receive(view)
    view.release()
    shared.clear()
    assert reader.buffered_bytes == 4


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-1, r"Invalid receive \(size = -1"),
        (-(2**31), r"Invalid receive \(size = -2147483648"),
        (101, r"Invalid receive \(size = 101"),
        (2**31 - 1, r"Invalid receive \(size = 2147483647"),
        (int.from_bytes(b"GET ", "big"), r"Invalid receive \(size = 1195725856"),
    ],
)
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_sizes_that_no_frame_may_have(size, text, cut):
    data = size.to_bytes(4, "big", signed=True) + b"rest"
    reader = reader_of(100)
    if cut < 4:
        assert receive(reader, data[:cut]) == []
        data = data[cut:]
    with pytest.raises(FrameTooLarge, match=text):
        receive(reader, data)
    with pytest.raises(FrameTooLarge, match=text):
        receive(reader, sized(b"more"))


def test_a_frame_of_exactly_the_limit_is_accepted():
    assert receive(reader_of(100), sized(bytes(100))) == [bytes(100)]


@pytest.mark.parametrize("cut", [0, 3, 7, 9, 11])
def test_frames_before_a_bad_size_are_not_lost(cut):
    data = sized(b"one") + b"\xff\xff\xff\xff" + b"rest"
    reader = reader_of(100)
    frames = receive(reader, data[:cut])
    if len(frames) == 0:
        frames = receive(reader, data[cut:])
    else:
        with pytest.raises(FrameTooLarge):
            receive(reader, data[cut:])
    assert frames == [b"one"]
    assert isinstance(reader.refused, FrameTooLarge)
    with pytest.raises(FrameTooLarge):
        receive(reader, b"")


def test_memory_grows_with_the_received_bytes():
    """Five hundred connections that announce 100 MiB and send 1 KiB hold 1 KiB each."""
    readers = [reader_of(SIZE_MAX) for _ in range(500)]
    data = SIZE_MAX.to_bytes(4, "big") + bytes(1024)
    tracemalloc.start()
    for reader in readers:
        assert receive(reader, data) == []
    held_bytes, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 500 * 1400, held_bytes


def test_an_idle_connection_holds_no_buffer():
    reader = reader_of(SIZE_MAX)
    receive(reader, sized(bytes(100_000)))
    assert reader.buffered_bytes == 0
    assert not reader.begun


def large(byte: int, size: int = 3 * REUSED_BYTES_MIN) -> bytes:
    return bytes([byte]) * size


def arrive(reader: FrameReader, data: bytes, *, step: int) -> list[bytearray]:
    """Feed `data` to a reader as a connection does, at most `step` bytes at once."""
    frames = []
    left = memoryview(data)
    while left:
        if reader.has_room:
            room = reader.room
            count = min(step, len(room), len(left))
            room[:count] = left[:count]
            room.release()
            frames += reader.received(count)
        else:
            count = min(step, len(left))
            frames += reader.receive(left[:count])
        left = left[count:]
    return frames


def pool_with(*sizes: int) -> FramePool:
    pool = FramePool()
    for size in sizes:
        pool.give(bytearray(b"old") * (size // 3) + bytes(size % 3))
    return pool


@pytest.mark.parametrize("step", [7, 1000, REUSED_BYTES_MIN])
@pytest.mark.parametrize("kept", [2, 3, 4])
def test_large_frames_reuse_the_memory_of_earlier_ones(kept, step):
    """The kept memory is shorter than the frame, of its size, or longer."""
    pool = pool_with(kept * REUSED_BYTES_MIN)
    reader = FrameReader(SIZE_MAX, pool)
    stream = sized(large(1)) + sized(b"small") + sized(large(2))
    frames = arrive(reader, stream, step=step)
    assert frames == [large(1), b"small", large(2)]
    assert pool.kept_bytes == 0
    assert not reader.begun


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_large_frame_whose_size_arrives_in_two_pieces(count):
    """The bytes behind the size are in the same piece as its end."""
    reader = FrameReader(SIZE_MAX, pool_with(3 * REUSED_BYTES_MIN))
    stream = sized(large(1)) + sized(b"small")
    receive(reader, stream[:count])
    assert receive(reader, stream[count:]) == [large(1), b"small"]
    receive(reader, stream[:count])
    assert receive(reader, stream[count:1004]) == []
    assert arrive(reader, stream[1004:], step=1000) == [large(1), b"small"]


def test_a_frame_with_room_reports_its_received_bytes():
    reader = FrameReader(SIZE_MAX, pool_with(3 * REUSED_BYTES_MIN))
    receive(reader, sized(large(1))[:1004])
    assert reader.has_room
    assert (reader.begun, reader.buffered_bytes) == (True, 1000)
    assert (reader.announced, len(reader.room)) == (3 * REUSED_BYTES_MIN, len(large(1)) - 1000)
    assert reader.received(10) == []
    assert reader.buffered_bytes == 1010


@pytest.mark.parametrize("size", [REUSED_BYTES_MIN - 1, REUSED_BYTES_MIN])
def test_only_large_frames_have_memory_before_their_bytes(size):
    reader = FrameReader(SIZE_MAX, pool_with(REUSED_BYTES_MIN))
    receive(reader, size.to_bytes(4, "big") + b"x")
    assert reader.has_room == (size == REUSED_BYTES_MIN)


def test_behind_a_large_frame_the_size_is_read_alone():
    """So no byte of the next large frame is copied."""
    pool = pool_with(3 * REUSED_BYTES_MIN)
    reader = FrameReader(SIZE_MAX, pool)
    (frame,) = arrive(reader, sized(large(1)), step=1000)
    assert (reader.reads_size_alone, reader.missing_bytes) == (True, 4)
    pool.give(frame)
    receive(reader, sized(large(2))[:1])
    assert (reader.reads_size_alone, reader.missing_bytes) == (True, 3)
    receive(reader, sized(large(2))[1:4])
    assert len(reader.room) == len(large(2))
    assert arrive(reader, large(2), step=1000) == [large(2)]


def test_behind_a_small_frame_as_much_is_read_as_has_come():
    reader = FrameReader(SIZE_MAX, pool_with(3 * REUSED_BYTES_MIN))
    arrive(reader, sized(large(1)), step=1000)
    receive(reader, sized(b"small")[:4])
    assert not reader.reads_size_alone
    assert receive(reader, b"small" + sized(b"more")) == [b"small", b"more"]


def test_an_announced_size_alone_gets_no_memory():
    pool = pool_with(REUSED_BYTES_MIN)
    reader = FrameReader(SIZE_MAX, pool)
    receive(reader, SIZE_MAX.to_bytes(4, "big") + b"x")
    assert len(reader.room) == REUSED_BYTES_MIN - 1


def test_a_much_larger_frame_is_not_cut_for_a_small_one():
    pool = pool_with(3 * REUSED_BYTES_MIN)
    assert pool.take(REUSED_BYTES_MIN) is None
    assert pool.kept_bytes == 3 * REUSED_BYTES_MIN


def test_a_frame_with_a_view_is_not_kept():
    pool = FramePool()
    frame = bytearray(large(1))
    view = memoryview(frame)
    pool.give(frame)
    assert pool.kept_bytes == 0
    view.release()
    pool.give(frame)
    assert pool.kept_bytes == len(large(1))
    assert pool.take(len(large(1))) == large(1)


def test_the_kept_memory_is_bounded():
    pool = pool_with(*[KEPT_BYTES_MAX // 3] * 4, REUSED_BYTES_MIN - 1)
    assert pool.kept_bytes == KEPT_BYTES_MAX // 3 * 3


def test_unneeded_memory_is_released():
    pool = pool_with(*[REUSED_BYTES_MIN] * 4)
    pool.trim()
    assert pool.kept_bytes == 4 * REUSED_BYTES_MIN  # all came since the beginning
    needed = [pool.take(REUSED_BYTES_MIN) for _ in range(3)]
    for frame in needed:
        pool.give(frame)
    pool.trim()
    assert pool.kept_bytes == 3 * REUSED_BYTES_MIN
    pool.trim()
    assert pool.kept_bytes == 0


def test_a_reader_reports_how_many_bytes_are_missing():
    reader = FrameReader(SIZE_MAX, FramePool())
    stream = sized(b"0123456789")
    missing = []
    for byte in stream:
        missing.append(reader.missing_bytes)
        reader.receive(memoryview(bytes([byte])))
    assert missing == [4, 3, 2, 1, *range(10, 0, -1)]
    assert reader.missing_bytes == 4
