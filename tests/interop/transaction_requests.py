"""Requests of a transactional producer, its group and its readers, one method each.

A `Transactor` is one transactional id with a topic of two partitions of its own, on one broker;
the questions of `test_transactions_answers` are asked with it. Every method sends one request, in
the version that it names, and returns the answer: an error by its name, or what was read. So that
answers of two brokers can be compared, producer ids and epochs are told relative to those that
`init` was first given ("e+1"; "another id").

Kafka answers CONCURRENT_TRANSACTIONS while a transaction is being ended, and goes on with its end
after it has answered EndTxn. `init` asks again until that is over; `rest` waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

from client.kafka.connection import Connection
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.find_coordinator import (
    TRANSACTION,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tests.interop.group_requests import State

STATE_TOPIC: Final = "__transaction_state"
OFFSETS_TOPIC: Final = "__consumer_offsets"
PARTITIONS: Final = 2
TIMEOUT_MS: Final = 60_000  # of a transaction, and of each request that has one
TIMEOUT_S: Final = 30
POLL_S: Final = 0.01
UNCOMMITTED, COMMITTED = 0, 1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_BYTES_MAX: Final = 1 << 20
TOPIC_RESOURCE: Final = 2
SET, DELETE = 0, 1
SIZE_MAX: Final = "max.message.bytes"
SIZE_MAX_DEFAULT: Final = "1048588"
OWN_ID: Final = "the own id"
BEING_ENDED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
NOT_YET = ("COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS")


def name_of(code: int) -> str:
    """Return the name of an error code."""
    return ErrorCode(code).name


def until(done: Callable[[], bool], what: str) -> None:
    """Wait until `done`; AssertionError when it takes too long."""
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(POLL_S)


class TransactionalId:
    """A transactional id, what it knows of itself, and its topic."""

    def __init__(self, state: State, name: str) -> None:
        self.state = state
        self.name = name
        self.topic = name
        self.group = f"group-{name}"
        self.producer_id = -1
        self.epoch = -1
        self._first: tuple[int, int] | None = None  # producer id and epoch
        self.sequences: dict[int, int] = {}

    @classmethod
    def create(cls, state: State, name: str) -> Self:
        """Create the topic."""
        made = cls(state, name)
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)]
        )
        (topic,) = state.call(request, CreateTopicsResponse).topics
        assert topic.error_code == 0, topic
        return made

    @property
    def connection(self) -> Connection:
        """The connection to the broker."""
        return self.state.connection

    def twin(self) -> Self:
        """Return another producer of the same id and topic, which knows no producer id."""
        return self.beside(self.name)

    def beside(self, name: str) -> Self:
        """Return a producer of another id, to the same topic and group."""
        other = type(self)(self.state, name)
        other.topic, other.group = self.topic, self.group
        return other

    # --- what it says of itself ---

    def told(self, producer_id: int, epoch: int) -> str:
        """Return ids of an answer relative to the first ones."""
        if producer_id < 0:
            return "no id" if epoch == -1 else f"no id, {epoch}"
        self._first = self._first or (producer_id, epoch)
        first_id, first_epoch = self._first
        if producer_id != first_id:
            return f"another id, epoch {epoch}"
        return f"e+{epoch - first_epoch}"

    # --- the coordinator ---

    def find(self, version: int = 4, key: str | None = None) -> str:
        """Ask for the coordinator."""
        key = self.name if key is None else key
        request = FindCoordinatorRequest(key=key, key_type=TRANSACTION, coordinator_keys=[key])
        answer = self.state.call(request, FindCoordinatorResponse, version)
        return name_of((answer.coordinators[0] if answer.coordinators else answer).error_code)

    def init(
        self,
        version: int = 5,
        *,
        timeout_ms: int = TIMEOUT_MS,
        having: tuple[int, int] = (-1, -1),
    ) -> str:
        """Get a producer id and epoch, and keep them: the error, or the ids."""
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=having[0],
            producer_epoch=having[1],
        )
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.state.call(request, InitProducerIdResponse, version)
            error = name_of(answer.error_code)
            if error not in (*NOT_YET, "CONCURRENT_TRANSACTIONS"):
                break
            assert time.monotonic() < deadline, f"InitProducerId says {error} all the time"
            time.sleep(POLL_S)
        if error != "NONE":
            return error
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return self.told(self.producer_id, self.epoch)

    @contextmanager
    def bounded_states(self, size: int) -> Iterator[None]:
        """Bound the records of transactions for a while."""
        self._alter(AlterableConfig(name=SIZE_MAX, config_operation=SET, value=str(size)))
        try:
            yield
        finally:
            self._alter(AlterableConfig(name=SIZE_MAX, config_operation=DELETE, value=None))

    def _alter(self, config: AlterableConfig) -> None:
        topic = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=STATE_TOPIC, configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[topic])
        (answer,) = self.state.call(request, IncrementalAlterConfigsResponse).responses
        assert answer.error_code == 0, answer
        until(lambda: self._bound() == (config.value or SIZE_MAX_DEFAULT), "the config")

    def _bound(self) -> str | None:
        wanted = DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=STATE_TOPIC, configuration_keys=[SIZE_MAX]
        )
        request = DescribeConfigsRequest(resources=[wanted])
        (answer,) = self.state.call(request, DescribeConfigsResponse).results
        value: str | None = answer.configs[0].value
        return value

    def having(self, epoch: int = 0, producer_id: int = 0) -> tuple[int, int]:
        """Return the own ids, with what is added to each."""
        return self.producer_id + producer_id, self.epoch + epoch

    def add(
        self,
        *partitions: int,
        topic: str | None = None,
        also: dict[str, list[int]] | None = None,
        version: int = 3,
        epoch: int = 0,
        producer_id: int = 0,
        verify_only: bool = False,
    ) -> str | dict[str, str]:
        """Add partitions: the error, if it is the same of all, else by partition."""
        named = {topic or self.topic: list(partitions or (0,)), **(also or {})}
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=some) for name, some in named.items()
        ]
        pid, at_epoch = self.having(epoch, producer_id)
        if version <= 3:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=pid,
                v3_and_below_producer_epoch=at_epoch,
                v3_and_below_topics=topics,
            )
        else:
            one = AddPartitionsToTxnTransaction(
                transactional_id=self.name,
                producer_id=pid,
                producer_epoch=at_epoch,
                verify_only=verify_only,
                topics=topics,
            )
            request = AddPartitionsToTxnRequest(transactions=[one])
        answer = self.state.call(request, AddPartitionsToTxnResponse, version)
        if answer.error_code:
            return f"all: {name_of(answer.error_code)}"
        results = answer.results_by_topic_v3_and_below
        if version > 3:
            (of_one,) = answer.results_by_transaction
            results = of_one.topic_results
        errors = {
            self._shown(result.name, partition.partition_index): name_of(
                partition.partition_error_code
            )
            for result in results
            for partition in result.results_by_partition
        }
        same = set(errors.values())
        return same.pop() if len(same) == 1 else dict(sorted(errors.items()))

    def _shown(self, topic: str, partition: int) -> str:
        return f"{'own' if topic == self.topic else topic}-{partition}"

    def add_offsets(
        self, version: int = 3, *, epoch: int = 0, producer_id: int = 0, group: str | None = None
    ) -> str:
        """Add the group's partition of offsets."""
        pid, at_epoch = self.having(epoch, producer_id)
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=pid,
            producer_epoch=at_epoch,
            group_id=self.group if group is None else group,
        )
        return name_of(self.state.call(request, AddOffsetsToTxnResponse, version).error_code)

    def end(
        self,
        outcome: str = "commit",
        version: int = 5,
        *,
        epoch: int = 0,
        producer_id: int = 0,
        keep: bool = True,
    ) -> str:
        """End the transaction: the error, or the ids for the next one, which are taken (`keep`)."""
        pid, at_epoch = self.having(epoch, producer_id)
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=pid,
            producer_epoch=at_epoch,
            committed=outcome == "commit",
        )
        answer = self.state.call(request, EndTxnResponse, version)
        if answer.error_code:
            return name_of(answer.error_code)
        if version < 5:
            return "NONE"
        if keep:
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self.sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return self.told(answer.producer_id, answer.producer_epoch)

    def rest(self) -> None:
        """Wait until the transaction that is being ended has been ended."""
        until(lambda: self.state_name() not in BEING_ENDED, "the end of the transaction")

    def state_name(self) -> str:
        """Return what DescribeTransactions calls the state, or its error."""
        return str(self.describe()[0])

    def describe(self) -> tuple[str, str, bool, dict[str, list[int]]]:
        """Return state or error, ids, whether there is a start time, and partitions."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        (found,) = self.state.call(request, DescribeTransactionsResponse).transaction_states
        topics = {
            "own" if topic.topic == self.topic else topic.topic: sorted(topic.partitions)
            for topic in found.topics
        }
        return (
            name_of(found.error_code) if found.error_code else found.transaction_state,
            self.told(found.producer_id, found.producer_epoch) if not found.error_code else "",
            found.transaction_start_time_ms > 0,
            dict(sorted(topics.items())),
        )

    def list(self, version: int = 2, **filters: Any) -> Any:
        """List transactions: the error, or own ids' states, and the states that nobody knows."""
        answer = self.state.call(
            ListTransactionsRequest(**filters), ListTransactionsResponse, version
        )
        if answer.error_code:
            return name_of(answer.error_code)
        listed = {
            one.transactional_id.removeprefix(self.name): one.transaction_state
            for one in answer.transaction_states
            if one.transactional_id.startswith(self.name)
        }
        return dict(sorted(listed.items())), sorted(answer.unknown_state_filters)
