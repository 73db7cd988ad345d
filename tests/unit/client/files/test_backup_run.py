"""Backups and restores of a stopped directory: what is shared, what is refused, what is left."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client.files import backup_copy, backup_pins, backup_run
from client.files.backup_cut import Cut, NotBackedUp
from client.files.backup_run import back_up, restore
from tests.support import data_directory

HOUR_NS = 3_600_000_000_000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_directory.make(tmp_path_factory.mktemp("original") / "data")


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    made = Path(shutil.copytree(original, tmp_path / "data"))
    for path in made.rglob("*"):
        os.utime(path, ns=(HOUR_NS, HOUR_NS))
    return made


def tree(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that is in a directory: inode, time and content of each file."""
    return {
        str(one.relative_to(path)): (
            one.lstat().st_ino,
            one.lstat().st_mtime_ns if one.is_file() else 0,
            one.read_bytes() if one.is_file() else b"",
        )
        for one in sorted(path.rglob("*"))
    }


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes()
        for one in sorted(path.rglob("*"))
        if one.is_file() and one.name != ".lock"
    }


def test_a_backup_and_its_restore_are_what_was_stopped(data: Path, tmp_path: Path) -> None:
    done = back_up(str(data), str(tmp_path / "backups"))
    assert contents(Path(done.path)) == contents(data)
    assert done.report is not None
    restore(str(tmp_path / "backups"), str(tmp_path / "new" / "data"))
    assert contents(tmp_path / "new" / "data") == contents(data)


def test_the_next_backup_links_what_did_not_change(data: Path, tmp_path: Path) -> None:
    first = Path(back_up(str(data), str(tmp_path / "b")).path)
    log = next(data.glob("t-0/*.log"))
    changed = log.read_bytes()[::-1]
    before = contents(first)
    log.write_bytes(changed)  # the same size, another time
    second = back_up(str(data), str(tmp_path / "b"), check=False)
    copied = Path(second.path) / log.relative_to(data)
    assert copied.read_bytes() == changed
    assert contents(first) == before
    assert second.counts.linked_files > second.counts.copied_files
    shutil.rmtree(first)
    assert copied.read_bytes() == changed
    assert contents(Path(second.path)) == contents(data)


def test_a_restored_broker_writes_to_no_file_of_a_backup(data: Path, tmp_path: Path) -> None:
    made = Path(back_up(str(data), str(tmp_path / "b")).path)
    restore(str(made), str(tmp_path / "r"))
    shared = {path.stat().st_ino for path in made.rglob("*")}
    assert not shared & {path.stat().st_ino for path in (tmp_path / "r").rglob("*")}


def test_a_file_written_at_the_time_of_a_backup_is_copied_again(data: Path, tmp_path: Path) -> None:
    log = next(data.glob("t-0/*.log"))
    os.utime(log)
    back_up(str(data), str(tmp_path / "b"))
    second = Path(back_up(str(data), str(tmp_path / "b")).path)
    assert (second / log.relative_to(data)).stat().st_nlink == 1


def test_a_topic_of_the_same_name_is_not_taken_for_the_old_one(data: Path, tmp_path: Path) -> None:
    back_up(str(data), str(tmp_path / "b"))
    metadata = data / "t-0" / "partition.metadata"
    metadata.write_bytes(metadata.read_bytes()[:-4] + b"AAAA")
    second = Path(back_up(str(data), str(tmp_path / "b"), check=False).path)
    assert next(second.glob("t-0/*.log")).stat().st_nlink == 1


def test_a_rotten_file_of_an_earlier_backup_is_not_linked(data: Path, tmp_path: Path) -> None:
    first = Path(back_up(str(data), str(tmp_path / "b")).path)
    log = min(first.glob("t-0/*.log"))
    times = log.stat()
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    with log.open("r+b") as file:
        file.write(content)
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = back_up(str(data), str(tmp_path / "b"))
    assert contents(Path(second.path)) == contents(data)
    assert second.counts.linked_files == 0


