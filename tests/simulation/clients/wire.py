"""One client's connection, in either dialect: messages in, answers out, nothing hidden.

There are no retries, no background requests and no time-outs of its own. Requests may be
pipelined; each gives a `Waiter` for its answer. Answers must arrive in the order of the requests,
whole, with the right correlation id and nothing behind the body: all else is noted in
`record.failures` at once, whoever waits. Requests and answers go through the product's codecs, so
the bytes are what a client's would be.

    send     a message; the waiter gets its answer, None for Produce with acks=0
    Disconnected   what every waiter gets when the connection ends, whoever ended it

`record.unanswered` holds the requests that wait, `record.gave_up` those whose client left before
the answer, and `record.ended` the connections that the broker ended: the judges look at them.

A hostile client sends bytes as they are (`send_bytes`). From then on frames need not match.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import msgpack
from crc32c import crc32c

from broker.handlers import HANDLERS
from protocol.errors import DecodeError
from protocol.kafka.codec import decoder, encode_message
from protocol.msgpack.encoder import encoder as map_encoder
from tests.simulation.record import Asked, Record
from tests.simulation.tls_peer import TlsPeer
from tests.simulation.world import Waiter, World

if TYPE_CHECKING:
    from tests.simulation.network import Network, Peer

PRODUCE, API_VERSIONS = 0, 18
NO_ANSWER = -1  # as a time to wait
ANY_BODY = -1  # as a version
REFUSED: Final = {"error_code", "error_message"}
HANDLER_OF: Final = {int(row.api_key): row for row in HANDLERS}
NAME_OF: Final = {key: row.name for key, row in HANDLER_OF.items()}
TIMEOUT_MS: Final = 60_000
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhih")
HOSTS: Final = ("127.0.0.1", "127.0.0.1", "10.0.0.7")
# At the end of some client ids: no UTF-8, and a line of its own, if the broker's log lets it.
ODD_BYTES: Final = b"\xff\xc3(\nan ERROR"


class Disconnected(Exception):
    """The connection has ended: by the broker, by the network, or by its client."""


class _Sent:
    """A request that waits for its answer."""

    __slots__ = ("api_key", "is_in_vain", "number", "version", "waiter")

    def __init__(
        self, number: int, api_key: int, version: int, waiter: Waiter, *, is_in_vain: bool
    ) -> None:
        self.number = number
        self.api_key = api_key
        self.version = version
        self.waiter = waiter
        self.is_in_vain = is_in_vain  # behind a request whose refusal ends the connection


class Wire:
    """A connection in Kafka's protocol. After its end, `open` makes a new one."""

    def __init__(
        self,
        world: World,
        network: Network,
        port: int,
        name: str,
        record: Record | None = None,
        *,
        first_number: int = 1,
    ) -> None:
        self.world = world
        self.name = name
        self.record = record if record is not None else Record()
        self.strays: list[bytes] = []  # frames that a hostile client got
        self.opened_ns = 0
        self.may_be_ended = False  # whether the client has given the broker a reason
        self.has_ended_well = False  # the broker has closed the connection, and not reset it
        drawn = crc32c(name.encode())
        self._host = HOSTS[drawn % len(HOSTS)]
        self._client_id = name.encode() + (ODD_BYTES if drawn % 5 == 0 else b"")
        self._network = network
        self._port = port
        self._peer: Peer | None = None
        self._connection = 0
        self._number = first_number - 1
        self._received = bytearray()
        self._sent: list[_Sent] = []
        self._is_strict = True
        self._is_half_closed = False
        self._is_in_vain = False
        self._reads = True

    # -- The connection -----------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._peer is not None and not self._is_half_closed

    @property
    def waiting_count(self) -> int:
        """How many requests have no answer yet."""
        return len(self._sent)

    async def open(self) -> None:
        """Connect, unless it is open. Raises Disconnected if nobody listens."""
        if self._peer is not None:
            return
        try:
            peer = self._reach()
        except ConnectionRefusedError:
            self.world.note(self.name, f"is refused at {self._port}")
            raise Disconnected("refused") from None
        self._connection += 1
        self.opened_ns = self.world.now_ns
        self._received.clear()
        self._is_strict, self._is_half_closed, self._is_in_vain = True, False, False
        self._reads = True  # since the connection began
        self.may_be_ended = self.has_ended_well = False
        self.world.note(self.name, f"connects to {self._port} ({self._connection})")
        connection = self._connection
        peer.on_data = lambda data: self._on_data(connection, data)
        peer.on_end = lambda error: self._on_end(connection, error)
        self._peer = peer

    def _reach(self) -> Any:
        """Return the client's end of a new connection. Raises ConnectionRefusedError."""
        return self._network.connect(self._port, self._host, self.name)

    def close(self) -> None:
        """End the connection in good order."""
        self._leave("closes", "close")

    def reset(self) -> None:
        """End the connection with a reset."""
        self._leave("resets", "reset")

    def half_close(self) -> None:
        """Send no more; answers still come."""
        if self._peer is not None and not self._is_half_closed:
            self.world.note(self.name, "half-closes")
            self._is_half_closed = True
            self._peer.half_close()

    def must_end(self) -> None:
        """Expect no answer to later requests: the broker must refuse the last one so."""
        self._is_in_vain = True

    def stop_reading(self) -> None:
        """Leave what arrives in the network."""
        if self._peer is not None:
            self.world.note(self.name, "stops reading")
            self._reads = False
            self._peer.stop_reading()

    def read_on(self) -> None:
        """Read again."""
        if self._peer is not None:
            self.world.note(self.name, "reads on")
            self._peer.read_on()

    def _leave(self, verb: str, method: str) -> None:
        peer = self._peer
        if peer is None:
            return
        self.world.note(self.name, f"{verb}, {len(self._sent)} unanswered")
        for place, sent in enumerate(self._sent):
            asked = self.record.unanswered.get((self.name, sent.number))
            if asked is not None:
                self.record.gave_up.append((asked, self.world.now_ns))
                if not place and self._is_strict and self._reads and not sent.is_in_vain:
                    self.record.owed.append((asked, self.world.now_ns))
        self._drop(verb)
        getattr(peer, method)()

    def _drop(self, why: str) -> None:
        self._peer = None
        waiting, self._sent = self._sent, []
        for sent in waiting:
            self.record.unanswered.pop((self.name, sent.number), None)
            sent.waiter.fail(Disconnected(why))

    # -- Requests -----------------------------------------------------------------------------

    def send(
        self, body: Any, version: int, what: str = "", *, wait_ms: int = 0, **extras: Any
    ) -> Waiter:
        """Send a request; never raises. `what` tells the trace what it means.

        `wait_ms` is how long the request lets the broker wait, `extras` are for the other dialect.
        """
        del extras
        api_key = body.MESSAGE.api_key
        self._number = number = (self._number + 1) & 0x7FFFFFFF
        encoded_version = min(version, 4) if api_key == API_VERSIONS else version
        is_flexible = body.MESSAGE.is_flexible(encoded_version)
        client_id = self._client_id
        head = _HEAD.pack(api_key, version, number, len(client_id)) + client_id
        payload = head + (b"\0" if is_flexible else b"") + encode_message(body, encoded_version)
        wait_ms = wait_ms if api_key != PRODUCE or body.acks != 0 else NO_ANSWER
        return self._send(api_key, version, payload, what, wait_ms)

    def _send(self, api_key: int, version: int, payload: bytes, what: str, wait_ms: int) -> Waiter:
        waiter = self.world.waiter()
        peer = self._peer
        if peer is None or self._is_half_closed or not self.record.takes_requests:
            waiter.fail(Disconnected("not connected"))
            return waiter
        number = self._number
        what = f"{NAME_OF.get(api_key, api_key)} {version} {what}"
        self.world.note(self.name, f"> {number} {what}, {len(payload)} bytes {crc32c(payload):08x}")
        self.record.request_count += 1
        if wait_ms != NO_ANSWER:
            sent = _Sent(number, api_key, version, waiter, is_in_vain=self._is_in_vain)
            self._sent.append(sent)
            now_ns, connection = self.world.now_ns, self._connection
            asked = Asked(now_ns, self.name, connection, number, api_key, what, wait_ms)
            if self._is_strict:  # else the broker may read something else
                self.record.unanswered[self.name, number] = asked
        else:
            self.may_be_ended = True  # there is no other way to refuse it
            waiter.set(None)
        peer.send(_SIZE.pack(len(payload)) + payload)
        return waiter

    async def call(
        self, body: Any, version: int, timeout_ms: float = TIMEOUT_MS, what: str = "", **extras: Any
    ) -> Any:
        """Send a request and return its answer. Raises Disconnected and TimedOut."""
        return await self.world.wait(self.send(body, version, what, **extras), timeout_ms)

    def send_bytes(self, data: bytes, what: str = "") -> None:
        """Send bytes as they are. Later answers need not match: the stream may be spoilt."""
        if self._peer is not None and not self._is_half_closed:
            self._is_strict = False
            self.world.note(self.name, f"> raw {what}, {len(data)} bytes {crc32c(data):08x}")
            self._peer.send(data)

    # -- Answers ------------------------------------------------------------------------------

    def _on_data(self, connection: int, data: bytes) -> None:
        if connection != self._connection or self._peer is None:
            return
        received = self._received
        received += data
        position, end = 0, len(received)
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(received, position)
            if size < 0:
                self._fail(f"an answer of size {size}")
                return
            start, stop = position + 4, position + 4 + size
            if stop > end:
                break
            frame = bytes(received[start:stop])
            position = stop
            self._on_frame(frame)
            if self._peer is None:
                return
        del received[:position]

    def _on_frame(self, frame: bytes) -> None:
        if not self._is_strict and not self._sent:
            self.strays.append(frame)
            self.world.note(self.name, f"< stray, {len(frame)} bytes {crc32c(frame):08x}")
            return
        if not self._sent:
            self._fail(f"an answer of {len(frame)} bytes to nothing")
            return
        sent = self._sent[0]
        try:
            answer = self._decode(sent, frame)
        except (DecodeError, ValueError, IndexError, struct.error) as error:
            if not self._is_strict:
                self.strays.append(frame)
                return
            name = NAME_OF.get(sent.api_key, sent.api_key)
            self._fail(f"the answer to {sent.number} {name} {sent.version}: {error}")
            return
        if sent.is_in_vain:
            self.record.fail(self.name, "is served behind a refused request that has no answer")
        del self._sent[0]
        asked = self.record.unanswered.pop((self.name, sent.number), None)
        if asked is not None:
            self.record.answered(asked, self.world.now_ns)
        self.world.note(self.name, f"< {sent.number}, {len(frame)} bytes {crc32c(frame):08x}")
        sent.waiter.set(answer)

    def _decode(self, sent: _Sent, frame: bytes) -> Any:
        (number,) = _SIZE.unpack_from(frame)
        if number != sent.number:
            raise ValueError(f"has the correlation id {number}")
        handler = HANDLER_OF[sent.api_key]
        cls, version, position = handler.response, sent.version, 4
        if sent.api_key == API_VERSIONS:
            version = version if version <= handler.max_version else 0
        elif cls.MESSAGE.is_flexible(version):
            if frame[4]:
                raise ValueError("has tagged fields in its header")
            position = 5
        answer, end = decoder(cls, version)(memoryview(frame), position)
        if end != len(frame):
            raise ValueError(f"has {len(frame) - end} bytes behind its body")
        return answer

    def _fail(self, what: str) -> None:
        """Note what no broker may do, and leave: the stream means nothing any more."""
        self.world.note(self.name, f"objects: {what}")
        if self._is_strict:
            self.record.failures.append(f"{self.name}: {what}")
        self.reset()

    def _on_end(self, connection: int, error: Exception | None) -> None:
        if connection != self._connection or self._peer is None:
            return
        why = "end of stream" if error is None else type(error).__name__
        self.world.note(self.name, f"loses the connection: {why}, {len(self._sent)} unanswered")
        peer = self._peer
        closed_ns = peer.closed_ns
        is_good = self._is_strict and not self._is_half_closed and not self.may_be_ended
        if is_good and closed_ns is not None:
            self.record.ended.append((closed_ns, self.name, why))
        self._drop(why)
        self.has_ended_well = error is None
        if error is None and peer.is_open:
            peer.close()


