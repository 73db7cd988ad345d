"""What an operator should know of the broker now, the worst first, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from broker.console.console import Console

FREE_BYTES_MIN: Final = 1 << 30
NAMED_MAX: Final = 5


class Notice(NamedTuple):
    """One notice; `level` is error, warning or info."""

    level: str
    title: str
    advice: str


def notices(console: Console) -> list[dict[str, str]]:
    """Return all notices."""
    found = [*_errors(console), *_warnings(console)]
    return [notice._asdict() for notice in found]


def _errors(console: Console) -> list[Notice]:
    metrics, partitions = console.services.metrics, console.services.partitions
    found = []
    if metrics.disk_full_now:
        found.append(
            Notice(
                "error",
                "The disk is full: producers are refused",
                "Free space on it, or shorten retention: writes then succeed again by themselves.",
            )
        )
    if metrics.partitions_offline_now:
        names = ", ".join(f"{name}-{number}" for name, number in partitions.offline()[:NAMED_MAX])
        found.append(
            Notice(
                "error",
                f"{metrics.partitions_offline_now} partitions are offline: {names}",
                "Their logs cannot be opened; the log says why.",
            )
        )
    if console.history.failed:
        names = ", ".join(console.history.failed[:NAMED_MAX])
        found.append(
            Notice(
                "error",
                f"{len(console.history.failed)} logs take no more appends: {names}",
                "A write or an fsync has failed. Check the disk, then restart the broker.",
            )
        )
    if metrics.transactions_owed_now:
        found.append(
            Notice(
                "error",
                f"{metrics.transactions_owed_now} transactions are decided but not yet everywhere",
                "A log of theirs has failed; a restart finishes them.",
            )
        )
    return found


def _warnings(console: Console) -> list[Notice]:
    surroundings, metrics = console.surroundings, console.services.metrics
    found = []
    if surroundings.is_stopping:
        found.append(Notice("warning", "The broker is stopping", "It finishes what it has begun."))
    if metrics.flushes_stuck_now:
        found.append(
            Notice(
                "warning",
                "An fsync has not ended for seconds",
                "The disk is slow or hangs; producers with acks=all wait for it.",
            )
        )
    if 0 < surroundings.pulse.free_bytes < FREE_BYTES_MIN and not metrics.disk_full_now:
        free = surroundings.pulse.free_bytes >> 20
        found.append(
            Notice(
                "warning",
                f"{free} MiB of the disk are free",
                "Free space, or shorten retention, before producers are refused.",
            )
        )
    if metrics.unexpected_failures or metrics.request_errors:
        count = metrics.unexpected_failures + metrics.request_errors
        found.append(
            Notice(
                "warning",
                f"{count} unexpected failures since the start",
                "Each is in the log with its trace; please report it.",
            )
        )
    if console.services.config.barnabas_read_only:
        found.append(Notice("info", "The directory is served read-only", "Every write is refused."))
    return found
