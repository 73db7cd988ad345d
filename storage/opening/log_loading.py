"""Opening the directory of one partition: which files there are, and what the log is from them.

After a clean stop nothing is read but what is small or at an end: the directory's names, the
size of each log file, the last batches of the last segment, the newest snapshot, the leader
epochs. The recovery point must then be the end of the log; if not, it was not stopped cleanly.
After any other stop `storage.opening.recovery` goes over everything above the recovery point first.

What is found and does not belong is reported and left alone; only files that by their name are
on their way out (`.deleted`) or of no use without their log file (an index) go into the trash.
What a compaction under way has left is ended by `storage.opening.swap_recovery`.

Missing indexes of closed segments are built later, by checkpoints: look-ups work without, slowly.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from config.topic import TopicConfig
from protocol.record_batch import BatchHeader, verify
from protocol.record_errors import RecordError
from protocol.records import read_records
from storage.errors import CheckpointError, DamagedLog, LogFailed
from storage.files import filenames
from storage.files.filenames import OFFSET_MAX, Kind
from storage.files.text_files import read_leader_epochs
from storage.home import Home
from storage.leader_epochs import LeaderEpochs
from storage.log import Log
from storage.opening import swap_recovery
from storage.opening.recovery import NO_CLEAN_SHUTDOWN, RecoveryReport, recover
from storage.producers.producer_state import NO_PRODUCER_ID, ProducerState
from storage.producers.snapshot_files import SnapshotFiles, names
from storage.segments.log_file import LogFile
from storage.segments.row import Segments, create_segment
from storage.segments.segment import Segment

MARKER_BYTES_MAX = 64 * 1024  # of a control batch, which holds one small record


class Origin(NamedTuple):
    """What the manager knows about a log before it is opened. None: no checkpoint says."""

    topic: str
    partition: int
    topic_id: bytes
    directory: str
    leader_epoch: int
    recovery_point: int | None
    log_start: int | None
    was_clean: bool
    cleaned_offset: int = 0


@dataclass(slots=True)
class _Listing:
    """The files of a partition's directory, by what they are for."""

    logs: list[int] = field(default_factory=list)
    indexed: set[int] = field(default_factory=set)
    indexes: list[tuple[int, str]] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    has_epochs: bool = False


@dataclass(slots=True)
class _Found:
    """What the files of a log amount to."""

    end_offset: int
    recovery_point: int
    producers: ProducerState
    failed: LogFailed | None = None


_Newest = dict[int, tuple[LogFile, int, BatchHeader]]  # by producer: where its last batch is


def load_log(
    home: Home, origin: Origin, config: TopicConfig, now_ms: int
) -> tuple[Log, RecoveryReport]:
    """Open the log in a directory that exists, repairing it if it was not stopped cleanly.

    Raises OSError if the directory cannot be read; everything less is repaired or makes a
    log that is `failed`, readable up to where it is sound.
    """
    report = RecoveryReport(origin.topic, origin.partition, origin.directory)
    listing = _list(home, origin.directory, report, now_ms)
    segments = _open_segments(home, origin, config, listing, report, now_ms)
    snapshots = SnapshotFiles(origin.directory, listing.snapshots)
    end_offset = _clean_end(segments[-1], origin, report)
    start_offset = max(segments[0].base_offset, origin.log_start or 0)
    known_to = (origin.recovery_point or 0) if end_offset is None else end_offset
    epochs = _load_epochs(home, origin, listing, segments, known_to, report)
    if end_offset is not None:
        found = _trust(home, segments, snapshots, end_offset, report, now_ms)
    else:
        found = _repair(home, origin, config, segments, snapshots, epochs, report, now_ms)
    _mend_active(home, segments[-1], report)
    found.producers.end_offset = found.end_offset
    if not origin.was_clean and found.producers.entries:
        snapshots.take(found.producers)  # may outlive the segments it was replayed from
    epochs.drop_from(found.end_offset)
    if start_offset > found.end_offset and found.failed is not None:
        found.end_offset = start_offset  # what the disk hides may reach beyond: nothing is shown
    elif start_offset > found.end_offset:
        report.warnings.append(
            f"log start checkpoint {origin.log_start} is beyond the end {found.end_offset} of "
            f"{origin.directory}: ignored, nothing is deleted on a checkpoint's word"
        )
        start_offset = segments[0].base_offset
    epochs.drop_before(start_offset)
    log = Log(
        home,
        origin.topic,
        origin.partition,
        origin.topic_id,
        origin.directory,
        config,
        Segments(segments, found.end_offset, origin.cleaned_offset),
        start_offset=start_offset,
        end_offset=found.end_offset,
        recovery_point=found.recovery_point,
        leader_epoch=origin.leader_epoch,
        producers=found.producers,
        epochs=epochs,
        snapshots=snapshots,
    )
    log.failed = found.failed
    if not listing.logs:
        log.note_created([], [origin.directory])
    return log, report


