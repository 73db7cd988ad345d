"""The memory that one connection holds, counted in one place.

    request bytes   received and not answered yet: the begun frame, frames that wait, and requests
                    that are queued, parked or being handled; against `queued.max.request.bytes`
    answer bytes    answers behind an unanswered request, or in the transport of a client that
                    does not read; against `barnabas.answer.bytes.max`
    reserved bytes  the most that the answers to started requests may add to the answer bytes

A request starts only if its reserved bytes fit the connection's share of the bound on answers.
The first request of a connection always starts, so every connection makes progress, whatever
the others hold.

Answer bytes count only this process's own memory: views of mapped files belong to the page cache.

The end of a connection returns all of its bytes except those of requests that are still being
handled, whose memory is still in use. Those are returned with their answers, which are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.network.byte_budget import ByteBudget
from broker.runtime.request import Buffer
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchRequest

# One connection may use this part of the bound on answers.
SHARES: Final = 4

# Reserved for an API whose request does not bound the size of its answer.
USUAL_ANSWER_BYTES_MAX: Final = 1024 * 1024

_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


class ConnectionAccount:
    """The bytes that one connection holds; every count is of bytes."""

    __slots__ = (
        "_answers",
        "_requests",
        "_share_bytes",
        "_unsent_bytes",
        "answer_bytes",
        "received_bytes",
        "request_bytes",
        "reserved_bytes",
        "sent_bytes",
    )

    def __init__(self, requests: ByteBudget, answers: ByteBudget) -> None:
        self._requests = requests
        self._answers = answers
        self._share_bytes = answers.limit_bytes // SHARES
        self.request_bytes = 0
        self.answer_bytes = 0
        self.reserved_bytes = 0
        self.received_bytes = 0  # since it began
        self.sent_bytes = 0
        self._unsent_bytes = 0  # of the answer bytes: those the transport has

    def received(self, count: int) -> None:
        """Count bytes that have arrived."""
        self.request_bytes += count
        self.received_bytes += count
        self._requests.take(count)

    def sent(self, buffers: Sequence[Buffer]) -> int:
        """Count what is sent to the client; return its bytes."""
        size = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self.sent_bytes += size
        return size

    def may_start(self, reserved: int) -> bool:
        """Whether a request behind others may start, with an answer of at most `reserved` bytes.

        One that reserves nothing waits only for existing answers, not for possible ones.
        """
        held = self.answer_bytes + reserved
        if reserved:
            if self._answers.full:
                return False
            held += self.reserved_bytes
        return held <= self._share_bytes

    def answered(self, frame_bytes: int, reserved: int) -> None:
        """Return the bytes of a request that is answered."""
        self.request_bytes -= frame_bytes
        self.reserved_bytes -= reserved
        assert self.request_bytes >= 0, f"I12: {self.request_bytes} request bytes are held"
        self._requests.give_back(frame_bytes)

    def keep(self, count: int) -> None:
        """Count bytes of answers that cannot be sent yet."""
        self.answer_bytes += count
        self._answers.take(count)

    def let_go(self, count: int) -> None:
        """Return bytes of answers that are sent."""
        self.answer_bytes -= count
        assert self.answer_bytes >= 0, f"I12: {self.answer_bytes} answer bytes are held"
        self._answers.give_back(count)

    def unsent(self, count: int) -> None:
        """Count bytes of answers that the transport holds because the client does not read."""
        self._unsent_bytes += count
        self.keep(count)

    def all_sent(self) -> None:
        """Return the bytes that the transport held: the client has read them."""
        count, self._unsent_bytes = self._unsent_bytes, 0
        self.let_go(count)

    def end(self, working_bytes: int) -> None:
        """Return all but `working_bytes`, those of requests that are still being handled."""
        given_back, self.request_bytes = self.request_bytes - working_bytes, working_bytes
        self.reserved_bytes = self._unsent_bytes = 0
        self._requests.give_back(given_back)
        self.let_go(self.answer_bytes)


def own_bytes(buffers: Sequence[Buffer]) -> int:
    """Return how many bytes of `buffers` are this process's memory, not views of mapped files.

    A view that can be written is of a copy (`storage.files.copy_blocks`).
    """
    return sum(
        len(buffer) for buffer in buffers if type(buffer) is not memoryview or not buffer.readonly
    )


def answer_bytes_max(api_key: int, body: FetchRequest, fetch_bytes_max: int) -> int:
    """Return how many bytes to reserve for the answer to a request.

    A fetch asks for a number of bytes, and gets `fetch_bytes_max` at most. The answer to a produce
    request is smaller than the request.
    """
    if api_key == _FETCH:
        return max(0, min(body.max_bytes, fetch_bytes_max))
    return 0 if api_key == _PRODUCE else USUAL_ANSWER_BYTES_MAX
