"""A directory in which transactions are decided, and not ended: what a power cut leaves of it.

A kill keeps what is in the page cache. So after it, the files lose what was on its way to the disk:
of some producers the record Complete, and markers. `__transaction_state` then says Prepare, and the
next broker has to write the markers that are missing. Files that a log's own bytes make again are
deleted, since they may know more than is left.
"""

from __future__ import annotations

import struct
from collections.abc import Container
from pathlib import Path

from broker.transactions.state_replay import read_states
from broker.transactions.transaction_states import TransactionState
from protocol.records import batches

STATES = "__transaction_state-0"
OFFSETS = "__consumer_offsets-0"
MADE_AGAIN = ("index", "timeindex", "txnindex", "snapshot", "producers")
COMPLETE = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def log_path(data: Path, partition: str) -> Path:
    """Return the only file of a log."""
    (path,) = (data / partition).glob("*.log")
    return path


def numbered(log: bytearray) -> bytearray:
    """Return batches with offsets that follow each other: no cut takes one between two others."""
    next_offset = 0
    for position, header in list(batches(log)):
        struct.pack_into(">q", log, position, next_offset)  # no CRC covers it
        next_offset += header.last_offset_delta + 1
    return log


def forget_complete(data: Path, names: Container[str]) -> dict[str, TransactionState]:
    """Remove the records Complete of some ids; return the state that each id is in then."""
    kept = bytearray()
    states: dict[str, TransactionState] = {}
    whole = log_path(data, STATES).read_bytes()
    for position, header in batches(whole):
        batch = whole[position : position + header.size]
        (read,) = read_states(batch)
        (record,) = read.records
        assert record.value is not None, "no id is forgotten here"
        state = TransactionState(record.value.transaction_status)
        if state in COMPLETE and record.transactional_id in names:
            continue
        states[record.transactional_id] = state
        kept += batch
    log_path(data, STATES).write_bytes(numbered(kept))
    return states


def forget_markers(data: Path, partition: str, producer_ids: Container[int]) -> int:
    """Remove the markers of some producers from a log; return how many."""
    kept = bytearray()
    count = 0
    whole = log_path(data, partition).read_bytes()
    for position, header in batches(whole):
        if header.is_control and header.producer_id in producer_ids:
            count += 1
        else:
            kept += whole[position : position + header.size]
    log_path(data, partition).write_bytes(numbered(kept))
    return count


def forget_what_is_made_again(data: Path) -> None:
    """Delete indexes, snapshots and checkpoints."""
    for path in data.iterdir():
        if path.is_dir() and not path.name.startswith("__cluster_metadata"):
            for name in MADE_AGAIN:
                for one in path.glob(f"*.{name}"):
                    one.unlink()
    (data / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
