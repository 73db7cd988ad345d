"""Which files are lost while the broker is down: some that it can make anew (design.md, I4).

Recovery must make them from the logs; no record, offset or producer may be missing afterwards.
"""

from __future__ import annotations

import random
from typing import Final

from storage.files import filenames
from storage.files.filenames import Kind
from tests.support.memory_inodes import Directory

MADE_ANEW: Final = (
    (filenames.OFFSET_INDEX,),
    (filenames.TIME_INDEX,),
    (filenames.OFFSET_INDEX, filenames.TIME_INDEX),
    (filenames.SNAPSHOT, filenames.PRODUCERS),
)


def lose_files(directory: Directory, rng: random.Random) -> str:
    """Remove files of some kinds from partitions; say which."""
    kinds, share = rng.choice(MADE_ANEW), rng.choice((0.3, 1.0))
    if filenames.SNAPSHOT not in kinds:  # alone, nothing would vouch for them
        kinds = (*kinds, filenames.TRANSACTION_INDEX)
    return _lose(directory, rng, kinds, share)


def lose_producers(directory: Directory, rng: random.Random) -> str:
    """Remove what snapshots say of producers from all partitions; say which."""
    return _lose(directory, rng, (filenames.SNAPSHOT, filenames.PRODUCERS), 1.0)


def _lose(directory: Directory, rng: random.Random, kinds: tuple[str, ...], share: float) -> str:
    lost: list[str] = []
    for name, partition in sorted(directory.live.items(), key=lambda entry: entry[0]):
        parsed = filenames.parse(name)
        if parsed is None or parsed.kind is not Kind.PARTITION:
            continue
        if name == filenames.METADATA_DIRECTORY or not isinstance(partition, Directory):
            continue
        together: dict[int, bool] = {}  # a `.snapshot` and its `.producers`
        for file in sorted(partition.live):
            of = filenames.parse(file)
            if of is None or of.kind is not Kind.SEGMENT or of.transit or of.file not in kinds:
                continue
            if together.setdefault(of.base_offset, rng.random() < share):
                partition.put(file, None)
                lost.append(f"{name}/{file}")
    return f"loses {' '.join(lost) or 'nothing'}"
