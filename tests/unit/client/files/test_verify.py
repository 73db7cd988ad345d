"""`verify` on generated damage: it finds each kind, and reports a healthy directory as sound."""

import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from broker.metadata.topic_rules import NewTopic
from client.files.findings import CACHE, DAMAGE, NOTE
from client.files.verify import NotVerifiable, Verification
from protocol.metadata_records import PartitionRecord, TopicRecord
from protocol.records import Record, batches, build, write_crc
from storage.compaction.cleanable import find_cleanable
from storage.compaction.one_pass import compact
from storage.files.os_filesystem import OsFileSystem
from tests.support import data_directory
from tests.support.broker_rig import Rig
from tests.support.compacting import drive, fill, limits
from tests.support.log_house import NOW
from tests.support.thorough import share_of


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return data_directory.make(tmp_path_factory.mktemp("verified") / "data")


@pytest.fixture
def data(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "data"))


def run(*paths, **options):
    return Verification(OsFileSystem(), **options).run([str(path) for path in paths])


def kinds(report):
    return {(finding.weight, finding.kind) for finding in report.findings}


def logs(data, partition="t-0"):
    return sorted((data / partition).glob("*.log"))


def change(path, position, data):
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def flip(path, bit):
    """Flip a bit in place: ext4 flushes a file that is truncated to zero and rewritten."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def positions(path):
    return [(position, header) for position, header in batches(path.read_bytes())]


def test_a_healthy_directory_is_sound(data):
    report = run(data, open_records=True)
    assert report.findings == []
    assert report.is_sound
    assert report.record_count >= data_directory.BATCHES * data_directory.RECORDS_PER_BATCH
    assert len(logs(data)) >= 3


def test_an_empty_log_is_healthy(original, data):
    (path,) = logs(data, "t-1")
    shutil.rmtree(data / "t-1")
    shutil.copytree(original / "t-1", data / "t-1")
    os.truncate(path, 0)
    for name in (data / "t-1").iterdir():
        if name != path and name.name != "partition.metadata":
            name.unlink()
    checkpoint = data / "recovery-point-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("t 1 1", "t 1 0"))
    assert run(data).findings == []


def test_a_directory_is_sound_after_a_kill(data):
    (data / ".kafka_cleanshutdown").unlink()
    assert run(data).findings == []


@pytest.mark.parametrize("one", ["t-0", "t-0/00000000000000000000.log", "t-1"])
def test_a_part_of_a_directory_can_be_checked_alone(data, one):
    report = run(data / one)
    assert report.findings == []
    assert report.batch_count > 0


# Places where a flipped bit cannot be detected: base64 has two letters for the same id, and the
# cluster id and the broker epoch of the last stop are stored nowhere else.
UNTOLD = ("partition.metadata", "meta.properties", ".kafka_cleanshutdown")


def test_a_flipped_bit_is_found_in_every_file(original, data):
    """Flips a bit in every byte of one segment's log, and in some of every other file."""
    draw = random.Random(4)
    missed = []
    for path in sorted(data.rglob("*")):
        name = path.relative_to(data).as_posix()
        if not path.is_file() or path.name == ".lock" or path.name in UNTOLD:
            continue
        size = path.stat().st_size - path.name.endswith("-checkpoint")  # less its last line feed
        if not size:
            continue
        is_whole = path == logs(data)[1]
        chosen = share_of(range(size)) if is_whole else draw.choices(range(size), k=6)
        asked = path.parent if is_whole else data  # checking the partition finds damage of a log
        for byte in chosen:
            if path.suffix == ".timeindex" and byte % 12 > 7:
                continue  # it may turn into the offset that older Kafkas wrote, which is valid
            bit = byte * 8 + draw.randrange(8)
            flip(path, bit)
            if run(asked).is_sound:
                missed.append((name, bit))
            flip(path, bit)
    assert missed == []
    assert run(data).is_sound, "the bits were flipped back"


REGIONS = {
    "base offset": (0, b"\x00\x00\x00\x00\x00\x00\x7f\x00", "order"),
    "length": (8, b"\x00\x00\x00\x31", "checksum"),
    "long length": (8, b"\x7f\x00\x00\x00", "structure"),
    "negative length": (8, b"\xff\xff\xff\xff", "structure"),
    "leader epoch": (12, b"\x00\x00\x00\x63", "epoch"),
    "magic": (16, b"\x07", "structure"),
    "checksum": (17, b"\x00\x00\x00\x00", "checksum"),
    "attributes": (21, b"\x00\x77", "checksum"),
    "records": (70, b"\xff\xfe\xfd", "checksum"),
}


