"""The cut: what happens between two sweeps, and which files of a log a backup consists of."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from client.files import backup_cut
from client.files.backup_copy import wanted_files
from client.files.backup_cut import Changed, Cut, LogFiles, NotBackedUp, Stamp, take_cut
from storage.files.text_files import encode_offsets
from tests.support.raw_batches import batch

DATA = batch([b"value"])
MARKER = batch([b"value"], attributes=0x30)
FIRST = "00000000000000000000.log"
SECOND = "00000000000000000001.log"


def log(home: Path, name: str, content: bytes = DATA, base: str = FIRST) -> Path:
    (home / name).mkdir(exist_ok=True)
    path = home / name / base
    path.write_bytes(content)
    return path


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("__cluster_metadata-0", "__transaction_state-0", "__consumer_offsets-0", "t-0"):
        log(tmp_path, name)
    log(tmp_path, "u-0")
    return tmp_path


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Return what makes a call happen after the nth size was read, in the first attempt only."""
    reads = 0
    calls: dict[int, Callable[[], object]] = {}
    size = backup_cut._size

    def counted(data: str, files: LogFiles) -> int:
        nonlocal reads
        found = size(data, files)
        reads += 1
        if reads in calls:
            calls[reads]()
        return found

    monkeypatch.setattr(backup_cut, "_size", counted)
    monkeypatch.setattr(backup_cut, "ATTEMPTS", 1)
    return lambda count, call: calls.update({count: call})


def ends(cut: Cut) -> dict[str, int]:
    return {one.name: one.end for one in cut.logs}


def test_logs_that_stand_still_are_cut_at_their_ends(home: Path) -> None:
    cut = take_cut(str(home), is_stopped=False)
    assert ends(cut) == dict.fromkeys(
        ("__cluster_metadata-0", "__transaction_state-0", "__consumer_offsets-0", "t-0", "u-0"),
        len(DATA),
    )
    assert [one.topic for one in cut.logs[:3]] == [
        "__cluster_metadata",
        "__transaction_state",
        "__consumer_offsets",
    ]


def test_records_that_come_meanwhile_are_beyond_the_cut(home: Path, between) -> None:
    between(4, lambda: append(home / "t-0" / FIRST, DATA))  # after t-0's size was read
    assert ends(take_cut(str(home), is_stopped=False))["t-0"] == len(DATA)


@pytest.mark.parametrize("reads", [4, 5, 6])  # in the first sweep or at the begin of the second
def test_a_marker_between_the_sweeps_refuses_the_cut(home: Path, between, reads: int) -> None:
    between(reads, lambda: append(home / "t-0" / FIRST, DATA + MARKER))
    with pytest.raises(NotBackedUp, match="a transaction ended in t-0"):
        take_cut(str(home), is_stopped=False)


def test_a_marker_before_the_size_was_read_is_in_the_cut(home: Path, between) -> None:
    between(1, lambda: append(home / "t-0" / FIRST, MARKER))
    assert ends(take_cut(str(home), is_stopped=False))["t-0"] == len(DATA + MARKER)


@pytest.mark.parametrize(
    ("name", "reads", "why"),
    [
        ("__transaction_state-0", 2, "transactions changed"),
        ("__transaction_state-0", 5, "transactions changed"),
        ("__cluster_metadata-0", 3, "the metadata log grew"),
    ],
)
def test_a_decision_between_the_sweeps_refuses_the_cut(
    home: Path, between, name: str, reads: int, why: str
) -> None:
    between(reads, lambda: append(home / name / FIRST, DATA))
    with pytest.raises(NotBackedUp, match=why):
        take_cut(str(home), is_stopped=False)


def test_a_batch_that_is_being_written_is_beyond_the_cut(home: Path, between) -> None:
    between(1, lambda: append(home / "t-0" / FIRST, DATA[:30]))
    between(6, lambda: append(home / "t-0" / FIRST, DATA[30:]))
    assert ends(take_cut(str(home), is_stopped=False))["t-0"] == len(DATA)


def test_a_log_that_was_rolled_before_its_size_was_read_refuses_the_cut(
    home: Path, between
) -> None:
    between(1, lambda: log(home, "t-0", DATA, SECOND))
    with pytest.raises(NotBackedUp, match="t-0 was rolled"):
        take_cut(str(home), is_stopped=False)


