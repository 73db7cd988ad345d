"""Which transactions are a micro-batch: what the driver decides, without asking a broker.

With exactlyOnce, each task writes its rows in a transaction of its own, and the driver ends them
all. It cannot end them in one step, so it first writes a decision: "batch N of this query is these
transactions". From then on the batch is written, whatever dies: whoever comes next ends the rest.
docs/decisions/0074 has the order of writes and what each crash leads to.

    known decision              outcomes of its transactions    the new ones are
    none, or an older batch     -                               decided
    the same batch              all committed                   dropped
    the same batch              all aborted (by their timeout)  decided
    the same batch              some of each, rows are equal    decided for those aborted
    the same batch              some of each, rows differ       MicroBatchTorn
    a later batch               -                               RecordsRefused
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from pyspark_barnabas.wire.errors import BarnabasError, MicroBatchTorn, RecordsRefused
from pyspark_barnabas.wire.transactions import Holder

_VERSION: Final = 1
_NAMED: Final = 4  # tasks that an error names


class Part(NamedTuple):
    """One task's share of a micro-batch; without rows it has no transaction.

    `digest` is that of the rows in their order. `topic`, `partition` and `offset` say where its
    first record is, so that the marker that ended the transaction is found behind it.
    """

    task: int
    transactional_id: str = ""
    producer_id: int = -1
    epoch: int = -1
    rows: int = 0
    digest: int = 0
    topic: str = ""
    partition: int = -1
    offset: int = -1

    @property
    def holder(self) -> Holder:
        """The transaction."""
        return Holder(self.transactional_id, self.producer_id, self.epoch)


class Decision(NamedTuple):
    """The transactions that a micro-batch consists of, and the run of the query that wrote it."""

    batch_id: int
    run_id: str
    parts: tuple[Part, ...]


class Ending(Enum):
    """How a decided transaction ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "no longer known"


def transactional_id(query_id: str, run_id: str, task: int, attempt: int) -> str:
    """Return the id of a task's attempt, the same in every micro-batch of one run."""
    return f"{run_prefix(query_id, run_id)}{task}-{attempt}"


def run_prefix(query_id: str, run_id: str) -> str:
    """Return what the ids of one run begin with."""
    return f"{query_prefix(query_id)}{run_id}-"


def query_prefix(query_id: str) -> str:
    """Return what all ids of a query begin with."""
    return f"spark-{query_id}-"


def decider_id(query_id: str) -> str:
    """Return the id of the drivers of a query: the last one to take it over decides."""
    return f"{query_prefix(query_id)}decider"


def is_decided(known: Decision | None, batch_id: int) -> bool:
    """Whether a decision for this micro-batch exists. Raises RecordsRefused if a later one does."""
    if known is None or known.batch_id < batch_id:
        return False
    if known.batch_id == batch_id:
        return True
    raise RecordsRefused(
        f"micro-batch {batch_id} is refused: this query has already written micro-batch "
        f"{known.batch_id}. Another driver has gone on with its checkpoint, or an older copy of "
        "the checkpoint was restored: use the newest one, or a new one"
    )


def resolve(
    batch_id: int, known: Sequence[Part], outcomes: Sequence[Ending], new: Sequence[Part]
) -> list[Part] | None:
    """Return what a micro-batch that was decided before consists of; None if it stands as it was.

    Raises MicroBatchTorn if what is missing cannot be added.
    """
    if all(outcome is Ending.COMMITTED for outcome in outcomes):
        return None
    if all(outcome is Ending.ABORTED for outcome in outcomes):
        return list(new)
    written = {part.task: part for part in new}
    missing = [part for part, outcome in zip(known, outcomes, strict=True)
               if outcome is not Ending.COMMITTED]  # fmt: skip
    if Ending.UNKNOWN in outcomes or not _are_same_rows(known, new):
        raise MicroBatchTorn(_torn(batch_id, known, missing, outcomes))
    return [written[part.task] if part in missing else part for part in known]


def _are_same_rows(known: Sequence[Part], new: Sequence[Part]) -> bool:
    """Whether each task wrote the same rows again; the known ones are those with rows."""
    before = {part.task: (part.rows, part.digest) for part in known}
    return before == {part.task: (part.rows, part.digest) for part in new if part.rows}


def _torn(
    batch_id: int, known: Sequence[Part], missing: Sequence[Part], outcomes: Sequence[Ending]
) -> str:
    rows = sum(part.rows for part in missing)
    ended = ", ".join(sorted({outcome.value for outcome in outcomes} - {"committed"}))
    names = ", ".join(part.transactional_id for part in missing[:_NAMED])
    return (
        f"micro-batch {batch_id} is torn: of its {len(known)} transactions {len(missing)} are "
        f"{ended} ({names}; {rows} rows), and the others committed. The rows came in another order "
        "or number this time, so the missing ones cannot be told. Keep the time between a crash "
        "and the next start below kafka.transaction.timeout.ms. To go on, add what is missing by "
        "hand and start the query with a new checkpoint from the end of this micro-batch"
    )


def encode(decision: Decision) -> bytes:
    """Return a decision as the value of a record."""
    whole = {"version": _VERSION, **decision._asdict()}
    return json.dumps(whole, separators=(",", ":")).encode()


def decode(value: bytes) -> Decision:
    """Return the decision in a record. Raises BarnabasError if it holds none."""
    try:
        whole = json.loads(value)
        version = whole.pop("version")
        if version == _VERSION:
            parts = tuple(Part(*part) for part in whole.pop("parts"))
            return Decision(**whole, parts=parts)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BarnabasError(f"the topic of decisions holds another record: {error}") from None
    raise BarnabasError(
        f"the topic of decisions holds version {version}, and this package knows {_VERSION}: "
        "update it"
    )