@pytest.mark.parametrize("region", REGIONS)
def test_damage_in_each_region_of_a_batch_is_reported_with_its_place(data, region):
    at, wrong, kind = REGIONS[region]
    path = logs(data)[1]
    position, header = positions(path)[2]
    change(path, position + at, wrong)
    report = run(data)
    (finding,) = report.findings
    assert (finding.weight, finding.kind, finding.path) == (DAMAGE, kind, str(path))
    assert finding.position == position
    assert str(header.base_offset) in finding.meaning + finding.found


def risen_epoch(data, checkpoint):
    """Make a lone partition in which the last batch of the first segment has epoch 1."""
    partition = Path(shutil.copytree(data / "t-0", data.parent / "alone" / "t-0"))
    if checkpoint:
        (partition / "leader-epoch-checkpoint").write_text(checkpoint)
    else:
        (partition / "leader-epoch-checkpoint").unlink()
    path, behind = logs(partition.parent)[:2]
    position, header = positions(path)[-1]
    change(path, position + 12, struct.pack(">i", 1))
    return partition, path, behind, (position, header.base_offset)


@pytest.mark.parametrize(
    "checkpoint",
    [
        pytest.param("0\n1\n0 0\n", id="the checkpoint may lag"),
        pytest.param("0\n1\n0 80\n", id="a deletion cut its beginning off"),
    ],
)
def test_a_raised_epoch_is_reported_for_its_own_segment(data, checkpoint):
    """It used to be reported for each later batch, in the next file."""
    partition, path, _, place = risen_epoch(data, checkpoint)
    (finding,) = run(partition).findings
    assert (finding.weight, finding.kind, finding.path) == (DAMAGE, "epoch", str(path))
    assert (finding.position, finding.offset) == place


def test_both_places_are_reported_if_either_epoch_may_be_wrong(data):
    partition, path, behind, (position, offset) = risen_epoch(data, "")
    finding = run(partition).findings[0]
    assert (finding.kind, finding.path, finding.offset) == ("epoch", str(behind), 80)
    assert f"offset {offset} ({path.name} at {position})" in finding.found


def test_batches_after_damage_are_checked_too(data):
    path = logs(data)[1]
    places = positions(path)
    change(path, places[1][0] + 8, b"\x7f\xff\xff\xff")
    change(path, places[3][0] + 65, b"\xff\xff")
    report = run(data)
    assert [finding.position for finding in report.findings] == [places[1][0], places[3][0]]
    assert report.batch_count == run(data_copy_without(data, path)).batch_count + len(places) - 2


def data_copy_without(data, path):
    """Return how many batches the other segments have."""
    copy = data.parent / "without"
    shutil.copytree(data, copy)
    (copy / path.relative_to(data)).unlink()
    return copy


def cut(size):
    return lambda path: os.truncate(path, size(path.stat().st_size))


def zeros(path):
    path.write_bytes(path.read_bytes() + bytes(100))


def zeroed_end(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))


CUTS = {
    "by a byte": cut(lambda size: size - 1),
    "in half": cut(lambda size: size // 2),
    "empty": cut(lambda size: 0),
    "zeros behind": zeros,
    "zeros at the end": zeroed_end,
}


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_cut_log_is_found(data, how, which):
    path = logs(data)[which]
    CUTS[how](path)
    report = run(data)
    assert any(finding.weight == DAMAGE for finding in report.findings)
    assert not report.is_sound


def test_a_log_cut_between_two_batches_is_found_from_other_files(data):
    for which in (1, -1):
        path = logs(data)[which]
        os.truncate(path, positions(path)[-1][0])
        report = run(data)
        assert (DAMAGE, "missing") in kinds(report)


@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "producers"])
@pytest.mark.parametrize("how", ["by a byte", "zeros behind", "zeros at the end"])
def test_a_damaged_cache_file_is_reported_as_a_cache(data, suffix, how):
    path = max((data / "t-0").glob(f"*.{suffix}"), key=os.path.getsize)
    CUTS[how](path)
    report = run(data)
    assert {finding.weight for finding in report.findings} == {CACHE}
    assert {finding.path for finding in report.findings} == {str(path)}


