"""A thousand hostile clients at a time, before TLS and before a login; what each may hold.

A client without TLS produces to the same broker all the time. The times are measured by
`benchmarks.hostile`; here it is counted what is held, and that all of it is given back.
"""

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks import hostile_clients
from tests.support.broker_process import BrokerProcess, free_port
from tests.support.certificates import Authority
from tests.support.raw_batches import batch
from tests.support.raw_client import RawClient

AT_A_TIME = 1_000
WARM, MEASURED = 100, 400
KiB = 1024
IDLE_KIB_MAX, STRANGER_KIB_MAX = 32, 160
PATIENCE_S = 60.0
HANDSHAKE = 22  # the type of a TLS record


class GuardedBroker(BrokerProcess):
    """A broker with a plain listener, one with TLS, and logins with and without TLS."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "certificates")
        own = self.authority.issue("broker")
        names = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
        self.ports = {name: free_port() for name in names}
        super().__init__(
            directory / "data",
            {
                "ssl.certificate": own.chain_file,
                "ssl.key": own.key_file,
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "socket.listen.backlog.size": str(AT_A_TIME),
            },
        )
        named = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        self.settings["listeners"] = ",".join([f"PLAINTEXT://{self.address}", *named])

    def until_given_back(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (now := self.descriptor_count()) > count:
            assert time.monotonic() < deadline, f"{now} descriptors, {count} before"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(tmp_path_factory.mktemp("hostile"))
    with broker:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic("t") == 0
        yield broker


@pytest.mark.parametrize(
    ("listener", "kinds"),
    [
        ("SSL", hostile_clients.TLS),
        ("SASL_PLAINTEXT", hostile_clients.LOGINS),
    ],
)
def test_a_thousand_at_a_time_are_given_back(
    broker: GuardedBroker, listener: str, kinds: Mapping[str, hostile_clients.Kind]
) -> None:
    with RawClient(broker.host, broker.port) as plain:
        assert plain.produce("t", batch([b"before"])).error == 0
        before = broker.descriptor_count()
        crowd = hostile_clients.Crowd(broker.ports[listener], kinds)
        try:
            crowd.connect(AT_A_TIME)
            produced = 0
            while crowd.now:
                crowd.step(0.01)
                assert plain.produce("t", batch([b"meanwhile"])).error == 0
                produced += 1
        finally:
            crowd.close()
        assert produced > 1
        assert crowd.begun == AT_A_TIME
        broker.until_given_back(before)


def kib_each(broker: GuardedBroker, make: Callable[[], socket.socket]) -> float:
    """Return how much memory each of many connections holds, after others have warmed it up."""
    warm = [make() for _ in range(WARM)]
    before = settled_bytes(broker)
    found = [make() for _ in range(MEASURED)]
    held = settled_bytes(broker) - before
    for sock in [*warm, *found]:
        sock.close()
    return held / MEASURED / KiB


def settled_bytes(broker: GuardedBroker) -> int:
    """Return the broker's memory once it has not changed for half a second."""
    found = -1
    while found != (now := broker.resident_bytes()):
        found = now
        time.sleep(0.5)
    return found


def encrypted(broker: GuardedBroker, listener: str) -> ssl.SSLSocket:
    sock = socket.create_connection((broker.host, broker.ports[listener]), PATIENCE_S)
    context = ssl.create_default_context(cafile=broker.authority.file)
    return context.wrap_socket(sock, server_hostname="localhost")


@pytest.mark.slow
def test_an_idle_tls_connection_is_small(broker: GuardedBroker) -> None:
    before = broker.descriptor_count()
    assert kib_each(broker, lambda: encrypted(broker, "SSL")) <= IDLE_KIB_MAX
    broker.until_given_back(before)


@pytest.mark.slow
def test_a_stranger_with_the_largest_frame_over_tls_is_bounded(broker: GuardedBroker) -> None:
    def stranger() -> socket.socket:
        sock = encrypted(broker, "SASL_SSL")
        head = struct.pack(">ihhih", 64 * KiB, 17, 1, 7, -1)
        sock.sendall(head + bytes(64 * KiB - 11))  # all of the frame but its last byte
        return sock

    before = broker.descriptor_count()
    assert kib_each(broker, stranger) <= STRANGER_KIB_MAX
    broker.until_given_back(before)


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
@pytest.mark.parametrize("names", [0, 18, 28, 58])  # the last hello is almost as large as may be
@pytest.mark.parametrize("piece_bytes", [KiB, 64 * KiB])
def test_a_large_hello_is_read_whole(
    broker: GuardedBroker, listener: str, names: int, piece_bytes: int
) -> None:
    context = ssl.create_default_context()
    if names:
        context.set_alpn_protocols([f"{number:0255d}" for number in range(names)])
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    assert len(hello) > names * 255
    with socket.create_connection((broker.host, broker.ports[listener]), PATIENCE_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for begin in range(0, len(hello), piece_bytes):
            sock.sendall(hello[begin : begin + piece_bytes])
            time.sleep(0.002)  # a piece arrives by itself
        assert sock.recv(1)[0] == HANDSHAKE
