"""All of a record in the other dialect: key, value, headers, timestamp and nulls, in every client.

Ours writes in msgpack and all others read in Kafka's dialect, and the reverse, with
each codec. (`test_clients.py` tests that third-party clients read each other.)
"""

import functools
import json
import shutil
from collections.abc import Iterator

import pytest

from tests.interop import clients, record_fields
from tests.interop.oracle import kafka
from tests.interop.record_fields import Row
from tests.interop.test_clients import OURS, broker_of_both
from tests.support.under_test import against_kafka

pytestmark = pytest.mark.skipif(against_kafka(), reason="Apache Kafka has no msgpack dialect")

OTHERS = ("confluent-kafka", "kafka-python", "aiokafka")
BEGUN_MS = 1_700_000_000_000
TEXT = [
    Row(b"key", b"value", (), BEGUN_MS),
    Row(b"key", None, (("h", b"1"),), BEGUN_MS + 5),
    Row(None, "wörter".encode(), (("h", b"1"), ("h", b"2"), ("größe", "ä".encode())), BEGUN_MS + 3),
    Row(None, b"a header of nothing", (("none", None), ("empty", b"")), BEGUN_MS + 4),
    Row(None, b"x" * 3_000, (), BEGUN_MS - 1_000_000),
]
BYTES = [
    Row(b"", b"", (("", b""),), BEGUN_MS),
    Row(None, None, (), BEGUN_MS + 1),
    Row(bytes(range(256)), b"\n\t\0\xff\xfe" * 99, (("b", bytes(range(256))),), 1),
]


def writable(writer: str, kind: str) -> list[Row]:
    """Return the rows without those that the client refuses to send."""
    rows = TEXT + BYTES if kind == "bytes" else TEXT
    if writer in ("aiokafka", "kafka-python"):  # need a key or a value
        rows = [row for row in rows if row[:2] != (None, None)]
    if writer == "kafka-python":  # needs a value in every header
        rows = [row for row in rows if all(value is not None for _, value in row.headers)]
    return rows


class Exchange:
    """A broker and the topics written to it; each is written and read once, on demand."""

    def __init__(self, addresses: tuple[str, str]) -> None:
        self._addresses = addresses
        self.topics = functools.cache(self._topics)
        self.read = functools.cache(self._read)

    def _address(self, client: str) -> str:
        return self._addresses[client == OURS]

    def _topics(self, writer: str, kind: str) -> dict[str, str]:
        """codec -> topic, written by `writer`."""
        topics = {codec: f"{kind}_{writer}_{codec}" for codec in clients.CODECS}
        clients.create(self._addresses[0], 1, list(topics.values()))
        pairs = [f"{topic}={codec}" for codec, topic in topics.items()]
        rows = record_fields.to_json(writable(writer, kind))
        record_fields.run("write", writer, self._address(writer), *pairs, stdin=rows)
        return topics

    def _read(self, writer: str, reader: str, kind: str) -> dict[str, list[Row]]:
        """codec -> rows that `reader` read."""
        topics = self.topics(writer, kind)
        arguments = (
            "read",
            reader,
            self._address(reader),
            str(len(writable(writer, kind))),
            *topics.values(),
        )
        found = json.loads(record_fields.run(*arguments))
        return {codec: record_fields.of_plain(found[topic]) for codec, topic in topics.items()}


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    with broker_of_both(tmp_path_factory.mktemp("fields") / "broker") as addresses:
        yield Exchange(addresses)


@pytest.mark.parametrize("codec", clients.CODECS)
@pytest.mark.parametrize("other", OTHERS)
def test_every_field_crosses_in_both_directions(exchange: Exchange, other: str, codec: str) -> None:
    assert exchange.read(OURS, other, "bytes")[codec] == TEXT + BYTES
    assert exchange.read(other, OURS, "bytes")[codec] == writable(other, "bytes")


@pytest.mark.interop
@pytest.mark.parametrize("codec", clients.CODECS)
@pytest.mark.parametrize(
    ("writer", "reader"), [("kcat", "kcat"), ("ConsoleProducer", "ConsoleConsumer")]
)
def test_programs_show_and_write_every_field(
    exchange: Exchange, writer: str, reader: str, codec: str
) -> None:
    """They set no timestamps: ours must read the same ones as they do."""
    if shutil.which("kcat") is None:
        pytest.skip("no kcat on this machine: `apt-get install kcat`")
    kafka.libs()
    assert exchange.read(OURS, reader, "text")[codec] == TEXT
    found = exchange.read(writer, OURS, "text")[codec]
    assert [row[:3] for row in found] == [row[:3] for row in TEXT]
    assert found == exchange.read(writer, reader, "text")[codec]
