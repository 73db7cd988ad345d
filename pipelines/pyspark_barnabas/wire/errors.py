"""The errors between Spark and a log, as one family.

    BarnabasError
    ├── JavaMissing          no Java that Spark can run on
    ├── BadOption            an option is missing, unknown, or contradicts another
    ├── BrokerUnreachable    no broker answers at the addresses of `kafka.bootstrap.servers`
    ├── BrokerRefused        a broker answered with an error code that no retry clears
    ├── UnknownTopic         a topic, or one of its partitions, does not exist
    ├── DataLost             records to be read are no longer in the log
    ├── CorruptArchive       the files of an archive are not as they were written
    ├── RunCut               a process that a pipeline needs was killed
    ├── RecordsRefused       a row cannot be written: type, size, partition
    ├── TransactionLost      a transaction of a micro-batch ended before the sink ended it
    ├── MicroBatchTorn       only a part of a micro-batch was committed, and the rest cannot be
    └── CorruptBatch         the bytes of a record batch are not as they were written
        └── BatchTooLarge    the decoded batch would exceed a bound that an option sets

Each text says what was found, names the option concerned, and tells what to do. Spark shows the
user only the class and the text of a Python error, so the text must be sufficient.
"""

from __future__ import annotations


class BarnabasError(Exception):
    """An error that the user of the data source can act on."""


class JavaMissing(BarnabasError):
    """There is no Java that Spark can run on."""


class BadOption(BarnabasError):
    """An option is missing, unknown, or contradicts another."""


class BrokerUnreachable(BarnabasError):
    """No broker answered in time."""


class BrokerRefused(BarnabasError):
    """A broker answered with an error that no retry clears."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        """Errors travel pickled between Spark's Python processes."""
        return type(self), (self.code, str(self))


class UnknownTopic(BarnabasError):
    """A requested topic or partition does not exist."""


class DataLost(BarnabasError):
    """Records to be read are no longer in the log."""


class CorruptArchive(BarnabasError):
    """The files of an archive lack offsets, or have them twice."""


class RunCut(BarnabasError):
    """A part of Spark was lost during a pipeline; run again, it continues."""


class RecordsRefused(BarnabasError):
    """A row cannot be written as a record."""


class TransactionLost(BarnabasError):
    """A transaction ended before the sink ended it; the query, started again, writes it again."""


class MicroBatchTorn(BarnabasError):
    """Some rows of a micro-batch are committed, and the others cannot be added exactly once."""


class CorruptBatch(BarnabasError):
    """The bytes at `position` are not an intact record batch."""

    what = "corrupt record batch"

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{self.what} at position {position}: {reason}")
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        """Errors travel pickled between Spark's Python processes."""
        return type(self), (self.position, self.reason)


class BatchTooLarge(CorruptBatch):
    """A decoded batch would exceed a bound on memory or time; `reason` names the option."""

    what = "record batch"