def _trust(
    home: Home,
    segments: list[Segment],
    snapshots: SnapshotFiles,
    end_offset: int,
    report: RecoveryReport,
    now_ms: int,
) -> _Found:
    """Take a log that was stopped cleanly at `end_offset` as it is."""
    producers, warnings = snapshots.load(
        home.filesystem, end_offset, now_ms, home.producer_expiration_ms
    )
    report.warnings += warnings
    replay(segments, producers, end_offset, now_ms, report)
    return _Found(end_offset, end_offset, producers)


def _repair(
    home: Home,
    origin: Origin,
    config: TopicConfig,
    segments: list[Segment],
    snapshots: SnapshotFiles,
    epochs: LeaderEpochs,
    report: RecoveryReport,
    now_ms: int,
) -> _Found:
    """Go over everything above the recovery point: `storage.opening.recovery`."""
    recovery_point = max(segments[0].base_offset, origin.recovery_point or 0)
    producers, warnings = snapshots.load(
        home.filesystem, recovery_point, now_ms, home.producer_expiration_ms
    )
    report.warnings += warnings
    producers.end_offset = max(producers.end_offset, segments[0].base_offset)
    replay(segments, producers, recovery_point, now_ms, report)
    end_offset, failed = recover(
        home,
        segments,
        recovery_point,
        config,
        OFFSET_MAX if "compact" in config.cleanup_policy else origin.cleaned_offset,
        lambda header, batch: _take(header, batch, producers, epochs, origin.leader_epoch, now_ms),
        report,
        now_ms,
    )
    home.discard(
        origin.directory,
        (name for offset in snapshots.forget_from(end_offset + 1) for name in names(offset)),
        now_ms,
    )
    return _Found(end_offset, min(recovery_point, end_offset), producers, failed)


def _list(home: Home, directory: str, report: RecoveryReport, now_ms: int) -> _Listing:
    listing = _Listing()
    file_names = home.filesystem.list(directory)
    if swap_recovery.is_due(file_names):
        swap_recovery.finish(home, directory, file_names, report, now_ms)
        file_names = home.filesystem.list(directory)
    for file_name in file_names:
        name = filenames.parse(file_name)
        if name is None:
            report.warnings.append(f"{directory}: {file_name!r} is not ours, left alone")
        elif name.kind is Kind.FILE:
            listing.has_epochs |= name.file == filenames.LEADER_EPOCH_CHECKPOINT
        elif name.kind is Kind.SEGMENT:
            if name.transit == filenames.DELETED:
                home.toss(now_ms, posixpath.join(directory, file_name))
            else:
                _sort_in(listing, name, file_name)
        elif name.kind is Kind.QUARANTINE:
            report.notes.append(f"{directory}: {file_name} holds bytes cut by an earlier recovery")
    listing.logs.sort()
    _tell_aborted(home, directory, listing, report)
    orphans = [file_name for base, file_name in listing.indexes if base not in set(listing.logs)]
    for file_name in orphans:
        report.warnings.append(f"Found an orphaned index file {directory}/{file_name}")
    home.discard(directory, orphans, now_ms)
    return listing


def _tell_aborted(home: Home, directory: str, listing: _Listing, report: RecoveryReport) -> None:
    """Say that a log has what this broker cannot tell its readers: Kafka's list of aborts."""
    aborted = [
        name
        for _, name in listing.indexes
        if name.endswith(filenames.TRANSACTION_INDEX)
        and home.filesystem.size(posixpath.join(directory, name))
    ]
    if aborted:
        report.warnings.append(
            f"{directory} holds records of aborted transactions ({', '.join(aborted)}): "
            "transactions are not supported, readers are given these records as all others"
        )


