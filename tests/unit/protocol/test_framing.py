"""Frames out of a stream: however it is cut, whatever it announces."""

import tracemalloc

import pytest

from protocol.errors import FrameTooLarge
from protocol.framing import FrameReader

SIZE_MAX = 104_857_600  # Kafka's socket.request.max.bytes


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
    reader = FrameReader(SIZE_MAX)
    assert [frame for piece in pieces for frame in receive(reader, piece)] == frames


def test_what_has_begun_is_told():
    reader = FrameReader(SIZE_MAX)

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


def test_frames_are_writable_and_their_own():
    shared = bytearray(sized(b"one") + sized(b"two"))
    frames = FrameReader(SIZE_MAX).receive(memoryview(shared))
    shared[:] = bytes(len(shared))
    assert frames == [b"one", b"two"]
    frames[0][0] = 0x4F
    assert all(isinstance(frame, bytearray) for frame in frames)


def test_the_receive_buffer_is_let_go():
    """A view kept would forbid the buffer to be resized."""
    shared = bytearray(sized(b"one") + b"\0\0\0\x09half")
    reader = FrameReader(SIZE_MAX)
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
    reader = FrameReader(100)
    if cut < 4:
        assert receive(reader, data[:cut]) == []
        data = data[cut:]
    with pytest.raises(FrameTooLarge, match=text):
        receive(reader, data)
    with pytest.raises(FrameTooLarge, match=text):
        receive(reader, sized(b"more"))


def test_just_the_limit_is_taken():
    assert receive(FrameReader(100), sized(bytes(100))) == [bytes(100)]


@pytest.mark.parametrize("cut", [0, 3, 7, 9, 11])
def test_frames_before_a_bad_size_are_not_lost(cut):
    data = sized(b"one") + b"\xff\xff\xff\xff" + b"rest"
    reader = FrameReader(100)
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


def test_memory_follows_what_is_received():
    """Five hundred connections that announce 100 MiB and send 1 KiB own 1 KiB each."""
    readers = [FrameReader(SIZE_MAX) for _ in range(500)]
    data = SIZE_MAX.to_bytes(4, "big") + bytes(1024)
    tracemalloc.start()
    for reader in readers:
        assert receive(reader, data) == []
    held_bytes, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 500 * 1400, held_bytes


def test_an_idle_connection_owns_no_buffer():
    reader = FrameReader(SIZE_MAX)
    receive(reader, sized(bytes(100_000)))
    assert reader.buffered_bytes == 0
    assert not reader.begun
