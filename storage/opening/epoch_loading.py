"""The leader epochs of a log that is opened: from their checkpoint file, or from the batches.

The file is believed unless it says more than can be: an epoch above the metadata's, or one that
begins beyond the offsets that are known. Recovery adds the epochs of the batches above.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from storage.errors import CheckpointError, DamagedLog
from storage.files import filenames
from storage.files.filesystem import FileSystem
from storage.files.text_files import read_leader_epochs
from storage.leader_epochs import LeaderEpochs
from storage.opening.recovery_report import RecoveryReport
from storage.segments.segment import Segment


def read_epochs(
    filesystem: FileSystem, directory: str, known_to: int, epoch_max: int, report: RecoveryReport
) -> LeaderEpochs | None:
    """Read the checkpoint file of a partition's directory; None if it cannot be right.

    `epoch_max` is the present epoch, by the metadata.
    """
    path = posixpath.join(directory, filenames.LEADER_EPOCH_CHECKPOINT)
    try:
        epochs = LeaderEpochs(read_leader_epochs(filesystem, path))
        begin = max((offset for _, offset in epochs.entries()), default=0)
        if epochs.latest > epoch_max:
            wrong = f"{path}: epoch {epochs.latest}, now is {epoch_max}"
        elif begin > known_to:
            # Only dropped, it would leave the batches of that epoch to look damaged.
            wrong = f"{path}: epoch {epochs.latest} begins at {begin}, "
            wrong += f"the log is known up to {known_to}"
        else:
            return epochs
    except (CheckpointError, OSError) as error:
        wrong = str(error)
    report.warnings.append(f"leader epochs are read from the batches: {wrong}")
    return None


def rebuild_epochs(segments: Sequence[Segment], known_to: int, epoch_max: int) -> LeaderEpochs:
    """Take the epochs from the headers of the batches below `known_to`. Raises LogFailed."""
    epochs = LeaderEpochs()
    for epoch, offset in _epochs_in(segments, known_to):
        if epochs.latest < epoch <= epoch_max:
            epochs.assign(epoch, offset)
    return epochs


def _epochs_in(segments: Sequence[Segment], end_offset: int) -> Iterator[tuple[int, int]]:
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