@pytest.mark.parametrize(("suffix", "shape"), [("index", ">ii"), ("timeindex", ">qi")])
@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("by", [-1, 1, 1 << 20])
def test_a_wrong_entry_of_an_index_is_found(data, suffix, shape, column, by):
    path = logs(data)[1].with_suffix(f".{suffix}")
    entry = list(struct.unpack_from(shape, path.read_bytes()))
    entry[column] += by
    change(path, 0, struct.pack(shape, *entry))
    report = run(data)
    assert {(finding.weight, finding.path) for finding in report.findings} == {(CACHE, str(path))}


def test_two_swapped_segments_are_found(data):
    first, second = logs(data)[1:3]
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    assert (DAMAGE, "order") in kinds(run(data))


MISSING = {
    "t-0/{1}.log": (DAMAGE, "missing"),
    "t-0/{-1}.log": (DAMAGE, "missing"),
    "t-0/{1}.index": (CACHE, "index"),
    "t-0/{1}.timeindex": (CACHE, "timeindex"),
    "t-0/00000000000000000200.snapshot": (CACHE, "snapshot"),
    "t-0/leader-epoch-checkpoint": (CACHE, "missing"),
    "t-0/partition.metadata": (CACHE, "missing"),
    "t-1": (DAMAGE, "missing"),
    "recovery-point-offset-checkpoint": (CACHE, "missing"),
    "meta.properties": (DAMAGE, "identity"),
    "__cluster_metadata-0": (DAMAGE, "metadata"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_file_is_found(data, name):
    stems = [path.stem for path in logs(data)]
    path = data / name.replace("{1}", stems[1]).replace("{-1}", stems[-1])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert MISSING[name] in kinds(run(data))


def test_damage_is_found_beside_a_broker_that_only_reads(data):
    """Its lock is shared: what is missing is not being written at this moment."""
    shutil.rmtree(data / "t-1")
    program = (
        "import sys; from storage.files.locks import take_shared;"
        "held = take_shared(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, data / ".lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdout.readline() == b"held\n"
        assert (DAMAGE, "missing") in kinds(run(data))
        reader.communicate(b"")


GARBAGE = {
    "recovery-point-offset-checkpoint": (CACHE, "checkpoint"),
    "log-start-offset-checkpoint": (CACHE, "checkpoint"),
    "t-0/leader-epoch-checkpoint": (CACHE, "checkpoint"),
    "t-0/partition.metadata": (DAMAGE, "identity"),
    "meta.properties": (DAMAGE, "identity"),
    ".kafka_cleanshutdown": (CACHE, "checkpoint"),
    "__cluster_metadata-0/quorum-state": (CACHE, "checkpoint"),
    "__cluster_metadata-0/00000000000000000005-0000000001.checkpoint": (DAMAGE, "metadata"),
    "bootstrap.checkpoint": (DAMAGE, "metadata"),
    "__cluster_metadata-0/00000000000000000000.log": (DAMAGE, "metadata"),
    "t-0/00000000000000000000.txnindex": (CACHE, "txnindex"),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_in_a_small_file_is_found(data, name):
    (data / name).write_bytes(b"garbage, not what it should be\n" * 2)
    assert GARBAGE[name] in kinds(run(data))


def test_the_directory_of_another_topic_is_found(data):
    (data / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: " + "A" * 21 + "g")
    assert (DAMAGE, "identity") in kinds(run(data))


def test_holes_are_damage_unless_the_topic_is_compacted(data):
    logs(data)[1].unlink()
    for orphan in (data / "t-0").glob("*"):
        if orphan.suffix in (".index", ".timeindex") and not orphan.with_suffix(".log").exists():
            orphan.unlink()
    assert kinds(run(data)) == {(DAMAGE, "missing")}
    assert run(data, all_compacted=True).is_sound


def produced(data, records, **changes):
    """Replace the only batch of t-1 with a changed one that has a valid checksum."""
    (path,) = logs(data, "t-1")
    made = build(records, codec=changes.pop("codec", 0), leader_epoch=0)
    for position, packed in changes.pop("at", {}).items():
        made[position : position + len(packed)] = packed
    write_crc(made, 0)
    path.write_bytes(made)
    for index in path.parent.glob("*.timeindex"):
        index.unlink()
    (data / ".kafka_cleanshutdown").unlink()
    return data / "t-1"


INSIDE = {
    "a record too few": {57: struct.pack(">i", 2)},
    "garbage": {61: b"\xff\xff\xff\xff\xff\xff"},
    "a wrong largest timestamp": {35: struct.pack(">q", 5)},
    "an unknown codec": {21: struct.pack(">h", 6)},
}


@pytest.mark.parametrize("what", INSIDE)
def test_damage_behind_a_valid_checksum_is_found_on_request(data, what):
    path = produced(data, [Record(0, 1_000, b"key", b"value" * 3)], at=INSIDE[what])
    assert run(path).is_sound
    assert (DAMAGE, "records") in kinds(run(path, open_records=True))


@pytest.mark.parametrize("was_stopped", [True, False])
def test_unknown_files_are_noted_and_healthy(data, was_stopped):
    (data / "t-0" / "notes.txt").write_text("mine")
    (data / "lost+found").mkdir()
    (data / "stray-0").mkdir()
    shutil.copy(logs(data)[0], data / "stray-0")
    (data / f"gone-0.{'a' * 32}-stray").mkdir()
    (data / f"gone-1.{'a' * 32}-delete").mkdir()
    (data / "t-0" / "00000000000000000000.log.7.1700000000000.quarantine").write_bytes(b"cut")
    if not was_stopped:
        (data / ".kafka_cleanshutdown").unlink()
    report = run(data)
    assert report.is_sound
    assert {(NOTE, "unknown"), (NOTE, "stray"), (NOTE, "quarantine")} <= kinds(report)
    strays = [finding.path for finding in report.findings if finding.kind == "stray"]
    assert [os.path.basename(path)[:6] for path in strays] == ["gone-0", "stray-"]


async def test_partitions_of_other_nodes_and_directories_are_not_missed(tmp_path):
    """Nor is their topic a stray here; one of this directory is missed."""
    rig = Rig(tmp_path / "data")
    here = rig.services.logs.directory.meta.directory_id
    places = {"other": (2, bytes(16)), "elsewhere": (1, b"d" * 16), "here": (1, here)}
    for name, (node, directory) in places.items():
        topic_id = name.encode().ljust(16)
        partition = PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=[node], directories=[directory]
        )
        topic = TopicRecord(name=name, topic_id=topic_id)
        rig.services.controller.metadata_log.append([topic, partition], NOW)
    assert await rig.close()
    missed = [one.path for one in run(tmp_path / "data").findings if one.weight == DAMAGE]
    assert missed == [str(tmp_path / "data" / "here-0")]


@pytest.mark.parametrize("name", ["nowhere", "data/meta.properties", "."])
def test_a_path_that_cannot_be_checked_is_refused(data, name):
    with pytest.raises(NotVerifiable):
        run(data.parent / name)


def test_a_file_of_garbage_is_reported_in_a_few_lines(data):
    path = logs(data)[0]
    places = positions(path)
    for position, _ in places:
        change(path, position + 70, b"\xff\xff")
    report = run(data)
    assert len(report.findings) <= 5
    assert report.as_json()["sound"] is False


async def compacted(path):
    """Make a topic that was compacted under two leader epochs and kept few offsets."""
    for life in range(2):
        rig = Rig(path)
        if not life:
            configs = {"cleanup.policy": "compact", "internal.segment.bytes": "900"}
            topic = NewTopic(name="c", partition_count=1, configs=configs)
            await rig.services.topics.create([topic])
        log = rig.services.partitions.get("c", 0).log
        fill(log, 60, start=60 * life, pid=7 + life)
        settle_log(log)
        rig.services.logs.write_checkpoints()  # compaction stays below what the file says
        drive(compact(log, find_cleanable(log, NOW), limits(), NOW))
        if life:
            await rig.close()
            assert len(records_of_log(log)) < 20
        else:
            rig.services.logs.abandon()


def settle_log(log):
    for begin, finish in (
        (log.begin_flush, log.finish_flush),
        (log.begin_checkpoint, log.finish_checkpoint),
    ):
        job = begin()
        job.run()
        finish(job, None)


def records_of_log(log):
    return [header for segment in log.segments for _, header in segment.log_file.scan()]


async def test_a_compacted_log_is_sound_with_its_holes_and_epochs(tmp_path):
    await compacted(tmp_path / "data")
    assert kinds(run(tmp_path / "data")) == set()
    path = logs(tmp_path / "data", "c-0")[-2]
    change(path, 70, b"\xff\xff")
    assert (DAMAGE, "checksum") in kinds(run(tmp_path / "data"))


async def test_a_running_compaction_is_noted(tmp_path):
    await compacted(tmp_path / "data")
    path = logs(tmp_path / "data", "c-0")[-2]
    path.rename(f"{path}.swap")
    assert (NOTE, "compaction") in kinds(run(tmp_path / "data"))
