"""The judge of files objects to damage, to a second start that changes something, and to words."""

import asyncio
import dataclasses

import pytest

from broker.lifecycle.environment import system_environment
from broker.server import Broker
from storage.files.text_files import encode_leader_epochs
from tests.simulation.judges import files
from tests.simulation.judges.quiet import Quiet, listening
from tests.support import data_directory
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.whole_broker import loaded, served

DATA = "/data"
LOG = "t-0/00000000000000000000.log"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return data_directory.make(tmp_path_factory.mktemp("files") / "data")


@pytest.fixture
def disk(made):
    """A data directory that was stopped cleanly, on a disk in memory."""
    filesystem = MemoryFileSystem()
    filesystem.mkdir(DATA)
    for path in sorted(made.rglob("*")):
        target = f"{DATA}/{path.relative_to(made)}"
        if path.is_dir():
            filesystem.mkdir(target)
        else:
            filesystem.open(target, create=True).pwrite(path.read_bytes(), 0)
    return filesystem


def start_and_stop(disk):
    """Run a broker on the disk; return what it said."""

    async def live():
        settings = loaded(DATA, "log.initial.task.delay.ms=60000")
        broker = Broker(settings, dataclasses.replace(system_environment(), filesystem=disk))
        task = await served(broker)
        broker._signals.stop.set()
        assert await task == 0

    with listening(Quiet()) as quiet:
        asyncio.run(live())
    disk.kill()
    return quiet.messages


def test_a_second_start_changes_nothing(disk):
    start_and_stop(disk)
    before = files.look(disk, DATA)
    assert LOG in before.logs
    assert len(before.meanings) >= 3
    messages = start_and_stop(disk)
    assert any("listening on" in one for one in messages)
    assert files.silent(messages) == []
    assert files.same(before, files.look(disk, DATA)) == []
    assert files.verified(disk, DATA) == []


def test_damage_is_found_and_may_be_excused(disk):
    disk.edit(f"{DATA}/{LOG}", 70, b"\x07\x07")
    (found,) = files.verified(disk, DATA)
    assert found.startswith(f"verify: damage of {DATA}/{LOG} at 0: ")
    assert files.verified(disk, DATA, {"t-1", ""}) == [found]
    assert files.verified(disk, DATA, {"t-0"}) == []
    disk.edit(f"{DATA}/meta.properties", 0, b"nothing")
    (found,) = files.verified(disk, DATA, {"t-0"})
    assert "meta.properties" in found
    assert files.verified(disk, DATA, {"t-0", ""}) == []


def test_an_index_that_was_removed_may_be_missing(disk):
    disk.unlink(f"{DATA}/{LOG.removesuffix('log')}index")
    (found,) = files.verified(disk, DATA)
    assert "the file is missing (index)" in found
    assert files.verified(disk, DATA, has_lost_indexes=True) == []
    disk.edit(f"{DATA}/{LOG}", 70, b"\x07\x07")
    assert len(files.verified(disk, DATA, has_lost_indexes=True)) == 1


def test_retention_by_size_leaves_its_bytes():
    disk = MemoryFileSystem()
    for path, size in (("a-0/5", 40), ("a-0/7", 50), ("a-1/5", 80), ("b-0/0", 3)):
        directory, base = path.split("/")
        if not disk.exists(f"/{directory}"):
            disk.mkdir(f"/{directory}")
        disk.replace(f"/{directory}/{int(base):020d}.log", bytes(size))
    least = {"a-0": 90, "a-1": 81, "b-0": 9, "c-0": 9}
    assert files.kept(disk, "/", least) == ["a-1 has lost segments, and 80 bytes are left of 81"]


def test_much_damage_is_counted():
    assert files._listed([str(number) for number in range(20)]) == [
        *(str(number) for number in range(8)),
        "and 12 more of this kind",
    ]


@pytest.mark.parametrize(
    ("path", "position", "data"),
    [
        (LOG, 300, b"\xff\x00\xff"),
        ("t-1/00000000000000000000.log", 1 << 16, b"x"),
        ("t-0/leader-epoch-checkpoint", 0, b"0\n1\n7 0\n"),
        ("recovery-point-offset-checkpoint", 0, b"0\n1\nt 0 1\n"),
        ("__cluster_metadata-0/00000000000000000000.log", 100, b"\xff\x00\xff"),
    ],
)
def test_a_change_is_an_objection(disk, path, position, data):
    before = files.look(disk, DATA)
    if path.startswith("recovery"):
        disk.replace(f"{DATA}/{path}", data)
    else:
        disk.edit(f"{DATA}/{path}", position, data)
    after = files.look(disk, DATA)
    (found,) = files.same(before, after)
    assert found.startswith(f"the second start changed {path}")
    directory = path.rpartition("/")[0]
    if directory != "__cluster_metadata-0":
        assert files.same(before, after, {directory}) == []
    assert len(files.same(before, after, {"t-9"})) == 1
    if path.startswith("recovery"):
        assert files.same(before, after, {"t-0", "t-1"}) == []


