"""The log file: where lines go before and after it is opened again, and what it refuses."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.runtime import log_lines
from broker.runtime.line_file import LineFile

logger = logging.getLogger("barnabas.line_file")


@pytest.fixture(autouse=True)
def _restored_logger() -> Iterator[None]:
    root = logging.getLogger("barnabas")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.propagate = before[0], before[2]
    root.setLevel(before[1])


def lines_to(path: Path) -> LineFile:
    lines = LineFile(str(path), str(path.parent / "data"))
    log_lines.configure("text", "INFO", lines)
    return lines


def test_no_line_is_lost_when_the_file_is_rotated(tmp_path: Path) -> None:
    path, rotated = tmp_path / "broker.log", tmp_path / "broker.log.1"
    lines = lines_to(path)
    logger.info("first")
    path.rename(rotated)
    logger.info("second")
    lines.reopen()
    logger.info("third")
    assert [one.split()[-1] for one in rotated.read_text().splitlines()] == ["first", "second"]
    assert path.read_text().endswith(" third\n")


def test_a_truncated_copy_continues_at_its_start(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    lines_to(path)
    logger.info("first")
    os.truncate(path, 0)
    logger.info("second")
    assert path.read_bytes().startswith(b"2")
    assert path.read_text().count("\n") == 1


def test_a_file_that_cannot_be_opened_again_stays_in_use(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    lines = lines_to(folder / "broker.log")
    folder.rename(tmp_path / "moved")
    with pytest.raises(OSError, match="cannot be opened: No such file"):
        lines.reopen()
    logger.info("here")
    assert "here" in (tmp_path / "moved" / "broker.log").read_text()


def test_a_line_that_the_disk_refuses_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_to(tmp_path / "broker.log")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, lines._descriptor)
    os.close(full)
    logger.info("the disk is full")
    assert "the disk is full" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["data/broker.log", "data/../data/topic-0/broker.log", "link/x"])
def test_a_file_in_the_data_directory_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "data" / "topic-0").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    with pytest.raises(OSError, match="inside the data directory"):
        LineFile(str(tmp_path / place), str(tmp_path / "data"))
    assert not list((tmp_path / "data").glob("*.log"))


def test_a_pipe_and_a_directory_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError, match=r"barnabas\.log\.file"):
            LineFile(str(tmp_path / name), str(tmp_path / "data"))


def test_only_the_owner_and_its_group_may_read_it(tmp_path: Path) -> None:
    lines_to(tmp_path / "broker.log")
    assert not (tmp_path / "broker.log").stat().st_mode & 0o007