def _sort_in(listing: _Listing, name: filenames.Name, file_name: str) -> None:
    if name.file == filenames.LOG:
        listing.logs.append(name.base_offset)
    elif name.file == filenames.SNAPSHOT:
        listing.snapshots.append(name.base_offset)
    elif name.file != filenames.PRODUCERS:
        listing.indexes.append((name.base_offset, file_name))
        if name.file == filenames.OFFSET_INDEX:
            listing.indexed.add(name.base_offset)


def _open_segments(
    home: Home,
    origin: Origin,
    config: TopicConfig,
    listing: _Listing,
    report: RecoveryReport,
    now_ms: int,
) -> list[Segment]:
    directory = origin.directory
    if not listing.logs:
        # No offset that may have been given out is given out again.
        base_offset = max(origin.log_start or 0, origin.recovery_point or 0)
        if base_offset:
            report.warnings.append(
                f"{directory} has no log file, but its checkpoints say {base_offset}: "
                "the log begins there, empty"
            )
        segment = create_segment(home.files, directory, base_offset, config, now_ms)
        return [segment]
    segments = []
    for base_offset in listing.logs:
        path = posixpath.join(directory, filenames.log_name(base_offset))
        segment = Segment.open(
            home.files,
            directory,
            base_offset,
            size=home.filesystem.size(path),
            index_interval_bytes=config.index_interval_bytes,
            index_size_max=config.segment_index_bytes,
            created_ms=now_ms,
        )
        if base_offset not in listing.indexed and segment.size > config.index_interval_bytes:
            segment.index_damage = "missing"
            report.warnings.append(
                f"Could not find offset index file corresponding to log file {path}, "
                "it will be rebuilt"
            )
        segments.append(segment)
    return segments


def _clean_end(last: Segment, origin: Origin, report: RecoveryReport) -> int | None:
    """The end offset if the log was stopped cleanly, else None, with the reason in the report."""
    if not origin.was_clean:
        report.reason = NO_CLEAN_SHUTDOWN
        return None
    try:
        end_offset = last.read_next_offset()
    except LogFailed as error:
        report.reason = str(error)
        return None
    if end_offset != origin.recovery_point:
        report.reason = f"the log ends at {end_offset}, its recovery point is "
        report.reason += str(origin.recovery_point)
        return None
    return end_offset


def _mend_active(home: Home, active: Segment, report: RecoveryReport) -> None:
    """Make missing indexes of the active segment anew: only closed ones can be mended later."""
    try:
        for path in active.files()[1:]:
            home.files.get(path, create=True)
        if active.index_damage:
            active.rebuild_indexes()
    except OSError as error:  # no room: look-ups work without
        report.warnings.append(f"indexes of {active} not rebuilt: {error}")


# -- Producers ------------------------------------------------------------------------------------


def replay(
    segments: Sequence[Segment],
    producers: ProducerState,
    end_offset: int,
    now_ms: int,
    report: RecoveryReport,
) -> None:
    """Bring the state from its own end offset to `end_offset` by the headers of the log."""
    start_offset = producers.end_offset
    if start_offset >= end_offset:
        return
    newest: _Newest = {}
    for segment, after in zip(segments, [*segments[1:], None], strict=True):
        if after is not None and after.base_offset <= start_offset:
            continue
        if segment.base_offset >= end_offset:
            break
        try:
            _replay_segment(segment, producers, start_offset, end_offset, now_ms, newest)
        except DamagedLog as damage:
            report.warnings.append(f"producers are known in part only: {damage}")
            producers.damaged_below = min(
                end_offset, OFFSET_MAX if after is None else after.base_offset
            )
    _check_newest(newest, producers, report)
    producers.end_offset = end_offset


def _replay_segment(
    segment: Segment,
    producers: ProducerState,
    start_offset: int,
    end_offset: int,
    now_ms: int,
    newest: _Newest,
) -> None:
    found = segment.position_of(start_offset)
    if found is None:
        return
    for position, header in segment.log_file.scan(found[0], offset_min=found[1].base_offset):
        if header.next_offset > end_offset:
            producers.damaged_below = end_offset
            return  # no client was told of such offsets
        if header.producer_id >= 0 and header.base_offset >= start_offset:
            batch = b""
            if header.is_control and header.size <= MARKER_BYTES_MAX:
                batch = segment.log_file.read(position, header.size)
            _take_producer(header, batch, producers, now_ms)
            newest[header.producer_id] = (segment.log_file, position, header)
        elif header.producer_id < NO_PRODUCER_ID:
            producers.damaged_below = header.next_offset
        if header.next_offset >= end_offset:
            return  # what follows may be damaged, and is not ours to judge


