"""A transport without a socket: records the bytes written to it, and whether reading is paused."""

import asyncio
from typing import Any

from broker.network.connection import Connection


class FakeTransport(asyncio.Transport):
    """Records the bytes written, and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = True
        self.ended = ""
        self.unsent_bytes = 0
        self.full: Connection | None = None  # the connection whose client does not read

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice"
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += bytes(data)
        if self.full is not None:
            self.full.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(bytes(data) for data in list_of_data)

    def abort(self) -> None:
        self.ended = "aborted"

    def close(self) -> None:
        self.ended = "closed"
