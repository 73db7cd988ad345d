"""The metadata log: the one place where topics, partitions and configs are kept.

It is a log like any other, `__cluster_metadata-0`, in Kafka's KRaft form (KIP-595, KIP-631): a
Kafka 4.3 started on the directory reads it, and we read Kafka's. Its batches are of two kinds:

    control batch   one LeaderChange: from here on, a new leader epoch of this (only) controller
    data batch      metadata records, framed as `broker.metadata.records_io` says; atomic, because
                    a batch that a crash tore is no batch

A new directory gets what Kafka's storage tool and first start write: LeaderChange, then one batch
with BEGIN_TRANSACTION, six FEATURE_LEVELs, CONFIG min.insync.replicas=1 and END_TRANSACTION.

`open_metadata_log` reads the directory (`broker.metadata.image_loading`) before storage may repair
anything in it; damage refuses the start. `append` is one write into the page cache, and changes the
image immediately. **Before a change is reported to a client, the log must be durable up to the end
offset returned.** `broker.metadata.snapshot_keeper` writes snapshots and trims the log behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from broker.metadata.features import (
    BOOTSTRAP_LEVELS,
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
)
from broker.metadata.image import CONFIG_BROKER, ClusterImage
from broker.metadata.image_loading import (
    CONTROL_KEY,
    LoadedImage,
    load_image,
    read_snapshot,
)
from broker.metadata.records_io import decode_record, encode_record
from broker.metadata.topic_rules import check_batch_size
from config.topic import TopicConfig
from protocol.kafka.codec import encode_message
from protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    ControlRecordType,
    EndTransactionRecord,
    FeatureLevelRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)
from protocol.records import Record, build
from storage.errors import CorruptMetadata, LogFailed
from storage.files import filenames
from storage.files.filesystem import FileSystem

if TYPE_CHECKING:
    from storage.log import Log

METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"  # Uuid.METADATA_TOPIC_ID in Kafka
RECORDS_PER_BATCH: Final = 1_000  # for work at start that need not be atomic
RESERVE_BYTES: Final = 256 * 1024  # some 2,000 deletions of topics
_LEADER_CHANGE_VERSION: Final = 0

# Everything stays, in one segment until it is a GiB: Kafka's metadata.log.segment.bytes.
METADATA_CONFIG: Final = TopicConfig(
    segment_bytes=1 << 30,
    segment_ms=(1 << 63) - 1,
    retention_ms=-1,
    retention_bytes=-1,
)

OpenLog: TypeAlias = "Callable[[TopicConfig, int], Log]"


class MetadataLog:
    """The log, and the image that its records make."""

    def __init__(self, log: Log, loaded: LoadedImage, node_id: int) -> None:
        self.log = log
        self.image: ClusterImage = loaded.image
        self.warnings: list[str] = loaded.warnings
        self.voters = loaded.voters  # Kafka's, for snapshots
        self.bytes_since_snapshot = loaded.bytes_since_snapshot
        self.removed = loaded.removed  # ids of topics that the start found removed
        self._node_id = node_id
        self._open_transaction = loaded.in_transaction
        self._reserved = ("", 0)  # which log file has room up to which position

    @property
    def end_offset(self) -> int:
        """The offset that the next metadata record gets; what to wait for after an append."""
        return self.log.end_offset

    @property
    def epoch(self) -> int:
        """The leader epoch that batches are stamped with."""
        return self.log.leader_epoch

    @property
    def is_durable(self) -> bool:
        """Whether everything appended so far survives a power cut."""
        return self.log.durable_offset >= self.log.end_offset

    def append(
        self,
        records: Iterable[Any],
        now_ms: int,
        batch: bytearray | None = None,
        *,
        apply: Callable[[], None] | None = None,
    ) -> int:
        """Append `records` as one batch and apply them; return the end offset to wait for.

        `batch` is what `encode_batch` made of them. `apply` changes the image as they say; without
        it each is applied, which takes some 10 µs. Raises TopicError if the batch is larger than
        Kafka reads, and LogFailed, each with log and image as they were. `keep_room` is to follow,
        in a thread.
        """
        taken = list(records)
        encoded = batch or encode_batch(taken, now_ms)
        check_batch_size(len(encoded))
        self._append(encoded, now_ms)
        if apply is not None:
            apply()
        else:
            for record in taken:
                self.image.apply(record)
        return self.log.end_offset

    def _append(self, batch: bytearray, now_ms: int) -> None:
        self.log.append_own(batch, now_ms)
        self.bytes_since_snapshot += len(batch)

    def begin_epoch(self, now_ms: int) -> int:
        """Begin a new leader epoch, and abort a record transaction that was left open.

        Called before the first write to a directory where another process wrote last. Returns
        the end offset. Raises LogFailed.
        """
        voter = LeaderChangeVoter(voter_id=self._node_id)
        message = LeaderChangeMessage(
            version=_LEADER_CHANGE_VERSION,
            leader_id=self._node_id,
            voters=[voter],
            granting_voters=[voter],
        )
        key = CONTROL_KEY.pack(_LEADER_CHANGE_VERSION, ControlRecordType.LEADER_CHANGE)
        value = encode_message(message, _LEADER_CHANGE_VERSION)
        batch = build([Record(0, now_ms, key, value)], control=True)
        self.log.leader_epoch += 1
        try:
            self._append(batch, now_ms)
        except LogFailed:
            self.log.leader_epoch -= 1  # an epoch has begun only when its LeaderChange is there
            raise
        if self._open_transaction:
            aborted = encode_record(AbortTransactionRecord(reason="the broker was restarted"))
            self._append(build([Record(0, now_ms, None, aborted)]), now_ms)
            self._open_transaction = False
        return self.log.end_offset

    def bootstrap(self, now_ms: int, frames: Sequence[bytes] = ()) -> int:
        """Write the beginning of a new log; `frames`, encoded records, replaces the levels.

        Returns the end offset. Raises LogFailed.
        """
        assert not self.image.feature_levels, "bootstrap of a log that has records"
        self.begin_epoch(now_ms)
        levels = frames or [
            encode_record(FeatureLevelRecord(name=name, feature_level=level))
            for name, level in BOOTSTRAP_LEVELS.items()
        ]
        min_insync = ConfigRecord(
            resource_type=CONFIG_BROKER, resource_name="", name="min.insync.replicas", value="1"
        )
        content = [*levels, encode_record(min_insync)]
        begin = encode_record(BeginTransactionRecord(name="Bootstrap records"))
        transaction = [begin, *content, encode_record(EndTransactionRecord())]
        self._append(build([Record(0, now_ms, None, frame) for frame in transaction]), now_ms)
        for frame in content:
            self.image.apply(decode_record(frame))
        return self.log.end_offset

    @property
    def lacks_room(self) -> bool:
        """Whether `keep_room` has work to do."""
        file = self.log.segments.active.log_file
        path, end = self._reserved
        return path != file.path or file.size + RESERVE_BYTES // 2 > end

    def keep_room(self) -> None:
        """Reserve disk space for the next records, as far as possible. Blocks.

        On a full disk topics can then still be deleted, and a broker can start.
        """
        file = self.log.segments.active.log_file
        end = file.size + RESERVE_BYTES
        if self.lacks_room and file.reserve(RESERVE_BYTES):
            self._reserved = file.path, end

    def flush(self) -> None:
        """Block until everything is durable: for start and stop only.

        Raises LogFailed.
        """
        flush = self.log.begin_flush()
        if flush is not None:
            error: OSError | None = None
            try:
                flush.run()
            except OSError as caught:
                error = caught
            self.log.finish_flush(flush, error)
            if error is not None:
                raise LogFailed(self.log.directory, f"fsync failed: {error}") from error
        if self.log.failed is not None:
            raise LogFailed(self.log.failed.path, self.log.failed.reason)


def encode_batch(records: Iterable[Any], now_ms: int) -> bytearray:
    """Return the batch of `records`, for `MetadataLog.append`: some 10 µs each, in any thread."""
    return build([Record(0, now_ms, None, encode_record(record)) for record in records])


def open_metadata_log(
    filesystem: FileSystem,
    data_directory: str,
    open_log: OpenLog,
    node_id: int,
    now_ms: int,
    *,
    recovery_point: int = 0,
) -> MetadataLog:
    """Read, check, open and if new bootstrap the metadata log of `data_directory`.

    `open_log(config, leader_epoch)` opens or creates the log of `__cluster_metadata-0`; it is
    called after the check, so that recovery cuts nothing that was not checked. `recovery_point`
    is that log's persisted one, 0 if unknown. On return the log is durable.

    Raises CorruptMetadata when starting would lose or misread metadata, LogFailed.
    """
    directory = f"{data_directory}/{filenames.METADATA_DIRECTORY}"
    loaded = load_image(filesystem, directory, recovery_point=recovery_point)
    _check_version(directory, loaded.image)
    if loaded.is_new:
        _refuse_orphans(filesystem, data_directory, directory)
    log = open_log(METADATA_CONFIG, loaded.epoch)
    if log.end_offset != loaded.end_offset:
        raise CorruptMetadata(
            directory,
            f"its records end at offset {loaded.end_offset}, but the log was opened with end "
            f"offset {log.end_offset}",
        )
    metadata_log = MetadataLog(log, loaded, node_id)
    if loaded.is_new:
        frames = _bootstrap_frames(filesystem, data_directory, metadata_log.warnings)
        metadata_log.bootstrap(now_ms, frames)
    metadata_log.keep_room()
    metadata_log.flush()
    log.load_end()
    return metadata_log


def _check_version(directory: str, image: ClusterImage) -> None:
    level = image.feature_levels.get(METADATA_VERSION, METADATA_VERSION_LATEST)
    if level > METADATA_VERSION_LATEST:
        raise CorruptMetadata(
            directory,
            f"has metadata.version {level}, but this broker supports {METADATA_VERSION_LATEST} at "
            "most: downgrade it in Kafka (kafka-features.sh downgrade), or use a newer Barnabas",
        )


def _refuse_orphans(filesystem: FileSystem, data_directory: str, directory: str) -> None:
    """An empty metadata log beside topics' logs means that the metadata was lost."""
    orphans = []
    for name in sorted(filesystem.list(data_directory)):
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not filenames.Kind.PARTITION:
            continue
        if name != filenames.METADATA_DIRECTORY and filesystem.is_directory(
            f"{data_directory}/{name}"
        ):
            orphans.append(name)
    if orphans:
        shown = ", ".join(orphans[:3]) + (", …" if len(orphans) > 3 else "")
        raise CorruptMetadata(
            directory,
            f"holds no records, but {len(orphans)} partition directories exist beside it "
            f"({shown}), and their topics are unknown without metadata. Restore {directory} from a "
            "copy (Kafka may keep it under metadata.log.dir), or move the partition directories "
            "away to start over.",
        )


def _bootstrap_frames(
    filesystem: FileSystem, data_directory: str, warnings: list[str]
) -> list[bytes]:
    """Return what Kafka's storage tool left for the first start: feature levels, perhaps users.

    Kafka does not fsync that file: after a power cut it may be empty, and then does not count.
    """
    path = f"{data_directory}/{filenames.BOOTSTRAP_CHECKPOINT}"
    if not filesystem.exists(path):
        return []
    try:
        return [frame for frame, _record in read_snapshot(filesystem, path)]
    except CorruptMetadata as error:
        warnings.append(f"ignoring the bootstrap file, using default feature levels: {error}")
        return []
