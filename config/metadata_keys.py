"""The broker's keys for snapshots of the metadata log, after those of config/transaction_keys.py.

Names, kinds, defaults and bounds are those of Kafka's MetadataLogConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least
from config.keys import DAY_MS, HOUR_MS, Importance, MiB, key
from config.transaction_keys import TransactionKeys
from config.values import Kind


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class MetadataKeys(TransactionKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    metadata_log_max_record_bytes_between_snapshots: int = key(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * MiB,
        Kind.LONG,
        importance=Importance.HIGH,
        check=at_least(1),
        doc="The broker writes a snapshot of the metadata when its log has grown by this many"
        " bytes.",
    )
    metadata_log_max_snapshot_interval_ms: int = key(
        "metadata.log.max.snapshot.interval.ms",
        HOUR_MS,
        Kind.LONG,
        unit="ms",
        importance=Importance.HIGH,
        check=at_least(0),
        doc="The broker also writes a snapshot if the metadata has changed and this time has"
        " passed since the last snapshot or the start. 0 writes snapshots by size only.",
    )
    metadata_max_retention_bytes: int = key(
        "metadata.max.retention.bytes",
        100 * MiB,
        Kind.LONG,
        unit="bytes",
        importance=Importance.HIGH,
        doc="If the metadata log and its snapshots are larger than this, the oldest snapshots"
        " are deleted, and the log before the oldest one kept. The last two snapshots are"
        " always kept.",
    )
    metadata_max_retention_ms: int = key(
        "metadata.max.retention.ms",
        7 * DAY_MS,
        Kind.LONG,
        unit="ms",
        importance=Importance.HIGH,
        doc="Older snapshots are deleted, and the log before the oldest one kept. The last two"
        " snapshots are always kept.",
    )
