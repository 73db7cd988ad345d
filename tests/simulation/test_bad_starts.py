"""Ruins of a data directory: each is one, is refused by the broker, and is mended wholly."""

import random

import pytest

from broker.metadata.image_loading import load_image
from broker.metadata.metadata_log import encode_batch
from protocol.metadata_records import FeatureLevelRecord, TopicRecord
from storage.errors import CorruptMetadata
from storage.files import filenames
from storage.files.text_files import encode_offsets
from tests.simulation import bad_starts
from tests.simulation.bad_starts import CONTRADICTIONS, RUINS, Saved, may_change, ruin
from tests.simulation.disk_content import entries, fill
from tests.simulation.left_metadata import LEFT, Tail, leave_metadata
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.memory_inodes import Directory, find

DATA = "/data"
METADATA = f"{DATA}/{filenames.METADATA_DIRECTORY}"
NOW_MS = 1_700_000_000_000


def disk() -> tuple[MemoryFileSystem, Directory]:
    log = bytearray()
    for offset, record in enumerate(
        (
            FeatureLevelRecord(name="metadata.version", feature_level=20),
            TopicRecord(name="t", topic_id=bytes(range(16))),
            FeatureLevelRecord(name="group.version", feature_level=1),
        )
    ):
        batch = encode_batch([record], NOW_MS)
        batch[0:8] = offset.to_bytes(8, "big")
        batch[12:16] = (1).to_bytes(4, "big")
        log += batch
    filesystem = MemoryFileSystem()
    filesystem.mkdir(DATA)
    home = find(filesystem._root, DATA)
    assert isinstance(home, Directory)
    points = encode_offsets({("t", 0): 4, (filenames.METADATA_TOPIC, 0): 3})
    fill(
        home,
        {
            "t-0": {filenames.log_name(0): b""},
            filenames.METADATA_DIRECTORY: {filenames.log_name(0): bytes(log)},
            filenames.META_PROPERTIES: b"version=1\ncluster.id=c\nnode.id=1\n",
            filenames.RECOVERY_POINT_CHECKPOINT: points,
        },
    )
    return filesystem, home


def load(filesystem: MemoryFileSystem) -> None:
    image = load_image(filesystem, METADATA, recovery_point=3).image
    if image.feature_levels["metadata.version"] == 99:  # the caller checks it
        raise CorruptMetadata(METADATA, "is of a later version")


@pytest.mark.parametrize("way", dict.fromkeys(RUINS), ids=lambda way: way.__name__)
def test_a_ruin_is_one_and_is_mended(way):
    of_the_log = way not in (bad_starts._identity, bad_starts._node, bad_starts._orphans)
    for seed in range(20):
        filesystem, home = disk()
        before = dict(entries(home))
        saved = Saved(home)
        assert way(home, random.Random(seed))
        assert dict(entries(home)) != before
        if of_the_log:
            with pytest.raises(CorruptMetadata):
                load(filesystem)
        saved.restore()
        assert dict(entries(home)) == before


def test_there_is_always_something_to_ruin_but_in_an_empty_directory():
    assert ruin(Directory(), random.Random(1)) == ""
    said = {ruin(disk()[1], random.Random(seed)) for seed in range(300)}
    assert "" not in said
    assert said >= {name for name, _ in CONTRADICTIONS}


def test_only_the_clean_mark_may_change():
    assert may_change(filenames.CLEAN_SHUTDOWN, "x")
    assert not may_change("t-0/partition.metadata", "x")
    assert not may_change(f"{filenames.METADATA_DIRECTORY}/x", "x")
    assert may_change(f"{filenames.METADATA_DIRECTORY}/x", bad_starts.ANOTHER)


def test_what_kafka_leaves_in_the_metadata_log_can_be_read():
    said = set()
    for seed in range(300):
        filesystem, home = disk()
        says = leave_metadata(home, random.Random(seed))
        said.add(says)
        loaded = load_image(filesystem, METADATA, recovery_point=3)
        assert "t" in loaded.image.topics
        if "of a write" not in says:
            assert loaded.end_offset == Tail(home).next_offset
            assert loaded.in_transaction == ("an open transaction" in says)
    assert said >= {f"leaves {name} in the metadata log" for name, _ in LEFT}
