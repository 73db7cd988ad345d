"""Constants of the product that a history makes small, so that it works as it does with large data.

The product treats what is large in another way: it maps a slice of a log, decodes a request in a
thread, plans many topics off the loop. A history has neither the bytes nor the time for that, so a
plan's `tiny` may hold a smaller bound under the constant's name. A constant belongs to the module
that defines it and to those that import it by name.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

SHARE: Final = 0.15  # of the histories in which a constant is small
MARK: Final = "/"  # in the name of a constant, and in no field of the configuration


class Scale(NamedTuple):
    """A constant: where it is bound, and the values it may take."""

    modules: tuple[str, ...]
    values: tuple[int, ...]


def _of(module: str, name: str, *values: int, also: str = "") -> tuple[str, Scale]:
    modules = (module, also) if also else (module,)
    return f"{module}{MARK}{name}", Scale(modules, values)


SCALES: Final[dict[str, Scale]] = dict(
    (
        # Fetches that are sent from a map of the file, and how they are read.
        _of("storage.segments.log_file", "MAP_BYTES_MIN", 150, also="storage.log_reader"),
        _of("storage.segments.log_file", "REMAP_BYTES_MIN", 300, 3_000),
        _of("storage.segments.log_file", "REMAP_GROWTH_BYTES", 500),
        _of("storage.segments.log_file", "PULL_BYTES", 100),
        _of("storage.files.open_files", "VIEWED_BYTES_MAX", 1_000),
        _of(
            "broker.partitions.fetch_reading",
            "PRESSED_BYTES_MAX",
            300,
            also="broker.partitions.reading_on",
        ),
        # Fetches that are handled in steps.
        _of("broker.partitions.large_reading", "LARGE", 0, 1, also="broker.handlers.fetch"),
        _of("broker.partitions.large_reading", "PER_STEP", 1),
        # What a start reads, checks and sets aside at a time.
        _of("storage.opening.recovery", "CHUNK_BYTES", 150),
        _of("storage.segments.checked_batches", "CHUNK_BYTES", 150),
        _of("storage.opening.quarantine", "CHUNK_BYTES", 100),
        _of("broker.metadata.image_loading", "CHUNK_BYTES", 150),
        # Look-ups.
        _of(
            "storage.segments.batch_lookup",
            "LOOKUP_CHUNK_BYTES",
            100,
            also="storage.segments.segment_reader",
        ),
        _of("storage.segments.order", "BATCHES_MAX", 2, also="storage.log_reader"),
        _of("storage.segments.timestamp_lookup", "BATCHES_MAX", 2),
        _of("storage.segments.soundness", "WALK_BATCHES_MAX", 2),
        _of("storage.segments.cold", "READ_AHEAD_BYTES", 150),
        _of("storage.segments.cold", "KEPT_BYTES_MAX", 300),
        # Compaction.
        _of("storage.compaction.copier", "CHUNK_BYTES", 200),
        _of("storage.compaction.copier", "SYNC_BYTES", 500),
        _of("storage.compaction.grouping", "GROUP_SEGMENTS_MAX", 2),
        # Requests: decoded in threads, prepared in threads, answered in steps.
        _of("protocol.msgpack.dialect", "QUICK_ELEMENTS_MAX", 10),
        _of("protocol.msgpack.dialect", "QUICK_COPIED_BYTES_MAX", 100),
        _of("protocol.msgpack.dialect", "QUICK_BYTES_MAX", 100),
        _of("protocol.msgpack.dialect", "HEAD_BYTES_MAX", 150),
        _of("protocol.framing", "REUSED_BYTES_MIN", 100, also="broker.network.processor"),
        _of(
            "broker.network.connection",
            "JOINED_BYTES_MAX",
            50,
            also="broker.network.tls_connection",
        ),
        _of("broker.runtime.steps", "SLICE_NS", 1_000, 20_000),
        _of(
            "broker.partitions.preparation",
            "INLINE_BYTES_MAX",
            150,
            also="broker.produce_progress",
        ),
        _of("broker.large_produces", "LARGE", 0, 1, also="broker.handlers.produce"),
        _of("broker.large_produces", "PIECE_COUNT", 1),
        _of("broker.partitions.append_queue", "STEP_BYTES_MAX", 20_000),
        _of("broker.partitions.group_commit", "FLUSHES_PER_ROUND_MAX", 1),
        # Groups and metadata.
        _of("broker.groups.consumer.targets", "SMALL_MAX", 0),
        _of("broker.topics", "TOPICS_PLANNED_HERE_MAX", 0),
        _of("broker.topics", "RECORDS_ENCODED_HERE_MAX", 1),
        _of("broker.handlers.describe_topic_partitions", "PARTITIONS_MAX", 2),
        _of("broker.metadata.snapshot_keeper", "ROLL_BYTES_MIN", 500),
        # What is done in one turn of the loop, in one job, in one batch.
        _of("broker.groups.replay", "RECORDS_PER_TURN", 1),
        _of("broker.groups.loading", "GROUPS_PER_TURN", 1),
        _of("broker.groups.forgetting", "TURN_UNITS", 1, also="broker.groups.removal"),
        _of("broker.topics", "TOPICS_PER_TURN", 1),
        _of("broker.topic_logs", "TAKEN_OUT_PER_TURN", 1),
        _of("broker.topic_logs", "LOGS_PER_JOB", 1),
        _of("broker.handlers.delete_topics", "TOGETHER", 1),
        _of("broker.handlers.metadata", "PARTITIONS_PER_STEP", 1),
        _of("broker.handlers.describe_log_dirs", "PARTITIONS_PER_TURN", 1),
        _of("broker.metadata.snapshots", "RECORDS_PER_BATCH", 2),
        _of("broker.maintenance.cleaner_pace", "STEP_BYTES", 200),
        _of("storage.clean_stop", "LOGS_PER_WAVE", 2),
        _of("storage.producers.producer_state", "PRODUCERS_A_STEP", 1),
        _of("storage.producers.snapshot_files", "PRODUCER_BATCHES_MAX", 5),
        _of("storage.producers.snapshot_files", "BATCHES_MAX", 10),
        _of("storage.segments.soundness", "WALK_BYTES_MAX", 300),
    )
)

# How much of what one request names, or one transaction has, is handled in a turn of the loop.
TURNS: Final[dict[str, Scale]] = dict(
    (
        _of("broker.handlers.offset_commit", "PARTITIONS_ON_THE_LOOP", 0),
        _of("broker.handlers.txn_offset_commit", "PARTITIONS_ON_THE_LOOP", 0),
        _of("broker.handlers.offset_delete", "PARTITIONS_PER_TURN", 1),
        _of("broker.handlers.metadata", "NAMES_PER_TURN", 1),
        _of("broker.handlers.add_partitions_to_txn", "PARTITIONS_PER_TURN", 1),
        _of("broker.handlers.add_partitions_to_txn", "TRANSACTIONS_PER_TURN", 1),
        _of("broker.handlers.delete_groups", "NAMES_PER_TURN", 1),
        _of("broker.handlers.delete_topics", "JUDGED_PER_TURN", 1),
        _of("broker.handlers.create_topics", "TOPICS_PER_TURN", 1),
        _of("broker.handlers.create_partitions", "TOPICS_PER_TURN", 1),
        _of("broker.handlers.write_txn_markers", "PLACES_PER_TURN", 1),
        _of("broker.topics", "NAMES_PER_TURN", 1),
        _of("broker.configs.changes", "RESOURCES_PER_TURN", 1),
        _of("broker.configs.outcomes", "KEYS_PER_TURN", 1),
        _of("broker.transactions.endings", "PLACES_PER_TURN", 1),
        _of("broker.transactions.markers", "PLACES_PER_TURN", 1),
        _of("broker.transactions.markers", "FLUSHES_PER_TURN", 1),
        _of("broker.transactions.transaction_admission", "PLACES_PER_TURN", 1),
        _of("broker.transactions.late_logs", "JUDGED_PER_TURN", 1),
        _of("broker.transactions.timeouts", "LOOKED_AT_PER_TURN", 1),
        _of("broker.transactions.state_replay", "RECORDS_PER_TURN", 1),
    )
)
ALL: Final = SCALES | TURNS


def drawn(chance: random.Random, scales: Mapping[str, Scale] = SCALES) -> dict[str, int]:
    """Return the constants that a history makes small, with their values."""
    return {
        name: chance.choice(scale.values)
        for name, scale in scales.items()
        if chance.random() < SHARE
    }


@contextmanager
def scaled(values: Mapping[str, int]) -> Iterator[None]:
    """Give constants other values in the modules that use them."""
    found = [  # all before the first is changed: an import binds what it finds
        (vars(importlib.import_module(path)), name.partition(MARK)[2], value)
        for name, value in values.items()
        for path in ALL[name].modules
    ]
    before = [(space, attribute, space[attribute]) for space, attribute, _ in found]
    for space, attribute, value in found:
        space[attribute] = value
    try:
        yield
    finally:
        for space, attribute, value in reversed(before):
            space[attribute] = value
