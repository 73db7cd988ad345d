"""The places where a broker is killed: each step of its file operations, by name.

A place is a moment of a file call (`tests.faults.faulty_filesystem`) without its action and number,
which the test chooses: kill or power, and how often the broker passes the place first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

DATA_LOG = "*/data/[a-z]*.log"
GROUP_LOG = "*/data/__consumer_offsets-*.log"
STATE_LOG = "*/data/__transaction_state-*.log"
ABORTS = "*/data/[a-z]*.txnindex"
METADATA_LOG = "*/__cluster_metadata-0/*.log"
POINTS = "*recovery-point-offset-checkpoint"
STARTS = "*log-start-offset-checkpoint"


class Place(NamedTuple):
    """A failpoint. `nth_max`: the broker passes it at least so often in a second or two of load."""

    name: str
    moment: str
    operation: str
    pattern: str
    nth_max: int

    def fault(self, action: str, nth: int) -> str:
        """Return the fault's line for the faulty broker."""
        return f"{action} {self.moment} {self.operation} {self.pattern} {nth}"


@dataclass(frozen=True, slots=True)
class Crash:
    """How a cycle ends: by kill, power cut or stop, or by a kill after which files change.

    The last are flip (a bit of an old batch), tail (torn ends of logs) and lists (those of aborted
    transactions are lost or spoilt). The crash happens unless
    a fault has ended the broker before. `recovering` are faults from the start of the
    process, `serving` ones from when it listens.
    """

    name: str
    ending: str = "kill"
    recovering: Sequence[str] = ()
    serving: Sequence[str] = ()
    power_after: bool = False  # the power is cut after the stop or kill


def _each(name: str, operation: str, pattern: str, nth_max: int) -> tuple[Place, ...]:
    """Return the places before and after a call, and half-way if it is a write."""
    moments = ("before", "half", "after") if operation == "pwrite" else ("before", "after")
    return tuple(
        Place(f"{moment} {name}", moment, operation, pattern, nth_max) for moment in moments
    )


def _replaced(name: str, pattern: str, nth_max: int) -> tuple[Place, ...]:
    """Return each step of replacing a small file."""
    temporary = pattern + ".tmp"
    return (
        *_each(f"writing {name}", "pwrite", temporary, nth_max),
        *_each(f"fsync of {name}", "fdatasync", temporary, nth_max),
        *_each(f"renaming {name}", "rename", pattern, nth_max),
    )


SERVING = (
    *_each("an append", "pwrite", DATA_LOG, 200),
    *_each("the fsync of a commit", "fdatasync", DATA_LOG, 100),
    *_each("a record of a group", "pwrite", GROUP_LOG, 40),
    *_each("the fsync of a group", "fdatasync", GROUP_LOG, 20),
    *_each("making a segment", "create", DATA_LOG, 10),
    *_each("making an index", "create", "*.index", 10),
    *_each("the fsync of a directory", "sync_directory", "*/data/[a-z]*", 6),
    *_each("the fsync of the data directory", "sync_directory", "*/data", 4),
    *_each("writing an index", "pwrite", "*.index", 6),
    *_each("the fsync of an index", "fdatasync", "*.index", 4),
    *_each("the fsync of a time index", "fdatasync", "*.timeindex", 4),
    *_replaced("a producer snapshot", "*.snapshot", 2),
    *_replaced("a producer history", "*.producers", 2),
    *_replaced("the recovery points", POINTS, 3),
    *_replaced("the log starts", STARTS, 2),
    *_replaced("the leader epochs", "*leader-epoch-checkpoint", 2),
    *_each("the name of a deleted segment", "rename", "*.deleted", 3),
    *_each("unlinking a deleted segment", "unlink", "*.deleted", 3),
    *_each("writing a compacted segment", "pwrite", "*.cleaned", 6),
    *_each("the fsync of a compacted segment", "fdatasync", "*.cleaned", 6),
    *_each("the swap of a compacted segment", "rename", "*.swap", 6),
    *_each("putting a compacted segment in place", "rename", "*0.log", 4),
    *_replaced("the cleaner's offsets", "*cleaner-offset-checkpoint", 2),
    *_each("a metadata record", "pwrite", METADATA_LOG, 3),
    *_each("the fsync of the metadata log", "fdatasync", METADATA_LOG, 3),
)

