"""A run of a pipeline: its arguments, its Spark session and its source.

The session is made when it is first asked for, so that a wrong option costs no start of a JVM. A
JVM that is started here writes to a file without a name, not between progress and summary; it gets
one when something unexpected has happened. Under spark-submit the JVM is there already, and where
it writes is for whoever called spark-submit.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from pyspark_barnabas.clock import Clock
from pyspark_barnabas.java import use_java
from pyspark_barnabas.jobs.progress import Progress
from pyspark_barnabas.wire.errors import BadOption, BarnabasError

MASTER: Final = "local[*]"
BOOTSTRAP: Final = "127.0.0.1:9092"
FORMAT: Final = "barnabas"
# What serves these pipelines better than Spark's defaults; --conf overrides each.
SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
}
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit: its JVM waits there


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every pipeline takes."""
    group = parser.add_argument_group("every pipeline")
    group.add_argument("--master", metavar="URL", help=f"Spark's master; default {MASTER}")
    group.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", default=[], type=assignment,
        help="a setting of Spark's, as spark.driver.memory=4g; may be repeated",
    )  # fmt: skip
    group.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    group.add_argument("--quiet", action="store_true", help="show no progress")
    group.add_argument("--trace", action="store_true", help="show the whole trace of an error")


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what says which topics are read, and from where."""
    group = parser.add_argument_group("source")
    where = group.add_mutually_exclusive_group()
    add_bootstrap(where)
    where.add_argument(
        "--path", metavar="DIR", help="a data directory, read without a broker (log.dirs)"
    )
    which = group.add_mutually_exclusive_group()
    which.add_argument("--topic", metavar="NAME[,NAME]", help="topics to read")
    which.add_argument("--pattern", metavar="REGEX", help="read topics whose names match")
    group.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], type=assignment,
        help='any option of format("barnabas"), as startingOffsets; may be repeated',
    )  # fmt: skip


def add_bootstrap(arguments: argparse._ActionsContainer) -> None:
    """Add --bootstrap to a parser or to a group of its arguments."""
    arguments.add_argument(
        "--bootstrap", metavar="HOST:PORT",
        help=f"a listener of the broker; default $BARNABAS_BOOTSTRAP, else {BOOTSTRAP}",
    )  # fmt: skip


def bootstrap(arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> str:
    """Return the HOST:PORT that --bootstrap gives, else the environment, else BOOTSTRAP."""
    return arguments.bootstrap or environment.get("BARNABAS_BOOTSTRAP") or BOOTSTRAP


def assignment(text: str) -> tuple[str, str]:
    """Return the two sides of KEY=VALUE, for argparse."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return name, value


def source_options(
    arguments: argparse.Namespace, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the options of format("barnabas") that the arguments ask for. Raises BadOption."""
    options = dict(arguments.option)
    if arguments.path:
        options["path"] = arguments.path
    elif "kafka.bootstrap.servers" not in options:
        options["kafka.bootstrap.servers"] = bootstrap(arguments, environment)
    if arguments.topic:
        options["subscribe"] = arguments.topic
    elif arguments.pattern:
        options["subscribePattern"] = arguments.pattern
    elif not {"subscribe", "subscribepattern", "assign"} & {name.lower() for name in options}:
        raise BadOption("no topic is named: give --topic NAME, or --pattern REGEX for several")
    return options


class SparkNotStarted(BarnabasError):
    """There is no session: a setting is wrong, or the cluster is not there."""


class Run:
    """One run of one pipeline."""

    def __init__(
        self, arguments: argparse.Namespace, progress: Progress, spark: Any = None
    ) -> None:
        self.arguments = arguments
        self.progress = progress
        self.clock = Clock()
        self.log_path = ""  # what the JVM that was started here has written, if that is kept
        self._spark = spark
        self._is_own = spark is None
        self._log: IO[bytes] | None = None

    @property
    def spark(self) -> Any:
        """The session; started now if there is none yet. Raises JavaMissing."""
        if self._spark is None:
            self.progress.show("starting Spark")
            self._spark = self._start()
            _silence()
        return self._spark

    def load(self, columns: Sequence[str], options: Mapping[str, str]) -> Any:
        """Return the records that `options` name as a DataFrame, with these columns only."""
        return self.spark.read.format(FORMAT).options(**options).schema(schema(columns)).load()

    def keep_log(self) -> None:
        """Write what the JVM has written so far to a file of its own, at `log_path`."""
        if self._log is None or self.log_path:
            return
        handle, self.log_path = tempfile.mkstemp(prefix="barnabas-pipeline-", suffix=".log")
        with os.fdopen(handle, "wb") as file:
            position = 0  # not seek: the JVM writes where this file stands
            while piece := os.pread(self._log.fileno(), 1 << 20, position):
                file.write(piece)
                position += len(piece)

    def close(self) -> None:
        """Stop a session that was started here."""
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
        # Spark starts `python3` of the PATH; format("barnabas") is in the Python that runs this.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        use_java()
        root = str(Path(__file__).parents[2])
        paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
        master = self.arguments.master or SparkConf().get("spark.master") or MASTER
        builder = self._configured(SparkSession.builder, master)
        # It has no name, so that nothing is left of it however this process ends.
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
    """Return a schema of some of a topic's columns; only those are decoded."""
    from pyspark.sql.types import StructType

    from pyspark_barnabas.datasource import COLUMNS

    found = StructType()
    for name in columns:
        found = found.add(name, COLUMNS[name])
    return found


def _silence() -> None:
    """Keep PySpark and Py4J from writing errors to stderr that they raise besides."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True
    # Py4J speaks through the root logger, when an interrupt comes between it and the JVM.
    logging.getLogger().addFilter(lambda record: f"{os.sep}py4j{os.sep}" not in record.pathname)


def _why(error: Exception, log_path: str) -> str:
    """Say why Spark did not start: what its log says last, or else the error."""
    with open(log_path, encoding="utf-8", errors="replace") as file:
        causes = re.findall(r"^.*?(?:Exception|Error): (.+)$", file.read(), re.MULTILINE)
    reason = causes[-1] if causes else (str(error).splitlines() or [type(error).__name__])[0]
    return f"Spark does not start: {reason}. Check --master and --conf; its log is {log_path}"


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT back while Spark starts: PySpark would leave a JVM behind that nobody ends."""
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
        if signal.getsignal(signal.SIGINT) is hold:  # and not the session's own
            signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _redirected(target: int) -> Iterator[None]:
    """Let processes that are started meanwhile write both their outputs to `target`."""
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
