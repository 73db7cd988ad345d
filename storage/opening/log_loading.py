"""Loads one partition's directory into a log.

After a clean stop this reads little: the names in the directory, the size of each log file, the
last batches of the last segment, the newest snapshot and the leader epochs. The recovery point must
then equal the end of the log; otherwise the stop was not clean. After any other stop
`storage.opening.recovery` first checks everything above the recovery point.

Missing indexes of closed segments are rebuilt later, by checkpoints. Lookups work without them, but
slowly.

Damage is what was read and contradicts its format, or a file that is missing. It is repaired, and
the log is opened. A file that the disk or the system does not give (EIO, EMFILE, EACCES) is not
damaged: nobody knows what is in it. Then the log is not opened, its partition is offline, and the
opening is tried again.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from config.topic import TopicConfig
from protocol.record_batch import BatchHeader
from storage.errors import DamagedLog, LogFailed
from storage.files import filenames
from storage.home import Home
from storage.leader_epochs import LeaderEpochs
from storage.log import Log
from storage.log_state import LogContents, LogIdentity
from storage.opening import producer_replay
from storage.opening.abort_loading import load_aborts, write_lists
from storage.opening.epoch_loading import read_epochs, rebuild_epochs
from storage.opening.listing import Listing, list_files
from storage.opening.recovery import Holes, recover
from storage.opening.recovery_report import NO_CLEAN_SHUTDOWN, RecoveryReport
from storage.producers.open_transactions import LastMarkers, ReplayedMarker
from storage.producers.producer_state import ProducerState
from storage.producers.snapshot_files import LoadedProducers, SnapshotFiles, names
from storage.segments.cleaned import Cleaned
from storage.segments.row import Segments, abort_tallies, create_segment
from storage.segments.segment import Segment


class LastKnown(NamedTuple):
    """What the metadata and the checkpoint files say about a log; None where no file names it."""

    topic: str
    partition: int
    topic_id: bytes
    directory: str
    leader_epoch: int
    recovery_point: int | None
    log_start: int | None
    was_clean: bool
    cleaned_offset: int | None = None
    has_recovery_points: bool = False  # whether there is a file that names the logs that have one


@dataclass(slots=True)
class _Found:
    """What loading or recovery found: where the log ends, and its producers."""

    end_offset: int
    recovery_point: int
    producers: ProducerState
    failed: LogFailed | None = None
    markers: Sequence[ReplayedMarker] = ()  # above the recovery point


def load_log(
    home: Home, known: LastKnown, config: TopicConfig, now_ms: int, report: RecoveryReport
) -> Log:
    """Load the log of an existing directory, and recover it if it was not stopped cleanly.

    What was found and done goes into `report`, also if it fails: raises OSError or LogFailed if the
    disk does not give or take what it must. Damage is repaired, or (on a full disk) makes the log
    `failed`, readable up to where it is sound.
    """
    loading = _Loading(home, known, config, now_ms, report)
    try:
        return loading.load()
    except BaseException:
        loading.let_go()
        raise


class _Loading:
    """Loads one log."""

    def __init__(
        self,
        home: Home,
        known: LastKnown,
        config: TopicConfig,
        now_ms: int,
        report: RecoveryReport,
    ) -> None:
        self.home = home
        self.known = known
        self.config = config
        self.now_ms = now_ms
        self.report = report
        self.segments: list[Segment] = []
        self.are_aborts_rebuilt = False
        self.may_have_holes = "compact" in config.cleanup_policy or known.cleaned_offset is not None

    def load(self) -> Log:
        home, known, report = self.home, self.known, self.report
        listing = list_files(home, known.directory, report, self.now_ms)
        self.may_have_holes |= listing.has_finished_swaps
        segments = self.segments = self._open_segments(listing)
        snapshots = SnapshotFiles(known.directory, listing.snapshots)
        end_offset = self._clean_end(segments[-1])
        epochs = self._load_epochs(listing, segments, end_offset)
        if end_offset is not None:
            found = self._trust(listing, segments, snapshots, end_offset)
        else:
            found = self._repair(listing, segments, snapshots, epochs)
        write_lists(segments, listing.aborting, report)
        self._mend_active(segments[-1])
        found.producers.end_offset = found.end_offset
        if self.are_aborts_rebuilt or (not known.was_clean and found.producers.entries):
            # It may outlive the segments that it was replayed from.
            snapshots.take(found.producers, abort_tallies(segments), again=self.are_aborts_rebuilt)
        epochs.drop_from(found.end_offset)
        start_offset = self._start_offset(segments[0], found)
        epochs.drop_before(start_offset)
        closed_below = segments[-1].base_offset if self.may_have_holes else 0
        contents = LogContents(
            segments=Segments(
                segments, found.end_offset, Cleaned(known.cleaned_offset, closed_below)
            ),
            start_offset=start_offset,
            end_offset=found.end_offset,
            recovery_point=found.recovery_point,
            producers=found.producers,
            epochs=epochs,
            snapshots=snapshots,
            failed=found.failed,
            replayed_markers=found.markers,
        )
        identity = LogIdentity(known.topic, known.partition, known.topic_id, known.directory)
        log = Log(home, identity, self.config, contents, known.leader_epoch)
        if not listing.logs:
            log.unsynced.note_created([], [known.directory])
        return log

    def let_go(self) -> None:
        """Release the files: a log that is not open holds no descriptors."""
        for segment in self.segments:
            segment.files.forget()

    # -- Segments -----------------------------------------------------------------------------

    def _open_segments(self, listing: Listing) -> list[Segment]:
        known, config, directory = self.known, self.config, self.known.directory
        if not listing.logs:
            # Offsets that may have been assigned must not be assigned again.
            base_offset = max(known.log_start or 0, known.recovery_point or 0)
            if base_offset:
                self.report.warnings.append(
                    f"{directory} has no log file, but its checkpoints say offset {base_offset}: "
                    "the log is empty and begins there"
                )
            return [create_segment(self.home.files, directory, base_offset, config, self.now_ms)]
        segments = []
        for base_offset in listing.logs:
            path = posixpath.join(directory, filenames.log_name(base_offset))
            segment = Segment(
                self.home.files,
                directory,
                base_offset,
                size=self.home.filesystem.size(path),
                index_interval_bytes=config.index_interval_bytes,
                index_size_max=config.segment_index_bytes,
                created_ms=self.now_ms,
            )
            if base_offset not in listing.indexed and segment.size > config.index_interval_bytes:
                segment.indexes.damage = "missing"
                self.report.warnings.append(
                    f"Could not find offset index file corresponding to log file {path}, "
                    "it will be rebuilt"
                )
            segments.append(segment)
        return segments

    def _mend_active(self, active: Segment) -> None:
        """Rebuild missing indexes of the active segment; checkpoints rebuild only closed ones."""
        try:
            if active.indexes.damage:
                active.rebuild_indexes()
            for path in active.files.index_paths():
                self.home.files.get(path, create=True)
        except OSError as error:  # no space: lookups work without them
            self.report.warnings.append(f"indexes of {active} are not rebuilt: {error}")

    # -- Start and end ------------------------------------------------------------------------

    def _clean_end(self, last: Segment) -> int | None:
        """Return the end offset after a clean stop; else None, with the reason in the report.

        Raises LogFailed if the disk does not say.
        """
        if not self.known.was_clean:
            self.report.reason = NO_CLEAN_SHUTDOWN
            return None
        try:
            end_offset = last.read_next_offset()
        except DamagedLog as error:
            self.report.reason = str(error)
            return None
        if end_offset != self.known.recovery_point:
            self.report.reason = f"the log ends at offset {end_offset}, its recovery point is "
            self.report.reason += str(self.known.recovery_point)
            return None
        return end_offset

    def _start_offset(self, first: Segment, found: _Found) -> int:
        """Return the log start offset; raises `found.end_offset` to it if the log has failed."""
        start_offset = max(first.base_offset, self.known.log_start or 0)
        if start_offset <= found.end_offset:
            return start_offset
        if found.failed is not None:
            found.end_offset = start_offset  # what could not be cut may reach beyond it
            return start_offset
        self.report.warnings.append(
            f"log start checkpoint {self.known.log_start} is above the end offset "
            f"{found.end_offset} of {self.known.directory}: ignored, no records are deleted"
        )
        return first.base_offset

    def _load_epochs(
        self, listing: Listing, segments: list[Segment], end_offset: int | None
    ) -> LeaderEpochs:
        """Load the epochs below the offset that is known to be sound; recovery adds the others."""
        known = self.known
        known_to = (known.recovery_point or 0) if end_offset is None else end_offset
        epochs = None
        if listing.has_epochs:
            epochs = read_epochs(
                self.home.filesystem, known.directory, known_to, known.leader_epoch, self.report
            )
        if epochs is None:
            epochs = rebuild_epochs(segments, known_to, known.leader_epoch)
        return epochs

    # -- Producers ----------------------------------------------------------------------------

    def _trust(
        self,
        listing: Listing,
        segments: list[Segment],
        snapshots: SnapshotFiles,
        end_offset: int,
    ) -> _Found:
        """Accept a log that was stopped cleanly at `end_offset` as it is."""
        producers = self._load_state(listing, segments, snapshots, end_offset)
        producer_replay.replay(segments, producers, end_offset, self.now_ms, self.report)
        return _Found(end_offset, end_offset, producers)

    def _repair(
        self,
        listing: Listing,
        segments: list[Segment],
        snapshots: SnapshotFiles,
        epochs: LeaderEpochs,
    ) -> _Found:
        """Recover everything above the recovery point (`storage.opening.recovery`)."""
        known, config, now_ms = self.known, self.config, self.now_ms
        recovery_point = max(segments[0].base_offset, known.recovery_point or 0)
        producers = self._load_state(listing, segments, snapshots, recovery_point)
        producer_replay.replay(segments, producers, recovery_point, now_ms, self.report)
        markers = LastMarkers()
        note_abort = partial(producer_replay.add_abort, segments)

        def take(header: BatchHeader, batch: memoryview) -> None:
            """Apply a batch that recovery found good to the producers and the epochs."""
            if header.producer_id >= 0:
                marker = producer_replay.take_producer(header, batch, producers, now_ms, note_abort)
                if marker is not None:
                    markers.add(marker)
            # No CRC covers the leader epoch: one above the current epoch is damage, and ignored.
            if epochs.latest < header.leader_epoch <= known.leader_epoch:
                epochs.assign(header.leader_epoch, header.base_offset)

        end_offset, failed = recover(
            self.home,
            segments,
            recovery_point,
            config,
            Holes.of(
                may_have_holes=self.may_have_holes,
                cleaned_offset=known.cleaned_offset or 0,
                recovery_point=recovery_point,
                has_checkpoint=known.has_recovery_points,
            ),
            take,
            self.report,
            now_ms,
        )
        gone = snapshots.forget_from(end_offset + 1)
        self.home.discard(
            known.directory, (name for offset in gone for name in names(offset)), now_ms
        )
        recovery_point = min(recovery_point, end_offset)
        return _Found(end_offset, recovery_point, producers, failed, markers.in_order())

    def _load_state(
        self, listing: Listing, segments: list[Segment], snapshots: SnapshotFiles, offset: int
    ) -> ProducerState:
        """Load producers and aborted transactions as of a snapshot at or below `offset`."""
        loaded = self._load_producers(snapshots, offset)
        state = loaded.state
        state.end_offset = max(state.end_offset, segments[0].base_offset)
        self.are_aborts_rebuilt = load_aborts(
            self.home,
            segments,
            listing.aborting,
            loaded,
            lambda below: self._load_producers(snapshots, below).state,
            self.now_ms,
            self.report,
        )
        return state

    def _load_producers(self, snapshots: SnapshotFiles, end_offset: int) -> LoadedProducers:
        """Load the newest good snapshot at or below `end_offset`, and remove bad ones."""
        loaded = snapshots.load(
            self.home.filesystem, end_offset, self.now_ms, self.home.producer_expiration_ms
        )
        self.report.warnings += loaded.warnings
        try:
            self.home.discard(self.known.directory, loaded.bad_names, self.now_ms)
        except OSError as error:  # they are not read again
            self.report.warnings.append(f"bad producer snapshots are not removed: {error}")
        return loaded
