"""Bytes of a stream in, whole frames out; the same for both dialects.

A frame is a 4-byte big-endian size and that many bytes. A reader belongs to one connection and
keeps only an unfinished frame: the bytes arrive in a buffer that many connections share, and the
reader copies out of it what it keeps, during the call. So an idle connection owns no buffer, and
each frame is a bytearray of its own, which the broker may stamp.

Memory follows the bytes received, never the size announced: a frame grows as its pieces arrive
(Kafka allocates the announced size at once: NetworkReceive). A size beyond `size_max` is refused.
The reader has no clock: the connection watches `begun`.

Fresh memory costs more than the work on it: the kernel zeroes it page by page. So the memory of a
large frame is reused after its request is answered (`FramePool`), and the next frame is received
directly into it, past the shared buffer (`has_room`, `room`, `received`). Behind a large frame
another is expected: then the size is received alone, and all of the frame into its own memory
(`reads_size_alone`).
"""

import struct
from typing import Final

from protocol.errors import FrameTooLarge

SIZE_BYTES: Final = 4

# Smaller ones lie among other small blocks, whose memory stays with the process.
REUSED_BYTES_MIN: Final = 128 * 1024

# More than a producer has in flight: five requests of 1 MiB.
KEPT_BYTES_MAX: Final = 8 * 1024 * 1024

_size = struct.Struct(">i")
_unpack_size = _size.unpack_from


class FramePool:
    """Memory of large frames that were handled, kept for the next ones; at most 8 MiB.

    `trim` frees what was not used since its last call.
    """

    __slots__ = ("_frames", "_kept_bytes_min", "kept_bytes")

    def __init__(self) -> None:
        self._frames: list[bytearray] = []
        self.kept_bytes = 0
        self._kept_bytes_min = 0  # since the last trim

    def take(self, size: int) -> bytearray | None:
        """Return memory for the beginning of a frame of `size` bytes, or all of it, or None.

        It still holds the bytes of its former frame.
        """
        if not self._frames or len(self._frames[-1]) > 2 * size:
            return None
        frame = self._frames.pop()
        self.kept_bytes -= len(frame)
        self._kept_bytes_min = min(self._kept_bytes_min, self.kept_bytes)
        del frame[size:]
        return frame

    def give(self, frame: bytearray) -> None:
        """Keep a frame, if there is room for it and no view of its bytes exists."""
        if len(frame) < REUSED_BYTES_MIN or self.kept_bytes + len(frame) > KEPT_BYTES_MAX:
            return
        try:
            frame.append(0)  # refused while there is a view
        except BufferError:
            return
        frame.pop()
        self._frames.append(frame)
        self.kept_bytes += len(frame)

    def trim(self) -> None:
        """Free the memory that was not used since the last call."""
        unneeded_bytes = self._kept_bytes_min
        while self._frames and unneeded_bytes >= len(self._frames[0]):
            size = len(self._frames.pop(0))
            unneeded_bytes -= size
            self.kept_bytes -= size
        self._kept_bytes_min = self.kept_bytes


