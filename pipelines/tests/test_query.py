"""How a streaming query of a pipeline ends, and what is said when a part of Spark is gone."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from pyspark_barnabas.jobs.query import finish
from pyspark_barnabas.wire.errors import DataLost, RunCut


class Query:
    """Goes on for two looks, then ends, or raises."""

    def __init__(self, error=None):
        self.error = error
        self.looks = 0
        self.is_stopped = False

    def awaitTermination(self, _seconds):
        if self.looks == 2 and self.error is not None:
            raise self.error
        return self.looks == 2

    def look(self):
        self.looks += 1

    def stop(self):
        self.is_stopped = True
        raise Py4JNetworkError("gone")


def test_a_query_is_looked_at_until_its_end():
    query = Query()
    finish(query, query.look)
    assert (query.looks, query.is_stopped) == (3, True)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("… SparkException: Python worker exited unexpectedly (crashed) …"),
         "a Python worker was lost in the middle: .* run the command again"),
        (RuntimeError("ExecutorLostFailure (executor 1 exited …)"), "an executor was lost"),
        (Py4JNetworkError("Error while sending"), "Spark's JVM was lost"),
        (Py4JError("An error occurred while calling o59.awaitTermination"), "Spark's JVM was"),
        (ConnectionRefusedError(111, "Connection refused"), "Spark's JVM was lost"),
    ],
)  # fmt: skip
def test_a_lost_part_is_named(error, words):
    query = Query(error)
    with pytest.raises(RunCut, match=words):
        finish(query, query.look)
    assert query.is_stopped


@pytest.mark.parametrize("error", [DataLost("expired"), RuntimeError("else"), KeyboardInterrupt()])
def test_other_errors_are_left_as_they_are(error):
    query = Query(error)
    with pytest.raises(type(error)):
        finish(query, query.look)
    assert query.is_stopped