def test_an_epoch_without_records_says_nothing(disk):
    path = f"{DATA}/t-0/leader-epoch-checkpoint"
    end = files.look(disk, DATA).meanings["recovery-point-offset-checkpoint"]["t", 0]
    texts = [b"0\n1\n0 0\n", b"0\n2\n0 0\n1 %d\n" % end, b"0\n2\n0 0\n1 %d\n" % (end - 1)]
    looks = []
    for text in texts:
        disk.replace(path, text)
        looks.append(files.look(disk, DATA))
    assert files.same(looks[0], looks[1]) == []
    assert len(files.same(looks[0], looks[2])) == 1


def test_the_metadata_log_may_grow(disk):
    before = files.look(disk, DATA)
    path = f"{DATA}/__cluster_metadata-0/00000000000000000000.log"
    disk.edit(path, disk.size(path), b"more")
    assert files.same(before, files.look(disk, DATA)) == []


def test_a_file_that_comes_or_goes(disk):
    before = files.look(disk, DATA)
    disk.unlink(f"{DATA}/{LOG}")
    disk.open(f"{DATA}/t-1/00000000000000000099.log", create=True)
    assert files.same(before, files.look(disk, DATA)) == [
        f"the second start removed {LOG}",
        "the second start made t-1/00000000000000000099.log",
        "the second start changed t-0/leader-epoch-checkpoint from [(0, 0)] to [(0, 80)]",
    ]


def test_the_first_epoch_begins_with_the_first_batch(disk):
    disk.unlink(f"{DATA}/{LOG}")  # as compaction leaves a log
    before = files.look(disk, DATA)
    disk.replace(f"{DATA}/t-0/leader-epoch-checkpoint", encode_leader_epochs([(0, 80)]))
    assert files.same(before, files.look(disk, DATA)) == []
    disk.replace(f"{DATA}/t-0/leader-epoch-checkpoint", encode_leader_epochs([(0, 81)]))
    assert len(files.same(before, files.look(disk, DATA))) == 1


def test_words_of_recovery(disk):
    start_and_stop(disk)
    disk.unlink(f"{DATA}/.kafka_cleanshutdown")
    messages = start_and_stop(disk)
    assert len(files.silent(messages)) >= 1


def test_what_a_killed_deletion_has_left_is_put_aside_once(disk):
    disk.mkdir(f"{DATA}/gone-0")
    disk.mkdir(f"{DATA}/gone-1")
    disk.replace(f"{DATA}/gone-1/{0:020}.log", b"record")
    found = files.silent(start_and_stop(disk))
    assert [f"gone-{number}" in one for number, one in enumerate(found)] == [True, True]
    assert files.silent(start_and_stop(disk)) == []
    assert files.verified(disk, DATA) == []


def test_what_an_operator_has_left_is_told_at_each_start(disk):
    disk.replace(f"{DATA}/notes.txt", b"x")
    told = [line for _ in range(2) for line in start_and_stop(disk) if "notes.txt" in line]
    assert len(told) == 2
    assert files.silent(told) == []


def test_saving_writes_every_file(disk, made, tmp_path):
    files.save(disk, DATA, tmp_path)
    names = sorted(str(one.relative_to(made)) for one in made.rglob("*") if one.is_file())
    for name in names:
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()


@pytest.mark.skipif(not files.has_oracle(), reason="Kafka's jars are not at hand")
def test_kafkas_tool_complains_of_damage(disk, tmp_path):
    assert files.dumped(disk, DATA, tmp_path / "sound") == []
    disk.edit(f"{DATA}/{LOG}", 70, b"\x07\x07")
    assert files.dumped(disk, DATA, tmp_path / "excused", {"t-0"}) == []
    assert files.dumped(disk, DATA, tmp_path / "damaged") != []


def test_kafkas_tool_reads_one_history_in_a_thousand(monkeypatch):
    monkeypatch.setenv("BARNABAS_ORACLE_LIBS", "/jars")
    dumped = [seed for seed in map(str, range(20_000)) if files.must_dump(seed)]
    assert 10 <= len(dumped) <= 30
    monkeypatch.delenv("BARNABAS_ORACLE_LIBS")
    assert not any(map(files.must_dump, dumped))