def test_without_hard_links_everything_is_copied(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    back_up(str(data), str(tmp_path / "b"))
    monkeypatch.setattr(os, "link", refuse)
    second = back_up(str(data), str(tmp_path / "b"))
    assert contents(Path(second.path)) == contents(data)
    assert second.counts.linked_files == 0


def test_a_broker_that_is_started_meanwhile_is_noticed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mark = backup_copy.BackupCopy.run, data / ".kafka_cleanshutdown"

    def started(self: backup_copy.BackupCopy, cut: Cut) -> None:
        run(self, cut)
        mark.unlink(missing_ok=True)

    monkeypatch.setattr(backup_copy.BackupCopy, "run", started)
    done = back_up(str(data), str(tmp_path / "b"))
    assert done.passes == 2
    assert not (Path(done.path) / ".kafka_cleanshutdown").exists()


def test_old_backups_are_removed(data: Path, tmp_path: Path) -> None:
    paths = [Path(back_up(str(data), str(tmp_path / "b"), check=False).path) for _ in range(3)]
    done = back_up(str(data), str(tmp_path / "b"), keep=2, check=False)
    assert done.removed == (paths[0].name, paths[1].name)
    assert [path.exists() for path in paths] == [False, False, True]


def test_a_clock_that_was_set_back_costs_no_backup(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Path(back_up(str(data), str(tmp_path / "b")).path)
    monkeypatch.setattr(backup_run.SystemClock, "now_ms", lambda _: 1_000_000_000_000)
    second = back_up(str(data), str(tmp_path / "b"), keep=1)
    assert second.removed == (first.name,)
    assert Path(second.path).name > first.name
    assert second.counts.linked_files == 0
    assert contents(Path(second.path)) == contents(data)


def test_a_broker_that_ran_between_two_looks_is_noticed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mark = backup_copy.BackupCopy.run, data / ".kafka_cleanshutdown"
    content = mark.read_bytes()

    def ran(self: backup_copy.BackupCopy, cut: Cut) -> None:
        run(self, cut)
        if mark.stat().st_mtime_ns == HOUR_NS:
            mark.unlink()
            mark.write_bytes(content)

    monkeypatch.setattr(backup_copy.BackupCopy, "run", ran)
    assert back_up(str(data), str(tmp_path / "b")).passes == 2


def test_a_topic_that_was_created_anew_is_no_part_of_the_cut(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    run, metadata = backup_copy.BackupCopy.run, data / "t-0" / "partition.metadata"

    def recreated(self: backup_copy.BackupCopy, cut: Cut) -> None:
        if metadata.stat().st_mtime_ns == HOUR_NS:  # the same inode, size and name
            metadata.write_bytes(metadata.read_bytes())
        run(self, cut)

    monkeypatch.setattr(backup_copy.BackupCopy, "run", recreated)
    assert back_up(str(data), str(tmp_path / "b")).passes == 2


@pytest.mark.parametrize(("pins_count", "passes"), [(0, 2), (1_000, 1)])
def test_epochs_that_retention_cut_after_the_segments_were_copied_are_no_part_of_the_cut(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pins_count: int, passes: int
) -> None:
    """Without a descriptor to hold it, the file is another one, and a new cut is needed."""
    (data / ".kafka_cleanshutdown").unlink()
    opened, epochs = backup_pins.Pins.opened, data / "t-0" / "leader-epoch-checkpoint"
    content = epochs.read_bytes()

    def trimmed(self: backup_pins.Pins, source: str) -> Any:
        if source.endswith("t-0/leader-epoch-checkpoint") and epochs.read_bytes() == content:
            (epochs.parent / "new").write_bytes(b"0\n1\n0 2\n")
            os.replace(epochs.parent / "new", epochs)
        return opened(self, source)

    monkeypatch.setattr(backup_pins, "pins_max", lambda: pins_count)
    monkeypatch.setattr(backup_pins.Pins, "opened", trimmed)
    done = back_up(str(data), str(tmp_path / "b"), check=False)
    assert done.passes == passes
    copied = (Path(done.path) / "t-0" / "leader-epoch-checkpoint").read_bytes()
    assert copied == (content if pins_count else b"0\n1\n0 2\n")


@pytest.mark.parametrize("pins_count", [0, 3, 1_000])
def test_what_retention_deletes_while_it_is_copied_is_in_the_backup(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pins_count: int
) -> None:
    """Each file of t-0 is deleted when the copy comes to it, as the busiest broker could."""
    (data / ".kafka_cleanshutdown").unlink()
    held = {one.name: one.read_bytes() for one in (data / "t-0").iterdir()}
    opened, descriptors = backup_pins.Pins.opened, len(os.listdir("/proc/self/fd"))

    def deleting(self: backup_pins.Pins, source: str) -> Any:
        if "/t-0/" in source:
            Path(source).unlink(missing_ok=True)
        return opened(self, source)

    monkeypatch.setattr(backup_pins, "pins_max", lambda: pins_count)
    monkeypatch.setattr(backup_pins.Pins, "opened", deleting)
    done = back_up(str(data), str(tmp_path / "b"), check=False)
    copied = {one.name: one.read_bytes() for one in (Path(done.path) / "t-0").iterdir()}
    if pins_count == 1_000:
        assert done.passes == 1
        assert copied == {name: held[name] for name in copied}
        assert any(name.endswith(".log") for name in copied)
    else:
        assert done.passes > 1
    assert len(os.listdir("/proc/self/fd")) == descriptors


Refusal = Callable[[Path, Path], tuple[str, str]]
REFUSALS: dict[str, tuple[Refusal, str]] = {
    "itself": (lambda data, _: (str(data), str(data)), "inside one another"),
    "inside it": (lambda data, _: (str(data), str(data / "b")), "inside one another"),
    "around it": (lambda data, _: (str(data), str(data.parent)), "inside one another"),
    "by a link": (lambda data, tmp: (str(data), str(linked(tmp / "link", data))), "inside one"),
    "in another data directory": (
        lambda data, tmp: (str(data), str(another(tmp / "other") / "b")),
        "is inside .*other, which has",
    ),
    "no directory": (lambda data, tmp: (str(data), str(file(tmp / "file"))), "not a directory"),
    "something else": (lambda data, tmp: (str(data), str(file(tmp / "x" / "y").parent)), "no back"),
    "no data": (lambda _, tmp: (str(tmp / "nothing"), str(tmp / "b")), "no meta.properties"),
}


def another(path: Path) -> Path:
    path.mkdir()
    (path / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    return path


def linked(path: Path, to: Path) -> Path:
    path.symlink_to(to)
    return path


def file(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    return path


@pytest.mark.parametrize("case", REFUSALS)
def test_a_backup_that_must_not_be_is_refused(data: Path, tmp_path: Path, case: str) -> None:
    make, reason = REFUSALS[case]
    source, to = make(data, tmp_path)
    before = tree(tmp_path)
    with pytest.raises(NotBackedUp, match=reason):
        back_up(source, to)
    assert tree(tmp_path) == before


def test_backups_of_another_directory_are_refused(data: Path, tmp_path: Path) -> None:
    back_up(str(data), str(tmp_path / "b"))
    other = Path(shutil.copytree(data, tmp_path / "other"))
    meta = other / "meta.properties"
    meta.write_text(meta.read_text().replace("cluster.id=", "cluster.id=other"))
    before = tree(tmp_path / "b")
    with pytest.raises(NotBackedUp, match="of another data directory"):
        back_up(str(other), str(tmp_path / "b"))
    assert tree(tmp_path / "b") == before


def test_a_full_disk_leaves_the_backups_as_they_were(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(str(data), str(tmp_path / "b"))
    before = tree(tmp_path / "b")
    os.utime(next(data.glob("t-0/*.log")))
    copied = backup_copy._copied

    def full(source: int, target: int, size: int) -> int:
        copied(source, target, size // 2)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(backup_copy, "_copied", full)
    with pytest.raises(OSError, match="No space left"):
        back_up(str(data), str(tmp_path / "b"))
    assert tree(tmp_path / "b") == before
    with pytest.raises(OSError, match="No space left"):
        back_up(str(data), str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(OSError, match="No space left"):
        restore(str(tmp_path / "b"), str(tmp_path / "r"))
    assert not (tmp_path / "r").exists()


def test_a_disk_without_room_is_refused_before_anything_is_copied(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(str(data), str(tmp_path / "b"))
    found = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*found[:3], 0, 0, *found[5:])))
    monkeypatch.setattr(backup_copy, "copy_file", None)
    monkeypatch.setattr(backup_run, "copy_file", None)
    with pytest.raises(NotBackedUp, match="0 bytes free"):
        back_up(str(data), str(tmp_path / "b"))
    with pytest.raises(NotBackedUp, match="0 bytes free"):
        restore(str(tmp_path / "b"), str(tmp_path / "r"))
    assert not (tmp_path / "r").exists()


def test_a_crash_in_the_middle_leaves_the_earlier_backups(data: Path, tmp_path: Path) -> None:
    first = Path(back_up(str(data), str(tmp_path / "b")).path)
    before = contents(first)
    half = tmp_path / "b" / ".unfinished" / "t-0"
    half.mkdir(parents=True)
    (half / "00000000000000000000.log").write_bytes(b"half")
    restore(str(tmp_path / "b"), str(tmp_path / "r"))
    assert contents(tmp_path / "r") == before
    back_up(str(data), str(tmp_path / "b"))
    assert not (tmp_path / "b" / ".unfinished").exists()
    assert contents(first) == before


def test_two_backups_at_a_time_are_refused(data: Path, tmp_path: Path) -> None:
    from client.files.backup_place import BackupPlace

    place = BackupPlace(str(tmp_path / "b"), str(data))
    with place.held(), pytest.raises(NotBackedUp, match="another backup to"):
        back_up(str(data), str(tmp_path / "b"))


def test_a_damaged_directory_gives_no_backup(data: Path, tmp_path: Path) -> None:
    log = next(data.glob("t-0/*.log"))
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    with pytest.raises(NotBackedUp, match=r"not sound.*barnabas verify"):
        back_up(str(data), str(tmp_path / "b"))
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("what", ["data", "a file", "inside", "in other data"])
def test_a_restore_onto_something_is_refused(data: Path, tmp_path: Path, what: str) -> None:
    back_up(str(data), str(tmp_path / "b"))
    to = {
        "data": data,
        "a file": file(tmp_path / "f"),
        "inside": tmp_path / "b" / "r",
        "in other data": another(tmp_path / "other") / "r",
    }[what]
    before = tree(tmp_path)
    with pytest.raises(NotBackedUp, match=r"not empty|inside"):
        restore(str(tmp_path / "b"), str(to))
    assert tree(tmp_path) == before


def test_a_restore_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "missing"):
        with pytest.raises(NotBackedUp, match="no backups"):
            restore(str(path), str(tmp_path / "r"))


def test_a_volume_of_its_own_is_empty(data: Path, tmp_path: Path) -> None:
    for name in ("b", "r"):
        (tmp_path / name / "lost+found").mkdir(parents=True)
    back_up(str(data), str(tmp_path / "b"))
    restore(str(tmp_path / "b"), str(tmp_path / "r"))
    assert (tmp_path / "r" / "lost+found").is_dir()
    assert contents(tmp_path / "r") == contents(data)


def test_a_failed_restore_leaves_what_was_there(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(str(data), str(tmp_path / "b"))
    (tmp_path / "r" / "lost+found").mkdir(parents=True)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(backup_copy, "_copied", full)
    with pytest.raises(OSError, match="No space left"):
        restore(str(tmp_path / "b"), str(tmp_path / "r"))
    assert [one.name for one in (tmp_path / "r").iterdir()] == ["lost+found"]


def test_a_broker_and_another_restore_are_kept_out_of_a_restore(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(str(data), str(tmp_path / "b"))
    copy_all = backup_run._copy_all
    refused = []

    def meanwhile(*arguments: Any) -> None:
        try:
            restore(str(tmp_path / "b"), str(tmp_path / "r"))
        except NotBackedUp as error:
            refused.append(str(error))
        copy_all(*arguments)

    monkeypatch.setattr(backup_run, "_copy_all", meanwhile)
    restore(str(tmp_path / "b"), str(tmp_path / "r"))
    assert len(refused) == 1
    assert contents(tmp_path / "r") == contents(data)
