"""Spark's errors, with their traces, as one line that the user can act on."""

from __future__ import annotations

import pytest

from pyspark_barnabas.jobs.failures import as_outcome, first_line, known
from pyspark_barnabas.wire.errors import CorruptBatch

PLANNED = """[PYTHON_DATA_SOURCE_ERROR] Failed to plan: Traceback (most recent call last):
  File "reader.py", line 41, in partitions
    raise UnknownTopic(name)
pyspark_barnabas.wire.errors.UnknownTopic: there is no x on this cluster: make it first
 SQLSTATE: 38000"""
JAVA = """An error occurred while calling o49.count.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)"""


def sparks(text):
    return type("AnalysisException", (Exception,), {"__module__": "pyspark.errors"})(text)


def test_an_error_of_ours_is_found_wherever_it_was_raised():
    assert known(CorruptBatch(3, "oh\nno")) == (
        "CorruptBatch", "corrupt record batch at position 3: oh no",
    )  # fmt: skip
    assert known(sparks(PLANNED)) == (
        "UnknownTopic", "there is no x on this cluster: make it first",
    )  # fmt: skip


@pytest.mark.parametrize(
    "before",
    [
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: ",
        "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source reader: ",
        "Job aborted: Task 0 failed 4 times, most recent failure: x.PythonException: ",
    ],
)
def test_an_error_of_ours_is_found_where_no_python_trace_is_in_front_of_it(before):
    text = (
        f"{before}pyspark_barnabas.wire.errors.DataLost: t-0 ends: at 5\n SQLSTATE: 38000\n\tat x"
    )
    assert known(sparks(text)) == ("DataLost", "t-0 ends: at 5")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[PATH_ALREADY_EXISTS] Path x already exists. SQLSTATE: 42K04;\nplan\n tree",
         "[PATH_ALREADY_EXISTS] Path x already exists. SQLSTATE: 42K04;"),
        (JAVA, "No space left on device"),
        ("", "no reason given"),
    ],
)  # fmt: skip
def test_an_error_of_sparks_is_its_first_line_or_its_cause(text, line):
    assert known(sparks(text)) == ("SparkError", line)


def test_a_file_is_named():
    error = PermissionError(13, "Permission denied", "some/file")
    assert known(error) == ("OSError", "some/file: Permission denied")


def test_a_file_is_named_that_only_a_worker_has_missed():
    trace = 'Traceback (most recent call last):\n  File "x"\n'
    error = sparks(f"{trace}FileNotFoundError: [Errno 2] No such file or directory: 'a/b'")
    assert known(error) == ("OSError", "a/b: No such file or directory")


def test_a_mistake_of_this_program_is_not_known():
    inside = sparks('Traceback (most recent call last):\n  File "x"\nKeyError: 3')
    assert known(ValueError("oh")) is None
    assert known(inside) is None
    assert first_line(ValueError("oh\nno")) == "ValueError: oh"
    assert first_line(ValueError()) == "ValueError"


def test_an_error_is_an_outcome():
    outcome = as_outcome("BadOption", "give one")
    assert outcome.facts == {"error": {"kind": "BadOption", "text": "give one"}}
    assert outcome.lines == ["barnabas-pipeline: give one"]
