"""The interface of a dialect: a frame becomes a request, a response becomes buffers.

A dialect is chosen per listener, never by sniffing bytes. All of them decode to, and encode from,
the message classes of `protocol.messages`, so a handler never knows which one it serves. A dialect
keeps no state of a connection and does no I/O: it is given whole frames and returns whole frames.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from protocol.wire import Buffer


@dataclass(slots=True)
class RequestHeader:
    """The header of a request: its API, its client, and the correlation id of the response.

    `api_version` is the version the client asked for, also where another one must answer it
    (ApiVersions). `client_id` is None if the client gave none. `copies_records` says that the
    dialect looks into the records of an answer: they must be memory of ours, not a mapped file.
    `opens_records` says that it opens them, too, which may take long: see `wants_thread`. More than
    `copied_inline_max` bytes of one partition are copied by a thread, even from the page cache.
    """

    opens_records: ClassVar[bool] = False
    copied_inline_max: ClassVar[int] = 1 << 62

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    copies_records: bool = False

    def wants_thread(self, response: Any) -> bool:  # noqa: ARG002 - for those that open records
        """Whether encoding `response` takes so long that it must run in a thread."""
        return False

    def refused_count(self) -> int:
        """How many batches and records of the answer were over the limits and not opened."""
        return 0


@dataclass(slots=True)
class DecodedRequest:
    """A request: its header, and its body as the message class of that API."""

    header: RequestHeader
    body: Any


class ServedApi(Protocol):
    """One API that is served: its key, its versions (inclusive) and its message classes.

    The classes are read when the API is first used.
    """

    @property
    def api_key(self) -> int:
        """The API."""

    @property
    def min_version(self) -> int:
        """The first version that is served."""

    @property
    def max_version(self) -> int:
        """The last version that is served."""

    @property
    def request(self) -> type[Any]:
        """The message class of the request."""

    @property
    def response(self) -> type[Any]:
        """The message class of the response."""


class Dialect(Protocol):
    """A way to write the same messages as bytes."""

    def api_of(self, frame: memoryview) -> int:
        """Return the API that a frame asks for, from its first bytes; -1 if they name none."""
        ...

    def decode_request(self, frame: memoryview, *, in_thread: bool = False) -> DecodedRequest:
        """Decode one frame (without its size); raises ProtocolError, and nothing else.

        A BadRequest among them carries the answer to be sent; the connection goes on. TakesLong
        asks to be called again from a thread, `in_thread`.

        Records in the body are views of `frame`, writable if it is.
        """
        ...

    def encode_response(self, header: RequestHeader, response: Any) -> list[Buffer]:
        """Return the frame that answers `header`, its size included, as buffers to be sent.

        Large records are passed on without a copy. Raises EncodeError if `response` is not what
        its class declares. A thread may call this if `wants_thread` says so.
        """
        ...

    def encode_in_steps(
        self, header: RequestHeader, response: Any
    ) -> Generator[int, None, list[Buffer]]:
        """Do what `encode_response` does for large answers, a bounded piece at a time.

        Yields about how many bytes the frame has grown by; may be abandoned at any step.
        """
        ...
