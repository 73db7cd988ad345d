"""Every client reads what any other wrote: each byte, in order, with each codec.

The short form (a few thousand lines of a log, clients from PyPI) runs always; with kcat and Kafka's
own console tools it wants the interop marker; a million lines of a real nginx's access log over
sixteen partitions want slow as well (BARNABAS_REAL_LINES makes them fewer, where time is short).
The broker keeps its defaults throughout, but has a listener of each dialect: one of the clients is
ours ("barnabas"), in the msgpack dialect, so each dialect is read as the other wrote it.
"""

import functools
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop import clients, real_input
from tests.interop.oracle import kafka
from tests.support.broker_process import BrokerProcess, free_port
from tests.support.under_test import against_kafka, broker_on

OURS = "barnabas"
PYPI = ("confluent-kafka", "kafka-python", "aiokafka", OURS)
SHORT_LINES = 2_000
SHORT_PARTITIONS = 2
REAL_PARTITIONS = 16
REAL_LINES_VARIABLE = "BARNABAS_REAL_LINES"
SHORT_SECONDS, REAL_SECONDS = 120, 3600


class Exchange:
    """A broker, an input, and each client's writes and reads; each is done once, on demand."""

    def __init__(
        self, addresses: tuple[str, str], path: Path, partitions: int, seconds: float
    ) -> None:
        self.address, self.msgpack = addresses
        self.path = path
        self.partitions = partitions
        self._seconds = seconds
        self._written: dict[str, dict[str, str]] = {}
        self._read: dict[tuple[str, str], dict[str, list[str]]] = {}
        self._expected = functools.cache(functools.partial(clients.expected, path))

    def topics(self, producer: str) -> dict[str, str]:
        """codec -> topic, all of them written by `producer`."""
        if producer not in self._written:
            name = f"nginx_services_{producer}"
            topics = {codec: f"{name}_{codec}" for codec in clients.CODECS}
            count = str(self.partitions_of(producer))
            run = functools.partial(clients.run, timeout_seconds=self._seconds)
            run("create", self.address, count, *topics.values())
            pairs = [f"{topic}={codec}" for codec, topic in topics.items()]
            run("produce", producer, self.address_of(producer), count, str(self.path), *pairs)
            self._written[producer] = topics
        return self._written[producer]

    def address_of(self, client: str) -> str:
        """The listener that speaks a client's dialect."""
        if client == OURS and against_kafka():
            pytest.skip("Apache Kafka has no msgpack dialect")
        return self.msgpack if client == OURS else self.address

    def partitions_of(self, producer: str) -> int:
        """ConsoleProducer cannot choose a partition, so it gets a topic with one."""
        return 1 if producer == "ConsoleProducer" else self.partitions

    def expected(self, producer: str) -> list[str]:
        """The digest of every partition."""
        return self._expected(self.partitions_of(producer))[1]

    def read(self, producer: str, consumer: str, codec: str) -> list[str]:
        """Return the digests of `consumer`'s reading of `producer`'s records."""
        topics = self.topics(producer)
        key = (producer, consumer)
        if key not in self._read:
            counts = json.dumps(self._expected(self.partitions_of(producer))[0])
            address = self.address_of(consumer)
            arguments = ("consume", consumer, address, counts, *topics.values())
            self._read[key] = json.loads(clients.run(*arguments, timeout_seconds=self._seconds))
        return self._read[key][topics[codec]]


def check(exchange: Exchange, producer: str, consumer: str, codec: str) -> None:
    """Every byte and order equal, by digest."""
    assert exchange.read(producer, consumer, codec) == exchange.expected(producer)


@contextmanager
def broker_of_both(place: Path) -> Iterator[tuple[str, str]]:
    """A running broker's addresses: Kafka's dialect, msgpack."""
    broker = broker_on(place)
    msgpack = f"127.0.0.1:{free_port()}"
    if isinstance(broker, BrokerProcess):
        broker.settings["listeners"] += f",MSGPACK://{msgpack}"
    broker.start()
    try:
        yield broker.address, msgpack
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """A broker with a short input."""
    place = tmp_path_factory.mktemp("short")
    real_input.generated(place / "access.log", SHORT_LINES)
    with broker_of_both(place / "broker") as addresses:
        yield Exchange(addresses, place / "access.log", SHORT_PARTITIONS, SHORT_SECONDS)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    """A broker with a million lines that a real nginx wrote."""
    place = tmp_path_factory.mktemp("real")
    lines = int(os.environ.get(REAL_LINES_VARIABLE, real_input.LINES))
    if real_input.make(place / "access.log", lines) != "nginx":
        pytest.skip("no nginx on this machine: `apt-get install nginx-light`")
    try:
        with broker_of_both(place / "broker") as addresses:
            yield Exchange(addresses, place / "access.log", REAL_PARTITIONS, REAL_SECONDS)
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def programs() -> None:
    """Skip if kcat or Kafka's jars are missing, and name them."""
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on this machine: `apt-get install kcat`")
    kafka.libs()


@pytest.mark.parametrize("codec", clients.CODECS)
@pytest.mark.parametrize(
    ("producer", "consumer"), [pair for pair in itertools.product(PYPI, PYPI) if len(set(pair)) > 1]
)
def test_pypi_clients_read_each_other(
    short: Exchange, producer: str, consumer: str, codec: str
) -> None:
    check(short, producer, consumer, codec)


@pytest.mark.interop
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("codec", clients.CODECS)
@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        *itertools.product(("kcat",), PYPI),
        *itertools.product(PYPI, ("kcat",)),
        *itertools.product(("ConsoleProducer",), (*PYPI, "kcat", "ConsoleConsumer")),
    ],
)
def test_kcat_and_kafkas_own_tools(
    short: Exchange, producer: str, consumer: str, codec: str
) -> None:
    check(short, producer, consumer, codec)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("producer", ["kcat", *PYPI])
def test_console_consumer_reads_every_client(short: Exchange, producer: str) -> None:
    for codec in clients.CODECS:
        check(short, producer, "ConsoleConsumer", codec)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("codec", clients.CODECS)
@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        *(
            pair
            for pair in itertools.product(("kcat", *PYPI), ("kcat", *PYPI))
            if len(set(pair)) > 1
        ),
        *itertools.product(("ConsoleProducer",), ("kcat", *PYPI)),
    ],
)
def test_a_million_real_lines(real: Exchange, producer: str, consumer: str, codec: str) -> None:
    check(real, producer, consumer, codec)
