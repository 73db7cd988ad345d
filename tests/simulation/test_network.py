"""The network in memory: what clients and the broker see of each other, and of its faults."""

import asyncio
import errno
from collections.abc import Coroutine, Iterator
from typing import Any, ClassVar

import pytest

from config.listeners import Listener
from tests.simulation.link import Peer
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network, NetworkShape, SimListener
from tests.simulation.transport import SimTransport
from tests.simulation.world import World

CALM = NetworkShape(whole_chance=1, crumbs_chance=0, stall_chance=0)
ROUGH = NetworkShape(
    whole_chance=0.3, crumbs_chance=0.5, stall_chance=0.1, window_bytes=512, stall_ms=50
)


class Echo(asyncio.BufferedProtocol):
    """Sends back what it receives."""

    def __init__(self, place: "Place") -> None:
        self.buffer = bytearray(700)
        self.place = place
        self.lost: list[Exception | None] = []
        self.reads: list[int] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.reads.append(nbytes)
        self.place.world.note("echo", str(nbytes))
        self.transport.write(bytes(self.buffer[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Place:
    """A world with a network and a broker's loop that echoes."""

    begun: ClassVar[list["Place"]] = []

    def __init__(self, shape: NetworkShape, seed: str = "seed", backlog: int = 5) -> None:
        self.world = World(seed)
        self.loop = SimLoop(self.world, lambda: None)
        self.network = Network(self.world, self.world.chance("network"), shape)
        self.listener = self.listen(backlog=backlog)
        self.port = self.listener.getsockname()[1]
        self.begun.append(self)

    def listen(self, port: int = 0, backlog: int = 5) -> SimListener:
        return self.network.listen(Listener("A", "PLAINTEXT", "127.0.0.1", port), -1, -1, backlog)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    def rest(self) -> None:
        self.run(asyncio.sleep(1000))

    async def accept(self) -> Echo:
        sock, _ = await self.loop.sock_accept(self.listener)
        echo = Echo(self)
        await self.loop.connect_accepted_socket(lambda: echo, sock)
        return echo

    def connected(self, name: str = "") -> tuple[Peer, Echo]:
        peer = self.network.connect(self.port, name=name)
        return peer, self.run(self.accept())


@pytest.fixture(autouse=True)
def places_end() -> Iterator[None]:
    yield
    while Place.begun:
        place = Place.begun.pop()
        place.network.down()
        place.loop.close()
        assert not place.world.defects


def kept(peer: Peer) -> tuple[bytearray, list[Exception | None]]:
    """Return what the peer receives from now on, and how it ends."""
    received, ends = bytearray(), []
    peer.on_data = received.extend
    peer.on_end = ends.append
    return received, ends


def test_bytes_arrive_in_order_and_in_pieces() -> None:
    place = Place(ROUGH)
    data = bytes(range(256)) * 40
    for _ in range(5):
        peer, echo = place.connected()
        received, ends = kept(peer)
        peer.send(data[:5000])
        peer.send(data[5000:])
        place.rest()
        assert bytes(received) == data
        assert len(echo.reads) > 5
        assert not ends


def test_a_history_is_the_same_again_and_differs_with_the_seed() -> None:
    def digest(seed: str) -> str:
        place = Place(ROUGH, seed)
        for number in range(4):
            peer, _ = place.connected()
            peer.send(bytes(999))
            if number % 2:
                peer.reset()
        place.rest()
        return place.world.digest

    assert digest("a") == digest("a")
    assert digest("a") != digest("b")


def test_a_client_taken_out_leaves_the_pieces_of_the_others() -> None:
    def reads(*names: str) -> list[int]:
        place = Place(ROUGH)
        for name in names:
            peer, echo = place.connected(name)
            peer.stop_reading()
            peer.send(bytes(300))
            place.rest()
        return echo.reads

    assert reads("x", "y") == reads("y")
    assert reads("y") != reads("x")


def test_a_peer_that_does_not_read_fills_its_window_and_then_the_transport() -> None:
    place = Place(CALM)
    peer, echo = place.connected()
    peer.stop_reading()
    received, _ = kept(peer)
    frame = bytearray(b"a" * 20_000)
    echo.transport.write(memoryview(frame))
    place.rest()
    assert echo.transport.get_write_buffer_size() == 20_000 - CALM.window_bytes
    # The kernel has copied its part; the rest is still the caller's, as it is with uvloop.
    frame[:] = b"b" * 20_000
    peer.read_on()
    place.rest()
    assert received == b"a" * CALM.window_bytes + b"b" * (20_000 - CALM.window_bytes)


def test_an_unread_socket_takes_only_its_window() -> None:
    place = Place(CALM)
    peer, echo = place.connected()
    echo.transport.pause_reading()
    peer.send(bytes(50_000))
    place.rest()
    assert not echo.reads
    echo.transport.resume_reading()
    place.rest()
    assert sum(echo.reads) == 50_000


def test_nobody_listens() -> None:
    place = Place(CALM)
    with pytest.raises(ConnectionRefusedError):
        place.network.connect(place.port + 1)
    place.listener.close()
    with pytest.raises(ConnectionRefusedError):
        place.network.connect(place.port)


def test_ports() -> None:
    place = Place(CALM)
    assert place.listen(9092).getsockname() == ("127.0.0.1", 9092)
    with pytest.raises(OSError, match="in use"):
        place.listen(9092)
    assert place.listen().getsockname()[1] != place.port
    assert place.network.open_listeners == 3
    place.network.down()
    assert place.network.open_listeners == 0
    assert place.listen(9092).fileno() > 0


def test_accepts_fail_and_their_connections_wait() -> None:
    place = Place(CALM)
    place.network.fail_accepts(errno.EMFILE, 2)
    peer = place.network.connect(place.port)
    for _ in range(2):
        with pytest.raises(OSError, match="EMFILE") as failed:
            place.run(place.accept())
        assert failed.value.errno == errno.EMFILE
    received, _ = kept(peer)
    peer.send(b"late")
    place.run(place.accept())
    place.rest()
    assert received == b"late"


def test_accept_gives_the_clients_address() -> None:
    place = Place(CALM)
    peer = place.network.connect(place.port, "10.0.0.7")
    sock, address = place.run(place.loop.sock_accept(place.listener))
    assert address == peer.address
    assert address[0] == "10.0.0.7"
    assert sock.getsockname() == ("127.0.0.1", place.port)
    _, ends = kept(peer)
    sock.close()
    place.rest()
    assert ends == [None]
    assert sock.fileno() == -1
    assert place.network.open_sockets == 0


def test_a_cancelled_accept_takes_no_connection() -> None:
    place = Place(CALM)

    async def cancelled() -> None:
        task = asyncio.ensure_future(place.accept())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    place.run(cancelled())
    peer, _ = place.connected()
    assert peer.is_open


def test_a_full_backlog_delays_the_handshake() -> None:
    place = Place(CALM, backlog=1)
    for _ in range(3):
        place.network.connect(place.port)
    place.run(asyncio.sleep(0.1))
    place.run(place.accept())
    started_ns = place.world.now_ns
    place.run(place.accept())
    place.run(place.accept())
    assert place.world.now_ns - started_ns > 500_000_000


def test_a_closed_listener_resets_its_backlog() -> None:
    place = Place(CALM)
    ends = [kept(place.network.connect(place.port))[1] for _ in range(2)]
    place.listener.close()
    place.rest()
    assert [type(error) for (error,) in ends] == [ConnectionResetError] * 2
    assert place.network.open_sockets == 0


def test_down_resets_the_clients_and_calls_nothing_of_the_broker() -> None:
    place = Place(CALM)
    peer, echo = place.connected()
    _, ends = kept(peer)
    peer.send(b"too late")
    place.network.down()
    place.rest()
    assert [type(error) for error in ends] == [ConnectionResetError]
    assert not peer.is_open
    assert not echo.lost
    assert not echo.reads
    assert place.network.open_sockets == 0
    with pytest.raises(RuntimeError):
        echo.transport.write(b"x")
    echo.transport.abort()
    place.rest()
    assert not echo.lost


def test_only_the_broker_itself_closes() -> None:
    place = Place(NetworkShape(latency_max_us=40))
    closed, killed, cut = (place.network.connect(place.port, name=name) for name in "abc")
    echoes = [place.run(place.accept()) for _ in range(3)]
    by_port = {echo.transport.get_extra_info("peername"): echo for echo in echoes}
    by_port[closed.address].transport.close()
    place.run(asyncio.sleep(0))
    closed_ns = place.world.now_ns
    place.rest()
    cut.reset()
    place.network.down()
    place.rest()
    assert not any(peer.is_open for peer in (closed, killed, cut))
    assert closed.closed_ns is not None
    assert closed.closed_ns <= closed_ns
    assert killed.closed_ns is None
    assert cut.closed_ns is None


def test_an_adoption_that_is_cancelled_closes_the_socket() -> None:
    place = Place(CALM)
    peer = place.network.connect(place.port)
    _, ends = kept(peer)

    async def cancelled() -> None:
        sock, _ = await place.loop.sock_accept(place.listener)
        task = asyncio.ensure_future(place.loop.connect_accepted_socket(lambda: Echo(place), sock))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    place.run(cancelled())
    place.rest()
    assert ends == [None]
    assert place.network.open_sockets == 0


def test_a_transport_knows_its_addresses() -> None:
    place = Place(CALM)
    peer, echo = place.connected()
    assert isinstance(echo.transport, SimTransport)
    assert echo.transport.get_extra_info("peername") == peer.address
    assert echo.transport.get_extra_info("cipher", 5) == 5