def _check_newest(newest: _Newest, producers: ProducerState, report: RecoveryReport) -> None:
    """Hold the headers that the state of each producer rests on against their checksums."""
    for log_file, position, header in newest.values():
        try:
            verify(log_file.read(position, header.size))
        except (RecordError, LogFailed) as error:
            report.warnings.append(
                f"producers are known in part only: {log_file.path} at position {position}: {error}"
            )
            producers.damaged_below = max(producers.damaged_below, header.next_offset)


def _take(
    header: BatchHeader,
    batch: memoryview,
    producers: ProducerState,
    epochs: LeaderEpochs,
    leader_epoch: int,
    now_ms: int,
) -> None:
    """Take a batch that recovery found good into the state of the log.

    Its leader epoch stands outside the CRC: one above the present is damage, and passed over.
    """
    if header.producer_id >= 0:
        _take_producer(header, batch, producers, now_ms)
    if epochs.latest < header.leader_epoch <= leader_epoch:
        epochs.assign(header.leader_epoch, header.base_offset)


def _take_producer(
    header: BatchHeader, batch: bytes | memoryview, producers: ProducerState, now_ms: int
) -> None:
    if not header.is_control:
        producers.take(header, header.base_offset, now_ms)
        return
    coordinator_epoch = -1
    for record in (
        read_records(batch, 0, size_max=MARKER_BYTES_MAX, skip_headers=True) if batch else ()
    ):
        if record.value is not None and len(record.value) >= 6:
            # EndTransactionMarker: int16 version, int32 coordinator epoch
            coordinator_epoch = int.from_bytes(bytes(record.value[2:6]), "big", signed=True)
    producers.take_marker(header, coordinator_epoch, now_ms)


# -- Leader epochs --------------------------------------------------------------------------------


def _load_epochs(
    home: Home,
    origin: Origin,
    listing: _Listing,
    segments: Sequence[Segment],
    known_to: int,
    report: RecoveryReport,
) -> LeaderEpochs:
    """Read the epochs of the log below `known_to`, at least; recovery takes in what is above."""
    path = posixpath.join(origin.directory, filenames.LEADER_EPOCH_CHECKPOINT)
    if listing.has_epochs:
        try:
            epochs = LeaderEpochs(read_leader_epochs(home.filesystem, path))
            begin = max((offset for _, offset in epochs.entries()), default=0)
            if epochs.latest > origin.leader_epoch:
                wrong = f"{path}: epoch {epochs.latest}, now is {origin.leader_epoch}"
            elif begin > known_to:
                # Only dropped, it would leave the batches of that epoch to look damaged.
                wrong = f"{path}: epoch {epochs.latest} begins at {begin}, "
                wrong += f"the log is known up to {known_to}"
            else:
                return epochs
        except (CheckpointError, OSError) as error:
            wrong = str(error)
        report.warnings.append(f"leader epochs are read from the batches: {wrong}")
    epochs = LeaderEpochs()
    for epoch, offset in _epochs_in(segments, known_to):
        if epochs.latest < epoch <= origin.leader_epoch:
            epochs.assign(epoch, offset)
    return epochs


def _epochs_in(segments: Sequence[Segment], end_offset: int) -> Iterable[tuple[int, int]]:
    """Yield (epoch, base offset) of batches below an offset, all of them where the epoch changes.

    Epochs never fall, so a segment that begins as the next one begins has one epoch only.
    """
    segments = [segment for segment in segments if segment.base_offset < end_offset]
    firsts = []
    for segment in segments:
        header = segment.log_file.read_header_at(0)
        firsts.append(None if header is None else (header.leader_epoch, header.base_offset))
    for segment, first, after in zip(segments, firsts, [*firsts, None][1:], strict=True):
        if first is None:
            continue
        yield first
        if after is not None and after[0] == first[0]:
            continue
        try:
            for _, header in segment.log_file.scan(offset_min=segment.base_offset):
                if header.base_offset >= end_offset:
                    break
                yield header.leader_epoch, header.base_offset
        except DamagedLog:
            continue  # reported by whoever reads there
