"""A query with exactlyOnce as processes without Spark: a driver, and a process for each task.

    python query_process.py ADDRESS TOPIC CHECKPOINT

It does in Spark's order what Spark does: runs the tasks of a micro-batch side by side, and those
again that die; commits it; notes it in the checkpoint; and begins at its start with the first
micro-batch that is not noted. It writes micro-batches until the checkpoint has the file `enough`.
The rows of a micro-batch name the run of the query that wrote them, so that they differ each time.

It ends with GAVE_UP where Spark would fail because there was no broker for too long.
"""

from __future__ import annotations

import multiprocessing
import sys
import uuid
from pathlib import Path

from driver_runs import TASKS, Run, rows_of
from topics import Topic

from pyspark_barnabas.wire.errors import BrokerUnreachable

GAVE_UP = 3
ATTEMPTS = 4
FORK = multiprocessing.get_context("fork")


def rows(batch, task, run_id):
    return [{**row, "value": f"{row['value']}-{run_id}"} for row in rows_of(batch, task)]


class Task:
    """A task of a micro-batch, in a process of its own."""

    def __init__(self, run, batch, task):
        self._run, self._batch, self._task = run, batch, task
        self._attempt = -1
        self.start()

    def start(self):
        """Start another attempt."""
        self._attempt += 1
        self._answer, told = FORK.Pipe(duplex=False)
        FORK.Process(target=self._work, args=(told,)).start()
        told.close()

    def _work(self, told):
        found = rows(self._batch, self._task, self._run.ids[1])
        told.send(self._run.task(self._batch, self._task, self._attempt, found))

    def part(self):
        """Return what was written, by the first attempt that lives long enough."""
        while True:
            try:
                return self._answer.recv()
            except EOFError:
                if self._attempt + 1 == ATTEMPTS:
                    sys.exit(GAVE_UP)
                self.start()


def main(address, topic, directory):
    checkpoint = Path(directory)
    run = Run(Topic(address, topic), checkpoint.name, timeout_ms=900_000)
    while not (checkpoint / "enough").exists():
        batch = len(list(checkpoint.glob("done-*")))
        tasks = [Task(run, batch, task) for task in range(TASKS)]
        try:
            run.commit(batch, [task.part() for task in tasks])
        except BrokerUnreachable:
            sys.exit(GAVE_UP)
        (checkpoint / f"done-{batch}").touch()


def complete(values):
    """Return how many micro-batches the values are; AssertionError unless each is whole, once."""
    found = {}
    for value in values:
        batch, task, number, run_id = value.decode().split("-")
        found.setdefault(int(batch), []).append((int(task), int(number), run_id))
    assert sorted(found) == list(range(len(found)))
    for batch, several in found.items():
        run_ids = {run_id for _, _, run_id in several}
        assert len(run_ids) == 1, f"micro-batch {batch} is of the runs {run_ids}"
        wanted = [(task, n) for task in range(TASKS) for n in range(len(rows_of(batch, task)))]
        assert sorted((task, n) for task, n, _ in several) == wanted, f"micro-batch {batch}"
    return len(found)


def a_checkpoint(directory):
    """Return a new checkpoint, named by its query's id."""
    checkpoint = directory / uuid.uuid4().hex
    checkpoint.mkdir()
    return checkpoint


if __name__ == "__main__":
    main(*sys.argv[1:])
