"""A run of a pipeline: its Spark session, its streaming query, and its summary.

The session is started on first use, so a wrong option does not cost a JVM start. A JVM started here
writes to an unnamed file, so that its log does not mix with progress and summary; the file gets a
name when something unexpected happens. Under spark-submit the JVM is already running, and
spark-submit decides where it writes.

`finish` waits for a streaming query. When a Python worker, an executor or the JVM is killed, Spark
reports it in traces of many lines; to the user all of them mean one thing: run the command again,
it continues.

An `Outcome` is the end of a run: lines for a person, facts for a program. `plural`, `bytes_text`
and `table` write numbers as a person reads them.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from pyspark_barnabas.clock import Clock
from pyspark_barnabas.java import use_java
from pyspark_barnabas.jobs.arguments import MASTER
from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.wire.errors import BarnabasError, RunCut

FORMAT: Final = "barnabas"
# Better for these pipelines than Spark's defaults; --conf overrides each.
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
}
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, whose JVM listens there
POLL_S: Final = 1
_LOST: Final = (
    (re.compile(r"Python worker (exited unexpectedly|failed to connect back)"), "a Python worker"),
    (
        re.compile(r"ExecutorLostFailure|Executor heartbeat timed out|[Ll]ost executor"),
        "an executor",
    ),
)
# Py4JError itself, not a subclass: py4j asked the JVM and got no answer.
_JVM_ERRORS: Final = ("Py4JError", "Py4JNetworkError", "ConnectionRefusedError")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class SparkNotStarted(BarnabasError):
    """Spark did not start: a setting is wrong, or the cluster is unreachable."""


class Run:
    """One run of one pipeline."""

    def __init__(
        self, arguments: argparse.Namespace, progress: Progress, spark: Any = None
    ) -> None:
        self.arguments = arguments
        self.progress = progress
        self.clock = Clock()
        self.log_path = ""  # where the log of a JVM started here is, once kept
        self._spark = spark
        self._is_own = spark is None
        self._log: IO[bytes] | None = None

    @property
    def spark(self) -> Any:
        """The session, started on first use. Raises JavaMissing, SparkNotStarted."""
        if self._spark is None:
            self.progress.show("starting Spark")
            self._spark = self._start()
            _silence()
        return self._spark

    def load(self, columns: Sequence[str], options: Mapping[str, str]) -> Any:
        """Return the records that `options` name as a DataFrame of these columns."""
        return self.spark.read.format(FORMAT).options(**options).schema(schema(columns)).load()

    def keep_log(self) -> None:
        """Copy what the JVM has logged so far to a named file, at `log_path`."""
        if self._log is None or self.log_path:
            return
        handle, self.log_path = tempfile.mkstemp(prefix="barnabas-pipeline-", suffix=".log")
        with os.fdopen(handle, "wb") as file:
            position = 0  # pread, because a seek would move the JVM's position too
            while piece := os.pread(self._log.fileno(), 1 << 20, position):
                file.write(piece)
                position += len(piece)

    def close(self) -> None:
        """Stop the session if it was started here."""
        if self._is_own and self._spark is not None:
            with contextlib.suppress(Exception):  # the JVM may have gone before
                self._spark.stop()
            self._spark = None
        if self._log is not None:
            self._log.close()

    def _start(self) -> Any:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        if _SUBMITTED in os.environ:
            return self._configured(SparkSession.builder, self.arguments.master).getOrCreate()
        # Spark starts the `python3` on the PATH; only this Python surely has the format.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        use_java()
        root = str(Path(__file__).parents[2])
        paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
        master = self.arguments.master or SparkConf().get("spark.master") or MASTER
        builder = self._configured(SparkSession.builder, master)
        # Without a name, so nothing is left of it however this process ends.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the session
        try:
            with _uninterrupted(), _redirected(self._log.fileno()):
                return builder.getOrCreate()
        except Exception as error:
            self.keep_log()
            raise SparkNotStarted(_why(error, self.log_path)) from error

    def _configured(self, builder: Any, master: str | None) -> Any:
        builder = builder.appName(f"barnabas-pipeline {self.arguments.pipeline}")
        if master:
            builder = builder.master(master)
        for name, value in (SETTINGS | dict(self.arguments.conf)).items():
            builder = builder.config(name, value)
        return builder


def schema(columns: Sequence[str]) -> Any:
    """Return a schema of these columns of a topic; only they are decoded."""
    from pyspark.sql.types import StructType

    from pyspark_barnabas.datasource import COLUMNS

    found = StructType()
    for name in columns:
        found = found.add(name, COLUMNS[name])
    return found


def _silence() -> None:
    """Keep PySpark and Py4J from also writing to stderr the errors that they raise."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True
    # Py4J uses the root logger when an interrupt comes between it and the JVM.
    logging.getLogger().addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)


