"""One broker for all the bad input, and a check of its effect on other clients.

The same checks follow every test of this folder (`unharmed`): the process runs, a connection opened
long before still produces and fetches, so does a new one, and memory has not grown. So a test
needs to state only what it sends and how the broker answers.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.raw_batches import batch, values_of
from tests.support.raw_client import RawClient

FRAME_DEADLINE_MS = 1500
ANSWERED_WITHIN_S = 30.0  # for a machine that is busy with other work
MEMORY_GROWTH_BYTES_MAX = 48 << 20
CONTROL = "control"
HOSTILE = "hostile"


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with default limits and a short deadline for half a frame."""
    data: Path = tmp_path_factory.mktemp("bad_input") / "data"
    settings = {"barnabas.frame.deadline.ms": str(FRAME_DEADLINE_MS)}
    with BrokerProcess(data, settings) as running:
        with RawClient(running.host, running.port) as client:
            assert client.create_topic(CONTROL) == 0
            assert client.create_topic(HOSTILE) == 0
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="package")
def control(broker: BrokerProcess) -> Iterator["Control"]:
    """Another client, connected all the time."""
    with RawClient(broker.host, broker.port) as client:
        yield Control(client, broker)


@pytest.fixture(autouse=True)
def unharmed(control: "Control") -> Iterator[None]:
    """Check after each test that other clients are unaffected."""
    control.begin()
    yield
    control.check()


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[[], RawClient]]:
    """Return a function that opens connections, which are closed at the end."""
    opened: list[RawClient] = []

    def connect_one() -> RawClient:
        opened.append(RawClient(broker.host, broker.port))
        return opened[-1]

    yield connect_one
    for client in opened:
        client.close()


class Control:
    """A client that sends only valid requests."""

    def __init__(self, client: RawClient, broker: BrokerProcess) -> None:
        self.client = client
        self.broker = broker
        self.count = 0
        self.check_served(client)
        self.memory_bytes_at_first = self.memory_bytes_before = broker.resident_bytes()

    def begin(self) -> None:
        """Note the memory before a test."""
        self.memory_bytes_before = self.broker.resident_bytes()

    def check(self) -> None:
        """Fail unless the broker runs, serves old and new connections, and has not grown."""
        assert self.broker.running, self.broker.output()
        self.check_served(self.client)
        with RawClient(self.broker.host, self.broker.port) as newcomer:
            self.check_served(newcomer)
        growth_bytes = self.broker.resident_bytes() - self.memory_bytes_at_first
        assert growth_bytes < MEMORY_GROWTH_BYTES_MAX

    def check_served(self, client: RawClient) -> float:
        """Produce one record, fetch it back, and return the seconds that took."""
        value = b"control %d" % self.count
        started = time.perf_counter()
        produced = client.produce(CONTROL, batch([value]))
        assert produced.error == 0
        fetched = client.fetch(CONTROL, produced.base_offset)
        assert fetched.error == 0
        assert values_of(fetched.records) == [value]
        self.count += 1
        return time.perf_counter() - started

    def slowest_answer_s(self, seconds: float) -> float:
        """Return the longest wait of this client for an answer within `seconds`."""
        slowest_s = 0.0
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            slowest_s = max(slowest_s, self.check_served(self.client))
            time.sleep(0.01)
        return slowest_s

    def check_served_for(self, seconds: float) -> None:
        """Send requests for `seconds`; no answer may take so long that a client would give up."""
        assert self.slowest_answer_s(seconds) < ANSWERED_WITHIN_S

    def memory_growth_bytes(self) -> int:
        """Return by how many bytes the broker's memory has grown since the test began."""
        return self.broker.resident_bytes() - self.memory_bytes_before
