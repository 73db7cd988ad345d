"""Loads a log's leader epochs from their checkpoint file, or rebuilds them from the batches.

The file is rejected if it names an epoch above the metadata's, or one that begins above the
offsets that are known to be sound. Recovery adds the epochs of the batches that it checks.
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
    """Read the checkpoint file of a partition's directory; None if it is missing or wrong.

    `epoch_max` is the current leader epoch in the metadata, `known_to` the offset up to which the
    log is known to be sound. What is wrong goes into `report`. Raises OSError: a file that the disk
    does not give is not a wrong one.
    """
    path = posixpath.join(directory, filenames.LEADER_EPOCH_CHECKPOINT)
    try:
        epochs = LeaderEpochs(read_leader_epochs(filesystem, path))
        begin = max((offset for _, offset in epochs.entries()), default=0)
        if epochs.latest > epoch_max:
            wrong = f"{path}: epoch {epochs.latest} is above the current epoch {epoch_max}"
        elif begin > known_to:
            # To drop this entry alone would make the batches of that epoch look damaged.
            wrong = f"{path}: epoch {epochs.latest} begins at offset {begin}, "
            wrong += f"the log is known up to offset {known_to}"
        else:
            return epochs
    except CheckpointError as error:
        wrong = str(error)
    report.warnings.append(f"leader epochs are rebuilt from the batches: {wrong}")
    return None


def rebuild_epochs(segments: Sequence[Segment], known_to: int, epoch_max: int) -> LeaderEpochs:
    """Read the epochs from the headers of the batches below `known_to`. Raises LogFailed."""
    epochs = LeaderEpochs()
    for epoch, offset in _epochs_in(segments, known_to):
        if epochs.latest < epoch <= epoch_max:
            epochs.assign(epoch, offset)
    return epochs


def _epochs_in(segments: Sequence[Segment], end_offset: int) -> Iterator[tuple[int, int]]:
    """Yield (epoch, base offset) of batches below an offset, at least of the first of each epoch.

    Epochs never decrease. So a segment has a single epoch if the next segment begins with the same
    one, and its other batches need not be read.
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
            continue  # the reads of that place report it
