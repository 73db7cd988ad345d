"""Bytes of a stream in, whole frames out; the same for both dialects.

A frame is a 4-byte big-endian size and that many bytes. A reader belongs to one connection and
keeps only what has begun and not ended: the bytes arrive in a buffer that many connections
share, and whatever is to stay is copied out of it during the call. So an idle connection owns
no buffer, and each frame is a bytearray of its own, in which the broker may stamp.

Memory follows the bytes received, never the size announced: a frame grows as its pieces arrive
(Kafka allocates what a size announces as soon as it has read it: NetworkReceive). No size is
waited for beyond `size_max`. Time is not known here: the connection watches `begun`.
"""

import struct
from typing import Final

from protocol.errors import FrameTooLarge

SIZE_BYTES: Final = 4

_size = struct.Struct(">i")
_unpack_size = _size.unpack_from


class FrameReader:
    """The reading half of one connection, without its socket.

    States: between frames (`_head` empty, `_frame` None); within a size (`_head` has 1 to 3
    bytes); within a frame (`_frame` grows to `_wanted` bytes); refused, for good, after a size
    that no frame may have.
    """

    __slots__ = ("_frame", "_head", "_size_max", "_wanted", "refused")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._head = b""
        self._frame: bytearray | None = None
        self._wanted = 0
        self.refused: FrameTooLarge | None = None

    @property
    def begun(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._frame is not None or bool(self._head)

    @property
    def buffered_bytes(self) -> int:
        """The bytes kept of the frame that has begun, without those of a whole size."""
        return len(self._head) if self._frame is None else len(self._frame)

    @property
    def announced(self) -> int:
        """The size of the frame that has begun, 0 while it is not known."""
        return self._wanted if self._frame is not None else 0

    def receive(self, data: memoryview) -> list[bytearray]:
        """Take the bytes that have arrived; return the frames that are whole, without their sizes.

        `data` is not kept. A size below 0 or above `size_max` ends the stream: the frames before
        it are returned and `refused` says why; with none before it, and at every later call,
        that FrameTooLarge is raised.
        """
        self._raise_if_refused()
        frames: list[bytearray] = []
        position = self._resume(data, frames) if self.begun else 0
        end = len(data)
        while end - position >= SIZE_BYTES:
            (size,) = _unpack_size(data, position)
            start = position + SIZE_BYTES
            position = start + size
            if 0 <= size <= self._size_max and position <= end:
                frames.append(bytearray(data[start:position]))
            else:
                self._begin(size, data[start:])
                position = end
        if position < end:
            self._head = bytes(data[position:])
        if not frames:
            self._raise_if_refused()
        return frames

    def _resume(self, data: memoryview, frames: list[bytearray]) -> int:
        """Go on with what has begun; return the position in `data` after it."""
        position = 0
        if self._head:
            position = SIZE_BYTES - len(self._head)
            self._head += bytes(data[:position])
            if len(self._head) < SIZE_BYTES:
                return len(data)
            (size,) = _unpack_size(self._head)
            self._head = b""
            self._begin(size, data[:0])
        frame = self._frame
        if frame is None:
            return len(data)
        stop = position + self._wanted - len(frame)
        frame += data[position:stop]
        if len(frame) < self._wanted:
            return len(data)
        frames.append(frame)
        self._frame = None
        return stop

    def _begin(self, size: int, piece: memoryview) -> None:
        if 0 <= size <= self._size_max:
            self._wanted = size
            self._frame = bytearray(piece)
        else:
            self.refused = FrameTooLarge(size, self._size_max)

    def _raise_if_refused(self) -> None:
        if self.refused is not None:
            raise self.refused
