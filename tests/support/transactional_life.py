"""A transactional producer's life on a broker in memory, which ends at any file call.

The script has transactions of one producer in two topics, in two versions. `Life` plays it until
the process dies, and knows what was answered. A second life over the same disk then must find each
transaction whole: in both topics or in none, and as it was answered.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from broker.metadata.topic_rules import TRANSACTION_TOPIC, NewTopic
from broker.transactions.transaction_states import TransactionState
from protocol.control_records import read_marker
from protocol.errors import ErrorCode
from protocol.records import batches, read_records
from tests.support.memory_broker import Killed, MemoryBroker
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.transaction_client import Transactor, begin

SETTINGS = {
    "transaction_state_log_num_partitions": "2",
    "offsets_topic_num_partitions": "1",
}
TOPICS = ("a", "b")
TV1, TV2 = 4, 5  # versions of EndTxn
READ_BYTES_MAX = 1_000_000
WRITES = frozenset(("pwrite", "fdatasync", "sync_directory", "replace", "rename", "truncate"))

Script = Callable[["Client"], Any]


class Peer:
    """A broker in memory with the interface of a rig."""

    def __init__(self, broker: MemoryBroker) -> None:
        self.services = broker.services
        self._broker = broker

    async def call(self, body: Any, version: int, *, timeout_seconds: float = 0) -> Any:
        """Handle one request; return its answer."""
        return await self._broker.call(body, version)

    async def rest(self) -> None:
        """Let the broker go on by itself for a moment."""
        await asyncio.sleep(1)


class Client:
    """The producer, and what it was told."""

    def __init__(self, producer: Transactor) -> None:
        self.producer = producer
        self.answered: dict[bytes, bool] = {}  # outcome of the transaction with these values
        self.asked: tuple[bytes, bool, int] | None = None  # the EndTxn without an answer
        self.acks = -1  # of the last transaction

    async def transaction(
        self, value: bytes, *, is_commit: bool, version: int = TV2, acks: int = -1
    ) -> None:
        """Write `value` to both topics, and end that."""
        self.acks = acks
        for topic in TOPICS:
            if version < TV2:
                assert await self.producer.add(topic, [0]) == [0]
            produce_version = 12 if version >= TV2 else 9
            answer = await self.producer.produce(
                topic, 0, value, version=produce_version, acks=acks
            )
            assert not answer.error_code, answer
        self.asked = value, is_commit, version
        assert await self.producer.end(is_commit=is_commit, version=version) == 0
        self.answered[value] = is_commit
        self.asked = None


def start(filesystem: MemoryFileSystem, **settings: str) -> tuple[MemoryBroker, Peer]:
    """Start a broker, and wait until its transactions are loaded."""
    broker = MemoryBroker(filesystem, **SETTINGS | settings)
    broker.start()

    async def loaded() -> None:
        if broker.services.has_transactions:
            await broker.services.transactions.loading.load()

    broker.run(loaded())
    return broker, Peer(broker)


def prepared(states: Mapping[str, str] | None = None) -> tuple[MemoryBroker, Client]:
    """Return a broker with two topics, and a producer that has its id.

    `states` are the configs of `__transaction_state`, the defaults without.
    """
    broker, peer = start(MemoryFileSystem())

    async def prepare() -> Transactor:
        if states is not None:
            topic = NewTopic(name=TRANSACTION_TOPIC, partition_count=1, configs=states)
            await broker.services.topics.create([topic])
        for topic in TOPICS:
            await broker.services.topics.create([NewTopic(name=topic, partition_count=1)])
        return await begin(peer)

    return broker, Client(broker.run(prepare()))


def count_writes(script: Script, states: Mapping[str, str] | None = None) -> int:
    """Return how many file calls that change something the script makes."""
    broker, client = prepared(states)
    seen = 0

    def before(op: str, path: str) -> None:
        nonlocal seen
        seen += op in WRITES

    broker.filesystem.before = before
    broker.run(script(client))
    broker.filesystem.before = None
    broker.end()
    return seen


def killed_at(
    script: Script, nth: int, states: Mapping[str, str] | None = None
) -> tuple[MemoryFileSystem, Client]:
    """Play the script until its nth call that changes something; return the disk."""
    broker, client = prepared(states)
    seen = 0

    def before(op: str, path: str) -> tuple[BaseException, float] | None:
        nonlocal seen
        seen += op in WRITES
        return (Killed(), 0.0) if seen > nth else None

    broker.filesystem.before = before
    try:
        broker.run(script(client))
    except (Killed, AssertionError):
        assert seen > nth, "it did not die"  # an answer that the dying broker gave is an error
    broker.end()
    broker.filesystem.before = None
    return broker.filesystem, client


def dies_in_start(filesystem: MemoryFileSystem, nth: int) -> bool:
    """Start a broker that dies at its nth call that changes something; return whether it did."""
    broker = MemoryBroker(filesystem, **SETTINGS)
    seen = 0

    def before(op: str, path: str) -> tuple[BaseException, float] | None:
        nonlocal seen
        seen += op in WRITES
        return (Killed(), 0.0) if seen > nth else None

    async def loaded() -> None:
        await broker.services.transactions.loading.load()
        await asyncio.sleep(1)

    filesystem.before = before
    with contextlib.suppress(Killed):
        broker.start()
        broker.run(loaded())
    broker.end()
    filesystem.before = None
    return seen > nth


def stored(peer: Peer, topic: str) -> list[bytes]:
    """Return all values that are in a topic."""
    log = peer.services.partitions.get(topic, 0).log
    found = log.read(log.start_offset, READ_BYTES_MAX, end_offset=log.end_offset)
    chunk = b"" if found is None else bytes(found.read())
    return [
        record.value or b""
        for position, header in batches(chunk)
        if not header.is_control
        for record in read_records(chunk, position, size_max=READ_BYTES_MAX)
    ]


def read(peer: Peer, topic: str) -> list[bytes]:
    """Return the values that are committed in a topic, as its markers say, up to the LSO."""
    log = peer.services.partitions.get(topic, 0).log
    found = log.read(log.start_offset, READ_BYTES_MAX, end_offset=log.last_stable_offset)
    chunk = b"" if found is None else bytes(found.read())
    values: list[bytes] = []
    pending: dict[int, list[bytes]] = {}
    for position, header in batches(chunk):
        if header.base_offset >= log.last_stable_offset:
            break
        marker = read_marker(chunk[position:]) if header.is_control else None
        if marker is not None:
            ended = pending.pop(header.producer_id, [])
            values += ended if marker.is_commit else ()
        elif not header.is_control:
            records = read_records(chunk, position, size_max=READ_BYTES_MAX)
            read = [record.value or b"" for record in records]
            pending.setdefault(header.producer_id, []).extend(read)
    return values


async def _told(peer: Peer, client: Client, seen: dict[str, list[bytes]]) -> None:
    """Hold what a consumer sees against what was answered, and ask again for the rest."""
    asked = client.asked[0] if client.asked else b""
    for topic in TOPICS:
        for value, is_commit in client.answered.items():
            assert (value in seen[topic]) == is_commit, f"{value!r} in {topic}: answered otherwise"
    assert (asked in seen["a"]) == (asked in seen["b"]), f"{asked!r} is torn"
    if client.asked:
        _, is_commit, version = client.asked
        kept = [asked in stored(peer, topic) for topic in TOPICS]
        assert all(kept) or client.acks == 1, "acknowledged records are gone"
        code = await client.producer.end(is_commit=is_commit, version=version)
        if code == ErrorCode.INVALID_TXN_STATE:
            assert (is_commit, any(kept)) == (True, False), "asked again for the same outcome"
        else:
            assert code == ErrorCode.NONE, "asked again for the same outcome"
        for topic, is_kept in zip(TOPICS, kept, strict=True):
            assert (asked in read(peer, topic)) == (is_commit and is_kept), f"{asked!r} in {topic}"


async def judge(peer: Peer, client: Client) -> None:
    """Find every transaction whole, and nothing that holds readers back; then go on."""
    seen = {topic: read(peer, topic) for topic in TOPICS}
    await _told(peer, client, seen)
    # A new instance ends whatever is open. Then nothing holds readers back.
    for _ in range(5):
        answer = await client.producer.init()
        if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            break
        await peer.rest()
    assert answer.error_code == 0, answer
    for topic in TOPICS:
        log = peer.services.partitions.get(topic, 0).log
        assert log.open_transactions() == []
        assert log.last_stable_offset == log.high_watermark
    await client.transaction(b"last", is_commit=True)
    for topic in TOPICS:
        assert (read(peer, topic))[-1] == b"last"
    (state,) = peer.services.transactions.store.by_id.values()
    assert state.state in (TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT)