def test_a_log_that_is_rolled_after_its_cut_is_fine(home: Path, between) -> None:
    between(9, lambda: (append(home / "t-0" / FIRST, DATA), log(home, "t-0", DATA, SECOND)))
    assert ends(take_cut(str(home), is_stopped=False))["t-0"] == len(DATA)


@pytest.mark.parametrize("after", ["gone", "renamed", "swap"])
def test_segments_that_go_refuse_the_cut(home: Path, between, after: str) -> None:
    log(home, "t-0", DATA, SECOND)
    first = home / "t-0" / FIRST

    def change() -> None:
        if after == "gone":
            first.unlink()
        elif after == "renamed":
            os.rename(home / "t-0", home / f"t-0.{'0' * 32}-delete")
        else:
            (home / "t-0" / f"{FIRST}.swap").write_bytes(DATA)

    between(9, change)
    with pytest.raises(NotBackedUp, match="t-0"):
        take_cut(str(home), is_stopped=False)


def test_a_later_attempt_succeeds(home: Path, between, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_cut, "ATTEMPTS", 2)
    between(5, lambda: append(home / "t-0" / FIRST, MARKER))
    assert ends(take_cut(str(home), is_stopped=False))["t-0"] == len(DATA + MARKER)


def test_points_above_which_a_start_recovers_are_older_than_the_cut(home: Path, between) -> None:
    path = home / "recovery-point-offset-checkpoint"
    path.write_bytes(encode_offsets({("t", 0): 1}))
    between(1, lambda: path.write_bytes(encode_offsets({("t", 0): 9})))
    assert take_cut(str(home), is_stopped=False).points == {("t", 0): 1}


def test_only_files_that_a_start_can_trust_are_copied() -> None:
    names = (
        "00000000000000000000.log 00000000000000000000.index 00000000000000000000.timeindex"
        " 00000000000000000005.log 00000000000000000005.index 00000000000000000005.txnindex"
        " 00000000000000000009.log 00000000000000000009.index 00000000000000000012.log.cleaned"
        " 00000000000000000005.snapshot 00000000000000000006.snapshot"
        " 00000000000000000006.producers 00000000000000000009.snapshot"
        " 00000000000000000001.log.deleted"
        " partition.metadata leader-epoch-checkpoint leader-epoch-checkpoint.tmp notes.txt"
    )
    files = {name: Stamp(1, 100, 1) for name in names.split()}
    one = LogFiles("t-0", "t", 0, files, [0, 5, 9], end=61)
    cut = Cut([one], {("t", 0): 7}, {}, {}, is_stopped=False)
    assert {wanted.name: wanted.size for wanted in wanted_files(one, cut)} == {
        "00000000000000000000.log": 100,
        "00000000000000000000.index": 100,
        "00000000000000000000.timeindex": 100,
        "00000000000000000005.log": 100,
        "00000000000000000005.index": 100,
        "00000000000000000005.txnindex": 100,
        "00000000000000000009.log": 61,
        "00000000000000000006.snapshot": 100,
        "00000000000000000006.producers": 100,
        "partition.metadata": 100,
        "leader-epoch-checkpoint": 100,
    }


def test_a_directory_that_vanishes_while_it_is_listed_is_a_change(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "listdir", lambda _: ["t-0", "gone-0"])
    with pytest.raises(Changed, match="gone-0"):
        list(backup_cut.list_logs(str(home)))


def test_a_log_that_came_meanwhile_refuses_the_cut(home: Path, between) -> None:
    between(3, lambda: log(home, "v-0"))  # then a group may have committed in it
    with pytest.raises(NotBackedUp, match="v-0 was created"):
        take_cut(str(home), is_stopped=False)


def test_a_symbolic_link_is_named(home: Path) -> None:
    os.rename(home / "t-0" / FIRST, home / "elsewhere")
    (home / "t-0" / FIRST).symlink_to(home / "elsewhere")
    with pytest.raises(NotBackedUp, match=f"t-0/{FIRST} is a symbolic link"):
        take_cut(str(home), is_stopped=False)


def test_what_is_no_file_is_left_out(home: Path) -> None:
    os.mkfifo(home / "t-0" / "pipe")
    (home / "t-0" / "folder").mkdir()
    (log_of_t,) = (one for one in take_cut(str(home), is_stopped=True).logs if one.name == "t-0")
    assert set(log_of_t.files) == {FIRST}
