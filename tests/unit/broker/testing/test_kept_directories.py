"""KeptDirectories are put in place whole, by the copy that is ready or without one."""

import os
from pathlib import Path

import pytest

from broker.testing import kept_directories as module
from broker.testing.command_refused import CommandRefused
from broker.testing.kept_directories import KeptDirectories
from broker.testing.removal_queue import WAITING_MAX, RemovalQueue

FILES = {"a": b"1" * 10, "t-0/00.log": b"2" * 3_000_000, "t-0/empty": b""}


def lay(directory: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)


def found(directory: Path) -> dict[str, bytes]:
    paths = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def prepared(tmp_path: Path) -> tuple[KeptDirectories, RemovalQueue]:
    removals = RemovalQueue(str(tmp_path / "removed"))
    snapshots = KeptDirectories(str(tmp_path / "snapshots"), removals)
    lay(Path(snapshots.new_place("one")), FILES)
    lay(Path(snapshots.new_place("two")), {"b": b"two"})
    lay(tmp_path / "data", {"changed": b"x"})
    return snapshots, removals


@pytest.mark.parametrize("steps", [0, 1, 3, 100])
def test_a_snapshot_is_put_in_place_however_far_its_copy_is(tmp_path: Path, steps: int) -> None:
    snapshots, removals = prepared(tmp_path)
    snapshots.prepare("one")
    for _ in range(steps):
        snapshots.step()
    data = tmp_path / "data"
    snapshots.put("one", str(data))
    assert found(data) == FILES
    (data / "a").write_bytes(b"written by a broker")
    snapshots.put("one", str(data))
    assert found(data) == FILES
    snapshots.put("two", str(data))
    assert found(data) == {"b": b"two"}
    while snapshots.step() or removals.step():
        pass
    assert not any((tmp_path / "removed").iterdir())


def test_a_copy_that_is_too_large_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPARE_BYTES_MAX", 2_000_000)
    snapshots, _ = prepared(tmp_path)
    snapshots.prepare("one")
    while snapshots.step():
        pass
    assert not (tmp_path / "snapshots-spare").exists()
    snapshots.put("one", str(tmp_path / "data"))
    assert found(tmp_path / "data") == FILES


def test_a_directory_that_cannot_be_renamed_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a mount is, or a directory in one of others."""
    snapshots, removals = prepared(tmp_path)

    def refuse(_path: str) -> None:
        raise OSError

    monkeypatch.setattr(removals, "take", refuse)
    data = tmp_path / "data"
    before = data.stat().st_ino
    for _ in range(2):
        snapshots.put("one", str(data))
        assert found(data) == FILES
        assert data.stat().st_ino == before


def test_names_are_checked(tmp_path: Path) -> None:
    snapshots, _ = prepared(tmp_path)
    snapshots.check("one")
    with pytest.raises(CommandRefused, match="Did you mean two"):
        snapshots.check("twoo")
    with pytest.raises(CommandRefused, match="already"):
        snapshots.new_place("one")
    with pytest.raises(CommandRefused, match="expected letters"):
        snapshots.new_place("../one")
    snapshots.drop("one")
    with pytest.raises(CommandRefused, match="there are two"):
        snapshots.check("one")


def test_few_directories_wait_for_their_removal(tmp_path: Path) -> None:
    removals = RemovalQueue(str(tmp_path / "removed"))
    for number in range(WAITING_MAX + 2):
        lay(tmp_path / str(number), FILES)
        removals.take(str(tmp_path / str(number)))
        assert not (tmp_path / str(number)).exists()
    assert len(os.listdir(tmp_path / "removed")) == WAITING_MAX
    while removals.step():
        pass
    assert os.listdir(tmp_path / "removed") == []
