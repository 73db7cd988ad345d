"""Transactions as their coordinators see them: begin, add partitions, end, describe, list.

TV1 only (AddPartitionsToTxn 1, EndTxn 1), which every Kafka since 2.8 and Barnabas serve. What TV2
adds is that no two transactions of an id share an epoch; here InitProducerId begins each of them,
so that holds as well, and a request that the network delayed meets a newer epoch.

Requests for several ids travel together, each to the coordinator of its id. Retries as
`pyspark_barnabas.wire.cluster` does. The codes that tell how a transaction stands are returned.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.cluster import Cluster
from pyspark_barnabas.wire.connection import Connection
from pyspark_barnabas.wire.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_PASSING,
    Retriable,
    check,
    error_name,
)
from pyspark_barnabas.wire.primitives import (
    Reader,
    array,
    compact_array,
    compact_string,
    parse,
    string,
)
from pyspark_barnabas.wire.protocol import TopicPartition, by_topic

T = TypeVar("T")

# The transaction is over, or another producer has its id: 47, 48, 49, 90, 105, 120.
OVER: Final = frozenset({47, 48, 49, 90, 105, 120})
_CURES: Final = {
    50: "lower kafka.transaction.timeout.ms, or raise the broker's transaction.max.timeout.ms",
}
ONGOING: Final = "Ongoing"
_TOGETHER = 64  # requests on a connection before the first response is read


class Holder(NamedTuple):
    """A transactional id, and the producer id and epoch that it has now."""

    transactional_id: str
    producer_id: int
    epoch: int


class Described(NamedTuple):
    """A transaction's state, by Kafka's name ("" if the id is unknown), and who holds it."""

    state: str
    producer_id: int
    epoch: int


def add_partitions_request(holder: Holder, partitions: Iterable[TopicPartition]) -> bytes:
    """Add partitions to the holder's transaction, which this begins."""
    topics = array(
        string(topic) + array(struct.pack(">i", index) for index in indexes)
        for topic, indexes in by_topic(partitions).items()
    )
    return _held(holder) + topics


def end_request(holder: Holder, *, committed: bool) -> bytes:
    """End the holder's transaction."""
    return _held(holder) + bytes([committed])


def describe_request(transactional_id: str) -> bytes:
    """Ask how a transactional id stands."""
    return compact_array([compact_string(transactional_id)]) + b"\0"


def list_request(states: Iterable[str]) -> bytes:
    """Ask for the ids in these states, by Kafka's names."""
    return compact_array(map(compact_string, states)) + compact_array([]) + b"\0"


def _held(holder: Holder) -> bytes:
    return string(holder.transactional_id) + struct.pack(">qh", holder.producer_id, holder.epoch)


def read_add_partitions(reader: Reader) -> tuple[int, None]:
    """Return the first error code that is not a consequence of another partition's."""
    codes: list[int] = []

    def partition() -> None:
        reader.int32()
        codes.append(reader.int16())

    reader.int32()
    reader.array(lambda: (reader.string(), reader.array(partition)))
    failed = [code for code in codes if code]
    return next((code for code in failed if code != 55), failed[0] if failed else 0), None


def read_end(reader: Reader) -> tuple[int, None]:
    """Return the error code."""
    reader.int32()
    return reader.int16(), None


def read_describe(reader: Reader) -> tuple[int, Described]:
    """Return the error code and the one transaction of the response."""

    def topic() -> None:
        reader.compact_string()
        reader.compact_array(reader.int32)
        reader.tags()

    def transaction() -> tuple[int, Described]:
        error, _, state = reader.int16(), reader.compact_string(), reader.compact_string()
        reader.int32()
        reader.int64()
        found = Described(state, reader.int64(), reader.int16())
        reader.compact_array(topic)
        reader.tags()
        return error, found

    reader.tags()  # of the response's header
    reader.int32()
    found: list[tuple[int, Described]] = reader.compact_array(transaction)
    (one,) = found
    return one


def read_list(reader: Reader) -> tuple[int, list[str]]:
    """Return the error code and the transactional ids."""

    def transaction() -> str:
        name = reader.compact_string()
        reader.int64()
        reader.compact_string()
        reader.tags()
        return name

    reader.tags()  # of the response's header
    reader.int32()
    error = reader.int16()
    reader.compact_array(reader.compact_string)
    return error, reader.compact_array(transaction)


