"""Locks of writers and readers on one file, in this process and in another."""

import subprocess
import sys
from pathlib import Path

import pytest

from storage.errors import DirectoryLocked
from storage.files import locks

MODE = 0o640
HOLD = (
    "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT);"
    "fcntl.lockf(fd, {}); print('held', flush=True); sys.stdin.read()"
)


def other_process(path: Path, kind: str) -> "subprocess.Popen[bytes]":
    """A process that holds a lock of that kind until its input ends."""
    program = HOLD.format(f"fcntl.{kind}")
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_a_reader_is_refused_while_a_writer_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with other_process(path, "LOCK_EX") as writer:
        with pytest.raises(DirectoryLocked) as caught:
            locks.take_shared(str(path))
        writer.communicate(b"")
    assert caught.value.holder_pid == writer.pid
    locks.take_shared(str(path)).close()


def test_readers_share_the_lock_and_exclude_writers(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with other_process(path, "LOCK_SH") as reader:
        locks.take_shared(str(path)).close()
        with pytest.raises(DirectoryLocked):
            locks.take(str(path), MODE)
        reader.communicate(b"")
    locks.take(str(path), MODE).close()


def test_within_a_process_the_lock_is_exclusive(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = locks.take(path, MODE)
    for take in (lambda: locks.take(path, MODE), lambda: locks.take_shared(path)):
        with pytest.raises(DirectoryLocked):
            take()
    held.close()
    held.close()
    locks.take_shared(path).close()


def test_a_reader_creates_no_file(tmp_path: Path) -> None:
    locks.take_shared(str(tmp_path / ".lock")).close()
    assert list(tmp_path.iterdir()) == []


def test_naming_the_holder_takes_no_lock(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert locks.lock_holder(str(path)) is None, "no file"
    with other_process(path, "LOCK_EX") as writer:
        assert locks.lock_holder(str(path)) == writer.pid
        writer.communicate(b"")
    assert locks.lock_holder(str(path)) is None, "the lock is free"


def test_readers_are_not_named_as_the_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with other_process(path, "LOCK_SH") as reader:
        assert locks.lock_holder(str(path)) is None
        with pytest.raises(DirectoryLocked) as caught:
            locks.take(str(path), MODE)
        reader.communicate(b"")
    assert caught.value.holder_pid == reader.pid