# Passed while a broker repairs what the last crash left, until it listens.
RECOVERING = (
    *_each("writing again", "pwrite", DATA_LOG, 3),
    *_each("the fsync of what was written again", "fdatasync", DATA_LOG, 3),
    *_each("the cut of a tail", "truncate", DATA_LOG, 1),
    *_each("the copy of a tail", "pwrite", "*.quarantine", 1),
    *_each("putting a segment aside", "rename", "*.quarantine", 1),
    *_each("the fsync of a directory", "sync_directory", "*/data/[a-z]*", 4),
    *_each("ending a swap", "rename", "*0.log", 1),
    *_each("taking the clean mark away", "unlink", "*.kafka_cleanshutdown", 1),
    *_each("the new leader epoch", "pwrite", METADATA_LOG, 1),
    *_each("the fsync of the metadata log", "fdatasync", METADATA_LOG, 2),
)


def _compacted(name: str, directory: str, nth_max: int) -> tuple[Place, ...]:
    """Return the steps of compacting an internal topic."""
    return (
        *_each(f"writing a compacted segment of {name}", "pwrite", f"{directory}.cleaned", nth_max),
        *_each(f"the fsync of a segment of {name}", "fdatasync", f"{directory}.cleaned", nth_max),
        *_each(f"the swap of a segment of {name}", "rename", f"{directory}.swap", nth_max),
        *_each(f"putting a segment of {name} in place", "rename", f"{directory}0.log", nth_max),
    )


# With transactional clients. The state log takes each id that is given out, each added partition,
# each decision and completion, and the tombstones of expired ids; data logs and the group log take
# batches and markers.
TRANSACTIONAL_SERVING = (
    *_each("a batch or a marker", "pwrite", DATA_LOG, 100),
    *_each("the fsync of a batch or a marker", "fdatasync", DATA_LOG, 60),
    *_each("a state of a transaction", "pwrite", STATE_LOG, 60),
    *_each("the fsync of states", "fdatasync", STATE_LOG, 40),
    *_each("offsets or their marker", "pwrite", GROUP_LOG, 20),
    *_each("the fsync of offsets", "fdatasync", GROUP_LOG, 15),
    *_each("making a list of aborts", "create", ABORTS, 2),
    *_each("writing a list of aborts", "pwrite", ABORTS, 3),
    *_each("the fsync of a list of aborts", "fdatasync", ABORTS, 3),
    *_replaced("a producer snapshot", "*.snapshot", 2),
    *_replaced("a producer history", "*.producers", 2),
    *_replaced("the recovery points", POINTS, 3),
    *_each("making a segment", "create", DATA_LOG, 2),
    *_each("making a segment of states", "create", STATE_LOG, 1),
    *_compacted("states", "*/data/__transaction_state-*", 2),
    *_compacted("offsets", "*/data/__consumer_offsets-*", 1),
    *_compacted("data", "*/data/packed-*", 1),
)

TRANSACTIONAL_RECOVERING = (
    *_each("writing again", "pwrite", DATA_LOG, 3),
    *_each("the fsync of what was written again", "fdatasync", DATA_LOG, 3),
    *_each("the cut of a tail", "truncate", DATA_LOG, 1),
    *_each("writing states again, or anew", "pwrite", STATE_LOG, 5),
    *_each("the fsync of states", "fdatasync", STATE_LOG, 4),
    *_each("writing offsets again, or a marker", "pwrite", GROUP_LOG, 3),
    *_each("the cut of a list of aborts", "truncate", ABORTS, 1),
    *_replaced("a list of aborts", ABORTS, 1),
    *_each("ending a swap", "rename", "*0.log", 1),
)
