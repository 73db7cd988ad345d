"""What can go wrong between Spark and a log, as one family.

    BarnabasError
    ├── JavaMissing          there is no Java that Spark could run on
    ├── BadOption            an option is missing, unknown, or contradicts another
    ├── BrokerUnreachable    no broker answers at the addresses of `kafka.bootstrap.servers`
    ├── BrokerRefused        a broker answered with an error code that no retry mends
    ├── UnknownTopic         a topic, or a partition of it, is not there
    ├── DataLost             records that were to be read are no longer in the log
    ├── CorruptArchive       the files of an archive are not those that were written
    ├── RunCut               a process that a pipeline needs was killed in the middle
    ├── RecordsRefused       a row cannot be written: type, size, partition
    └── CorruptBatch         the bytes of a record batch are not what was written
        └── BatchTooLarge    opened, the batch would exceed a bound that an option sets

Each text names what was found, the option that leads there and what to do. Spark shows the text
and the class of a Python error to the user, and nothing else; so the text must serve alone.
"""

from __future__ import annotations


class BarnabasError(Exception):
    """Something that the user of the data source can act on."""


class JavaMissing(BarnabasError):
    """There is no Java that Spark could run on."""


class BadOption(BarnabasError):
    """An option is missing, unknown, or contradicts another."""


class BrokerUnreachable(BarnabasError):
    """No broker answered in time."""


class BrokerRefused(BarnabasError):
    """A broker answered with an error that no retry mends."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        """Errors travel pickled between Spark's Python processes."""
        return type(self), (self.code, str(self))


class UnknownTopic(BarnabasError):
    """A topic or a partition that was asked for is not there."""


class DataLost(BarnabasError):
    """Records that were to be read are no longer in the log."""


class CorruptArchive(BarnabasError):
    """The files of an archive leave something out, or have it twice."""


class RunCut(BarnabasError):
    """A part of Spark was lost in the middle of a pipeline; run again, it goes on."""


class RecordsRefused(BarnabasError):
    """A row cannot be written as a record."""


class CorruptBatch(BarnabasError):
    """The bytes at `position` are no whole, undamaged record batch."""

    what = "corrupt record batch"

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{self.what} at position {position}: {reason}")
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[type, tuple[int, str]]:
        """Errors travel pickled between Spark's Python processes."""
        return type(self), (self.position, self.reason)


class BatchTooLarge(CorruptBatch):
    """Opened, a batch would exceed a bound on memory or time; `reason` names the option."""

    what = "record batch"