class TlsWire(Wire):
    """A connection in Kafka's protocol over TLS."""

    async def open(self) -> None:
        await super().open()
        self.may_be_ended = True  # a handshake that the network delays is given up

    def _reach(self) -> Any:
        return TlsPeer(super()._reach())


class MsgpackWire(Wire):
    """A connection in the msgpack dialect. Answers have their fields as attributes, too.

    Messages are sent as maps of all their fields. `records` of a Produce may be batches or a list
    of maps; `extras` are fields that Kafka lacks (`raw` of Fetch). `send_map` sends any map.
    """

    def send(
        self, body: Any, version: int = -1, what: str = "", *, wait_ms: int = 0, **extras: Any
    ) -> Waiter:
        """Send a message as a map, in the only version that the dialect has."""
        del version
        api_key = body.MESSAGE.api_key
        handler = HANDLER_OF[api_key]
        made = {**map_encoder_of(handler)(body), **extras}
        wait_ms = wait_ms if api_key != PRODUCE or body.acks != 0 else NO_ANSWER
        return self._send_map(handler.name, api_key, made, what, wait_ms, is_message=True)

    def send_map(self, api: str | int, body: Any, what: str = "") -> Waiter:
        """Send any body, also one that the broker refuses; the answer is given as it comes."""
        key = next((key for key, name in NAME_OF.items() if api in (key, name)), -1)
        is_silent = key == PRODUCE and isinstance(body, dict) and body.get("acks") == 0
        return self._send_map(api, key, body, what, NO_ANSWER if is_silent else 0)

    def _send_map(
        self,
        api: str | int,
        key: int,
        body: Any,
        what: str,
        wait_ms: int,
        *,
        is_message: bool = False,
    ) -> Waiter:
        self._number = (self._number + 1) & 0x7FFFFFFF
        payload = msgpack.packb([api, self._number, self.name, body])
        version = HANDLER_OF[key].max_version if is_message else ANY_BODY
        return self._send(key, version, payload, what, wait_ms)

    def _decode(self, sent: _Sent, frame: bytes) -> Any:
        answer = msgpack.unpackb(frame, object_hook=_with_attributes, strict_map_key=False)
        if not isinstance(answer, list) or len(answer) != 2:
            raise ValueError("is no [correlation id, body]")
        if answer[0] != sent.number:
            raise ValueError(f"has the correlation id {answer[0]}")
        if sent.version != ANY_BODY and vars(answer[1]).keys() == REFUSED:
            raise ValueError(f"refuses a sound request: {answer[1].error_message}")
        return answer[1]


def _with_attributes(fields: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**fields)


_map_encoders: dict[int, Any] = {}


def map_encoder_of(handler: Any) -> Any:
    """Return the function that makes a map of a request."""
    made = _map_encoders.get(int(handler.api_key))
    if made is None:
        made = _map_encoders[int(handler.api_key)] = map_encoder(
            handler.request, handler.max_version
        )
    return made
