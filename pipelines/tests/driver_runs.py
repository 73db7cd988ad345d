"""Runs of a query with exactlyOnce without Spark: what Spark calls, in its order, until it dies."""

from __future__ import annotations

import uuid

import pyarrow as pa

from pyspark_barnabas.options import sink_options
from pyspark_barnabas.sink import commit
from pyspark_barnabas.sink.commit import Decisions, commit_batch
from pyspark_barnabas.sink.writer import write_part
from pyspark_barnabas.wire.transactions import Transactions

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])
TASKS = 3


class Cut(Exception):
    """The driver dies here."""


class Run:
    """One run of a query: its tasks and its driver."""

    def __init__(self, topic, query, timeout_ms=60_000, **options):
        self.topic = topic
        self.ids = (query, uuid.uuid4().hex)
        self.options = sink_options(
            {
                "kafka.bootstrap.servers": topic.address,
                "topic": topic.name,
                "exactlyOnce": "true",
                "decisionTopic": f"decisions-{topic.name}",
                "kafka.transaction.timeout.ms": str(timeout_ms),
                "kafka.batch.size": "500",
                **options,
            }
        )

    def task(self, batch, task, attempt=0, rows=None):
        found = rows if rows is not None else rows_of(batch, task)
        table = pa.RecordBatch.from_pylist(found, schema=SCHEMA)
        halves = [table[: len(found) // 2], table[len(found) // 2 :]]
        return write_part(self.options, iter(halves), self.ids, task, attempt).part

    def tasks(self, batch, attempt=0):
        return [self.task(batch, task, attempt) for task in range(TASKS)]

    def commit(self, batch, parts):
        commit_batch(self.topic.cluster, self.options, self.ids, batch, parts)

    def take_over(self, part):
        """Abort a task's transaction, and refuse its holder."""
        Transactions(self.topic.cluster).begin(part.transactional_id, 60_000)

    def batch(self, batch, attempt=0):
        self.commit(batch, self.tasks(batch, attempt))


def rows_of(batch, task):
    return [{"key": f"k{n % 5}", "value": f"{batch}-{task}-{n}"} for n in range(40 + task)]


def wanted(*batches):
    return sorted(
        row["value"] for batch in batches for task in range(TASKS) for row in rows_of(batch, task)
    )


def committed(topic):
    rows = topic.rows(("value",), kafka_isolation_level="read_committed")
    return sorted(value.decode() for (value,) in rows)


def open_ones(run):
    return Transactions(run.topic.cluster).open_ids(f"spark-{run.ids[0]}-")


STEPS = {
    "before it takes over": (Decisions, "take_over", "before"),
    "after it took over": (Decisions, "take_over", "after"),
    "before the decision": (Decisions, "write", "before"),
    "with the decision open": (commit.Transaction, "commit", "before"),
    "with the decision unanswered": (commit.Transaction, "commit", "after"),
    "after the decision": (Decisions, "write", "after"),
    "before the tasks are committed": (commit, "_commit", "before"),
    "with one task committed": (commit, "_commit", "one"),
    "after the tasks were committed": (commit, "_commit", "after"),
    "before the rest is aborted": (commit, "_abort_open", "before"),
    "after all, before Spark notes it": (commit, "_abort_open", "after"),
}


def cut(monkeypatch, step):
    """Let the driver die at a step, by an exception."""

    def die():
        raise Cut

    monkeypatch.setattr(*cut_by(die, step))


def cut_by(die, step):
    """Return a place, a name there, and the function that dies at a step, for setattr."""
    place, name, when = STEPS[step]
    real = getattr(place, name)

    def dies(*arguments):
        if when == "one":
            cluster, transactions, options, parts = arguments
            real(cluster, transactions, options, parts[:1])
        if when == "after":
            real(*arguments)
        die()

    return place, name, dies