class Transactions:
    """What the coordinators of a cluster are asked, by transactional id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[str, tuple[str, int]] = {}

    def begin(self, transactional_id: str, timeout_ms: int) -> Holder:
        """Take an id over: abort its open transaction, refuse its earlier holders from now on."""
        body = protocol.init_producer_id_request(transactional_id, timeout_ms)

        def read(reader: Reader) -> tuple[int, tuple[int, int]]:
            error, producer_id, epoch = protocol.read_init_producer_id(reader)
            return error, (producer_id, epoch)

        what = f"taking over the transactional id {transactional_id}"
        found = self._ask(what, protocol.INIT_PRODUCER_ID, {transactional_id: body}, read)
        error, (producer_id, epoch) = found[transactional_id]
        check(error, what, _CURES.get(error, ""))
        return Holder(transactional_id, producer_id, epoch)

    def add(self, holder: Holder, partitions: Iterable[TopicPartition]) -> int:
        """Add partitions to the holder's transaction; return 0, or a code of OVER."""
        body = {holder.transactional_id: add_partitions_request(holder, partitions)}
        what = f"adding partitions to {holder.transactional_id}"
        found = self._ask(what, protocol.ADD_PARTITIONS_TO_TXN, body, read_add_partitions)
        error, _ = found[holder.transactional_id]
        if error not in OVER:
            check(error, what)
        return error

    def end(self, holders: Iterable[Holder], *, committed: bool) -> dict[Holder, int]:
        """End transactions, each of its own id; return 0, or a code of OVER, for each."""
        by_id = {holder.transactional_id: holder for holder in holders}
        bodies = {name: end_request(one, committed=committed) for name, one in by_id.items()}
        what = "committing transactions" if committed else "aborting transactions"
        found = self._ask(what, protocol.END_TXN, bodies, read_end)
        for error, _ in found.values():
            if error not in OVER:
                check(error, what)
        return {by_id[name]: error for name, (error, _) in found.items()}

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Described]:
        """Return how ids stand."""
        what = "asking for transactions"
        bodies = {name: describe_request(name) for name in transactional_ids}
        found = self._ask(what, protocol.DESCRIBE_TRANSACTIONS, bodies, read_describe)
        for error, _ in found.values():
            if error not in OVER:
                check(error, what)
        return {name: described for name, (_, described) in found.items()}

    def open_ids(self, prefix: str) -> list[str]:
        """Return the ids with this prefix whose transaction is open."""

        def attempt() -> list[str]:
            found: list[str] = []
            for connection in self._cluster.every():
                answer = connection.call(protocol.LIST_TRANSACTIONS, list_request([ONGOING]))
                error, names = parse(read_list, answer)
                if error in COORDINATOR_PASSING:
                    raise Retriable(f"listing transactions: {error_name(error)}")
                check(error, "listing transactions")
                found += names
            return sorted(name for name in found if name.startswith(prefix))

        return self._cluster.persist("listing transactions", attempt)

    # -- coordinators ----------------------------------------------------------------------------

    def _ask(
        self,
        what: str,
        api_key: int,
        bodies: Mapping[str, bytes],
        read: Callable[[Reader], tuple[int, T]],
    ) -> dict[str, tuple[int, T]]:
        """Return (error code, answer) of each id's coordinator, without codes that pass."""
        found: dict[str, tuple[int, T]] = {}

        def attempt() -> None:
            try:
                ask_those_left()
            except OSError:
                self._coordinators.clear()
                raise

        def ask_those_left() -> None:
            left = [name for name in bodies if name not in found]
            self._find([name for name in left if name not in self._coordinators])
            by_address: dict[tuple[str, int], list[str]] = {}
            for name in left:
                by_address.setdefault(self._coordinators[name], []).append(name)
            reason = ""
            for address, names in by_address.items():
                requests = {name: bodies[name] for name in names}
                answers = _together(self._cluster.at(*address), api_key, requests, read)
                for name, (error, answer) in answers.items():
                    if error in COORDINATOR_PASSING:
                        del self._coordinators[name]
                    elif error != CONCURRENT_TRANSACTIONS:
                        found[name] = (error, answer)
                        continue
                    reason = f"{name}: {error_name(error)}"
            if reason:
                raise Retriable(reason)

        self._cluster.persist(what, attempt)
        return found

    def _find(self, names: list[str]) -> None:
        """Find the coordinators of ids; the first one may have to be created."""
        if not names:
            return
        bodies = {name: protocol.find_coordinator_request(protocol.TRANSACTION, name)
                  for name in names}  # fmt: skip

        def read(reader: Reader) -> tuple[int, tuple[str, int]]:
            error, host, port = protocol.read_coordinator(reader)
            return error, (host, port)

        api_key = protocol.FIND_COORDINATOR
        answers = _together(self._cluster.any(), api_key, bodies, read)
        for name, (error, address) in answers.items():
            if error in COORDINATOR_PASSING:
                raise Retriable(f"the coordinator of {name}: {error_name(error)}")
            check(error, f"finding the coordinator of {name}")
            self._coordinators[name] = address


def _together(
    connection: Connection,
    api_key: int,
    bodies: Mapping[str, bytes],
    read: Callable[[Reader], tuple[int, T]],
) -> dict[str, tuple[int, T]]:
    """Send several requests, then read their responses, all of them, so that none is left over."""
    found: dict[str, tuple[int, T]] = {}
    every = list(bodies)
    for start in range(0, len(every), _TOGETHER):
        names = every[start : start + _TOGETHER]
        numbers = [connection.send(api_key, bodies[name]) for name in names]
        responses = [connection.receive(number) for number in numbers]
        for name, response in zip(names, responses, strict=True):
            found[name] = parse(read, response)
    return found
