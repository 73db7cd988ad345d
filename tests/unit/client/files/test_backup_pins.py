"""Pins: files keep their content when their names go, up to what a process may open."""

import errno
import os
from pathlib import Path

import pytest

from client.files import backup_pins
from client.files.backup_pins import PINS_MAX, Pins, pins_max


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_held_file_outlives_its_name(tmp_path: Path) -> None:
    path, before = tmp_path / "a", descriptors()
    path.write_bytes(b"first")
    with Pins() as pins:
        assert pins.hold(str(path))
        path.unlink()
        path.write_bytes(b"second")
        for content in (b"first", b"second"):  # held once
            with pins.opened(str(path)) as fd:
                assert os.pread(fd, 10, 0) == content
    assert descriptors() == before


def test_files_that_were_not_taken_are_closed(tmp_path: Path) -> None:
    before = descriptors()
    with Pins() as pins:
        for name in "abc":
            (tmp_path / name).touch()
            assert pins.hold(str(tmp_path / name))
        assert descriptors() == before + 3
    assert descriptors() == before


def test_beyond_the_limit_nothing_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_pins, "pins_max", lambda: 1)
    (tmp_path / "a").touch()
    with Pins() as pins:
        assert pins.hold(str(tmp_path / "a"))
        assert not pins.hold(str(tmp_path / "b"))


def test_where_the_system_has_no_more_some_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    before, opened = descriptors(), os.open

    def refuse(*_: object) -> int:
        raise OSError(errno.ENFILE, "Too many open files in system")

    with Pins() as pins:
        assert pins.hold(str(tmp_path / "a"))
        monkeypatch.setattr(os, "open", refuse)
        assert not pins.hold(str(tmp_path / "a"))
        monkeypatch.setattr(os, "open", opened)
        assert descriptors() == before
        assert not pins.hold(str(tmp_path / "a"))


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with Pins() as pins, pytest.raises(FileNotFoundError):
        pins.hold(str(tmp_path / "a"))


def test_the_limit_is_bounded() -> None:
    assert 0 < pins_max() <= PINS_MAX
