"""Transactions in one log, step by step: data, markers, and when these are settled."""

from __future__ import annotations

from protocol.control_records import Marker
from storage.log import Log
from tests.support.log_house import NOW, batch, flush


def send(log: Log, pid: int, count: int = 1, *, epoch: int = 0, sequence: int = 0) -> int:
    """Append one transactional batch; return its first offset."""
    data = batch(count=count, pid=pid, epoch=epoch, sequence=sequence, transactional=True)
    return log.append(data, NOW, 2).base_offset


def mark(log: Log, pid: int, *, commit: bool, epoch: int = 1) -> int:
    """Append a marker, not settled; return its offset."""
    marker = Marker(pid, epoch, is_commit=commit, coordinator_epoch=0)
    return log.append_marker(marker, NOW).base_offset


def end(log: Log, pid: int, *, commit: bool, epoch: int = 1) -> int:
    """Append a marker and settle it, as its coordinator does; return its offset."""
    offset = mark(log, pid, commit=commit, epoch=epoch)
    flush(log)
    log.settle(offset)
    return offset
