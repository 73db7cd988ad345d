"""What transactional clients did and saw, as plain data: written by them, read by the checker.

A client appends its transaction before it sends anything of it, and fills it in as answers come.
`tests.support.transaction_checker` judges it: in the simulator, and after crashes of a process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from tests.support.history_checker import Key


class Outcome(StrEnum):
    """How a transaction ended, as far as its client was told."""

    OPEN = "never ended by its client"
    COMMITTED = "answered as committed"
    ABORTED = "aborted, or its commit refused"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Written:
    """A batch that was sent in a transaction; `base` is None until it was acknowledged."""

    key: Key
    values: list[bytes]
    acks: int
    first_asked_ns: int
    base: int | None = None
    life: int | None = None  # of the broker, which was asked and answered


class SentOffset(NamedTuple):
    """A group's offset that was acknowledged in a transaction, pending."""

    group: str
    key: Key
    offset: int


@dataclass(slots=True)
class Transaction:
    """One transaction, which only its client ends, or a newer one, or time."""

    who: str
    transactional_id: str
    producer_id: int
    epoch: int
    began_ns: int
    written: list[Written] = field(default_factory=list)
    offsets: list[Any] = field(default_factory=list)  # acknowledged, pending
    outcome: Outcome = Outcome.OPEN
    commit_asked_ns: int | None = None  # the first time
    done_asked_ns: int | None = None  # ... that was answered as done
    life: int | None = None  # of the broker, which was asked for that and answered
    # Of the brokers that were asked to commit; None among them: it is not known which it was.
    commit_lives: set[int | None] = field(default_factory=set)


class Instance(NamedTuple):
    """A producer was answered an id and an epoch, which are its own from now on.

    `is_init`: by InitProducerId, which fences those before; else at the end of a transaction.
    `is_again`: it has named its own epoch, and may be answered what it was before.
    """

    who: str
    transactional_id: str
    producer_id: int
    epoch: int
    began_ns: int
    answered_ns: int
    is_init: bool
    is_again: bool


class CommittedRead(NamedTuple):
    """What a reader of committed records was served of one partition."""

    at_ns: int
    who: str
    key: Key
    values: list[bytes]


class OffsetRead(NamedTuple):
    """A committed offset of a group that a reader of stable offsets was served."""

    at_ns: int
    who: str
    offset: SentOffset


@dataclass(slots=True)
class TransactionHistory:
    """All of it; `volatile` are partitions with write.caching."""

    transactions: list[Transaction] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    reads: list[CommittedRead] = field(default_factory=list)
    offset_reads: list[OffsetRead] = field(default_factory=list)
    volatile: Collection[Key] = ()
    compacted: Collection[Key] = ()
    trims: Mapping[Key, Collection[int]] = field(default_factory=dict)  # limits of DeleteRecords
