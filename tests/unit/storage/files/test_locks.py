"""Locks on one file, of writers and readers, in this process and in another."""

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


def test_readers_hold_it_together_and_keep_writers_away(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with other_process(path, "LOCK_SH") as reader:
        locks.take_shared(str(path)).close()
        with pytest.raises(DirectoryLocked):
            locks.take(str(path), MODE)
        reader.communicate(b"")
    locks.take(str(path), MODE).close()


def test_within_a_process_one_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = locks.take(path, MODE)
    for take in (lambda: locks.take(path, MODE), lambda: locks.take_shared(path)):
        with pytest.raises(DirectoryLocked):
            take()
    held.close()
    held.close()
    locks.take_shared(path).close()


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    locks.take_shared(str(tmp_path / ".lock")).close()
    assert list(tmp_path.iterdir()) == []


def test_a_holder_is_named_and_nothing_is_taken(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    assert locks.lock_holder(str(path)) is None, "no file"
    with other_process(path, "LOCK_EX") as writer:
        assert locks.lock_holder(str(path)) == writer.pid
        writer.communicate(b"")
    assert locks.lock_holder(str(path)) is None, "nobody holds it"


def test_readers_are_not_named_as_the_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with other_process(path, "LOCK_SH") as reader:
        assert locks.lock_holder(str(path)) is None
        with pytest.raises(DirectoryLocked) as caught:
            locks.take(str(path), MODE)
        reader.communicate(b"")
    assert caught.value.holder_pid == reader.pid