def _why(error: Exception, log_path: str) -> str:
    """Return why Spark did not start: the last cause in its log, else the error."""
    with open(log_path, encoding="utf-8", errors="replace") as file:
        causes = re.findall(r"^.*?(?:Exception|Error): (.+)$", file.read(), re.MULTILINE)
    reason = causes[-1] if causes else (str(error).splitlines() or [type(error).__name__])[0]
    return f"Spark does not start: {reason}. Check --master and --conf; its log is at {log_path}"


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay SIGINT while Spark starts; PySpark would leave an orphaned JVM behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []

    def hold(number: int, _frame: object) -> None:
        asked.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is hold:  # not if the session set its own
            signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _redirected(target: int) -> Iterator[None]:
    """Send stdout and stderr of processes started in the block to `target`."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(target, 1)
    os.dup2(target, 2)
    try:
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)


# -- a streaming query -----------------------------------------------------------------------------


def finish(query: Any, look: Callable[[], None] = lambda: None) -> None:
    """Wait until the query ends, calling `look` meanwhile; stop it in any case.

    Raises RunCut if a part of Spark was lost, else what the query raised.
    """
    try:
        while not query.awaitTermination(POLL_S):
            look()
        look()
    except Exception as error:
        part = lost_part(error)
        if part is None:
            raise
        raise RunCut(
            f"{part} was lost: killed, or out of memory. What was done is kept; run the command "
            "again, and it continues from there"
        ) from error
    finally:
        with contextlib.suppress(
            Exception
        ):  # the JVM may be gone; the first error is the one to show
            query.stop()


def lost_part(error: BaseException) -> str | None:
    """Return which part of Spark is gone according to an error; None for other errors."""
    if isinstance(error, BarnabasError):
        return None
    if {type(each).__name__ for each in _chain(error)} & set(_JVM_ERRORS):
        return "Spark's JVM"
    try:
        text = str(error)
    except Exception:  # py4j asks the JVM, which may be gone
        return "Spark's JVM"
    return next((part for pattern, part in _LOST if pattern.search(text)), None)


def _chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


# -- the end of a run ------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Outcome:
    """How a run ended. `facts` hold only JSON types; `error` is the kind of error, if any."""

    facts: dict[str, Any]
    lines: list[str] = field(default_factory=list)
    error: str | None = None


def bytes_text(count: float) -> str:
    """Return a number of bytes with a unit, such as 3.0 MiB."""
    size = float(count)
    for unit in _UNITS:
        if abs(size) < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError(count)


def plural(count: int, noun: str) -> str:
    """Return "1 file", "2,000 files", "2 batches"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return rows under their column names as lines; numbers are aligned right."""
    texts = [[cell_text(cell) for cell in row] for row in rows]
    right = [
        bool(rows) and all(isinstance(row[n], int | float | None) for row in rows)
        for n in range(len(columns))
    ]
    widths = [max([len(name), *(len(row[n]) for row in texts)]) for n, name in enumerate(columns)]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(columns), *texts]
    ]


def cell_text(value: object) -> str:
    """Return a table cell: numbers with separators, "" for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