class FrameReader:
    """The reading half of one connection, without its socket.

    States: between frames (`_head` empty, `_frame` None); within a size (`_head` has 1 to 3
    bytes); within a frame (`_filled` of `_wanted` bytes are there, and `_frame` grows; or it
    comes from the pool and `has_room`); refused, for good, after a size that no frame may have.
    """

    __slots__ = (
        "_filled",
        "_frame",
        "_head",
        "_pool",
        "_wanted",
        "has_room",
        "reads_size_alone",
        "refused",
        "size_max",
    )

    def __init__(self, size_max: int, pool: FramePool) -> None:
        self.size_max = size_max
        self._pool = pool
        self._head = b""
        self._frame: bytearray | None = None
        self._filled = 0
        self._wanted = 0
        self.has_room = False
        self.reads_size_alone = False
        self.refused: FrameTooLarge | None = None

    @property
    def begun(self) -> bool:
        """Whether a frame is unfinished."""
        return self._frame is not None or bool(self._head)

    @property
    def buffered_bytes(self) -> int:
        """The bytes kept of the unfinished frame; a complete size does not count."""
        return len(self._head) if self._frame is None else self._filled

    @property
    def announced(self) -> int:
        """The size of the unfinished frame, 0 while unknown."""
        return self._wanted if self._frame is not None else 0

    @property
    def missing_bytes(self) -> int:
        """How many bytes the unfinished frame still lacks, or its size if that is incomplete."""
        if self._frame is None:
            return SIZE_BYTES - len(self._head)
        return self._wanted - self._filled

    @property
    def room(self) -> memoryview:
        """While it `has_room`: where the next bytes of the stream belong; tell `received`."""
        assert self._frame is not None
        return memoryview(self._frame)[self._filled :]

    def received(self, count: int) -> list[bytearray]:
        """Note that `count` bytes have arrived in the room; return the frame if it is whole."""
        frame = self._frame
        assert frame is not None
        self._filled += count
        if self._filled < len(frame):
            return []
        self.has_room = False
        if self._filled < self._wanted:
            return []
        self._frame = None
        self.reads_size_alone = True
        return [frame]

    def drop(self) -> None:
        """Drop the unfinished frame: its stream has ended."""
        self._head = b""
        self._frame = None
        self.has_room = self.reads_size_alone = False

    def receive(self, data: memoryview) -> list[bytearray]:
        """Take the bytes that have arrived; return the frames that are whole, without their sizes.

        Not while it `has_room`. `data` is not kept. A size below 0 or above `size_max` ends the
        stream: the frames before it are returned and `refused` says why; with none before it,
        and at every later call, that FrameTooLarge is raised.
        """
        if self.refused is not None:
            raise self.refused
        frames: list[bytearray] = []
        is_begun = self._frame is not None or self._head
        position = self._resume(data, frames) if is_begun else 0
        end = len(data)
        while end - position >= SIZE_BYTES:
            (size,) = _unpack_size(data, position)
            start = position + SIZE_BYTES
            position = start + size
            if 0 <= size <= self.size_max and position <= end:
                frames.append(bytearray(data[start:position]))
            else:
                self._begin(size, data[start:])
                position = end
        if position < end:
            self._head = bytes(data[position:])
        if not frames and self.refused is not None:
            raise self.refused
        return frames

    def _resume(self, data: memoryview, frames: list[bytearray]) -> int:
        """Continue the unfinished frame; return the position in `data` after it."""
        if self._head:
            return self._resume_head(data, frames)
        frame = self._frame
        assert frame is not None
        stop = self._wanted - self._filled
        frame += data[:stop]
        self._filled = len(frame)
        if self._filled < self._wanted:
            return len(data)
        frames.append(frame)
        self._frame = None
        return stop

    def _resume_head(self, data: memoryview, frames: list[bytearray]) -> int:
        """Continue a size of which 1 to 3 bytes were there, and begin its frame."""
        position = SIZE_BYTES - len(self._head)
        self._head += bytes(data[:position])
        if len(self._head) < SIZE_BYTES:
            return len(data)
        size: int = _unpack_size(self._head)[0]
        self._head = b""
        stop = position + size
        if 0 <= size <= self.size_max and stop <= len(data):
            frames.append(bytearray(data[position:stop]))
            return stop
        self._begin(size, data[position:])
        return len(data)

    def _begin(self, size: int, piece: memoryview) -> None:
        """Begin a frame of which only `piece` has arrived."""
        if not 0 <= size <= self.size_max:
            self.refused = FrameTooLarge(size, self.size_max)
            return
        self._wanted = size
        self._filled = len(piece)
        kept = self._pool.take(size) if size >= REUSED_BYTES_MIN else None
        if kept is not None and len(kept) > self._filled:
            memoryview(kept)[: self._filled] = piece
            self._frame = kept
            self.has_room = True
        else:
            self._frame = bytearray(piece)
            self.reads_size_alone = False
