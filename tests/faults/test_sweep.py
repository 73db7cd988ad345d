"""Each file call of a broker's life fails once, or from then on, or ends the process.

SQLite's method: run a scripted life (`tests.support.scripted_life`), let its first file call fail,
and check the result; then its second, and so on until the life ends without meeting the fault.
Each call gets each error that it can return, and the end of the process and of the power there.

    EIO, ENOSPC, EMFILE     once, and from that call on until the script ends
    short write             half of the bytes reach the file, and the disk is full for the rest
    kill                    the process ends there; a write may be half done
    power cut               the same, and what was not synced is lost, torn, zeros, or all there

Then the same while a start repairs what a cut left (`test_faults_while_recovering`).

`test_every_call_site_is_reached` checks the calls that were seen, by file and line, against those
in the source.
"""

import contextlib
import errno
import gc
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any
from unittest import mock

import pytest

from storage.errors import StorageError
from storage.log import Log
from tests.support.call_sites import Recording, noting, static_sites, unreached
from tests.support.memory_broker import Killed, MemoryBroker
from tests.support.memory_filesystem import OPERATIONS, MemoryFileSystem
from tests.support.scripted_life import Life, os_error
from tests.support.thorough import STEP, some_of, turn_of
from tests.unit.broker.metadata import test_snapshot_keeper
from tests.unit.storage import test_strays
from tests.unit.storage.compaction import test_copier, test_swap
from tests.unit.storage.files import test_kept_secret
from tests.unit.storage.opening import test_abort_loading, test_quarantine, test_swap_recovery
from tests.unit.storage.segments import (
    test_checked_batches,
    test_cold,
    test_index_file,
    test_log_file,
)

NEEDS_ROOM = {"pwrite", "open", "mkdir", "rename", "fdatasync"}
CHANGES = {
    "pwrite", "fdatasync", "truncate", "open", "rename", "unlink", "mkdir", "rmdir",
    "sync_directory",
}  # fmt: skip
NEEDS_DESCRIPTOR = {"open", "list", "sync_directory", "read", "lock"}
KINDS = ("whole", "large", "repairs", "compacted", "groups", "snapshots")
Elsewhere = Callable[[MemoryFileSystem, pytest.MonkeyPatch], object]
# Calls that need more data than a life has, cold pages, two faults at once, or a fault at one
# place: (file, call) -> a call of the unit test that makes them.
ELSEWHERE: dict[tuple[str, str], Elsewhere] = {
    ("storage/segments/cold.py", "self.file.pull"): (
        lambda _disk, _monkeypatch: test_cold.test_an_error_of_the_pull_is_kept_for_the_look_up(
            test_cold.cold_disk(), "pull"
        )
    ),
    ("storage/segments/cold.py", "self.file.pread"): (
        lambda _disk, _monkeypatch: test_cold.test_an_error_of_the_pull_is_kept_for_the_look_up(
            test_cold.cold_disk(), "pread"
        )
    ),
    ("storage/segments/log_file.py", "self._open.pull"): (
        lambda disk, _monkeypatch: (
            test_log_file.test_cold_large_slices_that_cannot_be_pulled_are_errors_of_the_log(disk)
        )
    ),
    ("storage/segments/checked_batches.py", "file.pread"): (
        lambda _disk, _monkeypatch: (
            test_checked_batches.test_batches_larger_than_a_chunk_are_read_whole()
        )
    ),
    ("storage/compaction/copier.py", "self._segment.log_file.file().fdatasync"): (
        lambda _disk, monkeypatch: test_copier.test_what_is_written_is_synced_in_pieces(monkeypatch)
    ),
    ("storage/segments/index_file.py", "file.fdatasync"): (
        lambda disk, _monkeypatch: (
            disk.mkdir("/d"),
            test_index_file.test_synced_entries_survive_a_power_cut(disk),
        )
    ),
    ("broker/metadata/snapshot_keeper.py", "self._filesystem.unlink"): (
        lambda _disk, _monkeypatch: (
            test_snapshot_keeper.test_a_snapshot_left_incomplete_by_a_crash_is_removed(),
            test_snapshot_keeper.test_the_log_is_trimmed_with_all_but_the_last_two_snapshots(),
            test_snapshot_keeper.test_the_previous_snapshot_is_used_if_the_newest_is_damaged(),
        )
    ),
    # This and the next three: aborted transactions.
    ("storage/compaction/swap.py", "file.pwrite"): (
        lambda _disk, _monkeypatch: test_swap.test_aborts_with_data_are_taken_along()
    ),
    ("storage/checkpointing.py", "filesystem.sync_directory"): (
        lambda _disk, _monkeypatch: test_abort_loading.test_they_survive("kill", checkpoints=True)
    ),
    ("storage/opening/abort_loading.py", "home.filesystem.read"): (
        lambda _disk, _monkeypatch: test_abort_loading.test_the_walk_is_said_and_made_once()
    ),
    ("storage/files/open_files.py", "self.filesystem.replace"): (
        lambda _disk, _monkeypatch: test_abort_loading.test_the_walk_is_said_and_made_once()
    ),
    ("storage/compaction/swap.py", "log.home.filesystem.unlink"): (
        lambda _disk, _monkeypatch: test_swap.test_what_a_pass_could_not_remove_the_next_one_does()
    ),
    ("storage/opening/quarantine.py", "self._home.filesystem.unlink"): (
        lambda _disk, _monkeypatch: (
            test_quarantine.test_without_room_for_the_quarantine_the_log_is_read_only()
        )
    ),
    ("storage/opening/swap_recovery.py", "home.filesystem.unlink"): (
        lambda _disk, _monkeypatch: test_swap_recovery.test_a_copy_under_way_is_removed()
    ),
    **{
        ("storage/files/kept_secret.py", call): (
            lambda disk, _monkeypatch: (
                disk.mkdir("/data"),
                test_kept_secret.test_a_secret_stays(disk),
            )
        )
        for call in ("filesystem.read", "filesystem.replace")
    },
    ("storage/opening/log_opening.py", "filesystem.sync_directory"): (
        lambda _disk, _monkeypatch: test_strays.test_a_new_partition_adopts_no_directory(
            test_strays.opened(), b""
        )
    ),
    **{
        ("storage/strays.py", call): (
            lambda _disk, _monkeypatch: test_strays.test_whatever_may_be_of_value_is_kept(
                test_strays.opened(), {test_strays.LOG_FILE: b"record"}
            )
        )
        for call in ("filesystem.list", "filesystem.open", "file.pread", "file.close")
    },
}
STRIDE = 29  # of the calls, in the short run: coprime with the periods of the script

# name -> (errno, operations that can meet it, part of a write that gets through)
ERRORS = {
    "EIO": (errno.EIO, None, 0.5),
    "ENOSPC": (errno.ENOSPC, NEEDS_ROOM, 0.0),
    "short": (errno.ENOSPC, {"pwrite"}, 0.5),
    "EMFILE": (errno.EMFILE, NEEDS_DESCRIPTOR, 0.0),
}
ENDS = ("kill", "lost", "torn", "zeros", "kept")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Discard log lines: nothing reads them here, and they cost more than the faults."""
    logging.disable(logging.CRITICAL)
    gc.freeze()  # lives that compact collect garbage; exclude what existed before
    yield
    logging.disable(logging.NOTSET)


def calls_of(wanted: Collection[str], kind: str = "whole") -> list[int]:
    """Return the numbers of the calls of these operations in a script without faults."""
    with contextlib.closing(Life(MemoryFileSystem(), kind)) as life:
        life.script()
        calls = list(life.filesystem.calls)
        life.judge()
    return [n for n, (operation, _path) in enumerate(calls, 1) if operation in wanted]


class Fault:
    """Fails the nth call, and with `forever` each later one, if it can meet that error."""

    def __init__(self, name: str, nth: int, *, forever: bool) -> None:
        self.number, self.operations, self.part = ERRORS[name]
        self.nth = nth
        self.forever = forever
        self.calls = 0
        self.was_met = False

    def __call__(self, operation: str, _path: str) -> tuple[BaseException, float] | None:
        self.calls += 1
        if self.calls < self.nth or (self.calls > self.nth and not self.forever):
            return None
        if self.operations is not None and operation not in self.operations:
            return None
        self.was_met = True
        return os_error(self.number), self.part


class End:
    """Ends the process at the nth call: that one and all later ones do not return."""

    def __init__(self, nth: int) -> None:
        self.nth = nth
        self.calls = 0

    def __call__(self, _operation: str, _path: str) -> tuple[BaseException, float] | None:
        self.calls += 1
        if self.calls < self.nth:
            return None
        return Killed(), 0.5 if self.calls == self.nth else 0.0


def run_with_fault(
    name: str,
    nth: int,
    *,
    forever: bool,
    kind: str = "whole",
    reached: set[tuple[str, int]] | None = None,
) -> bool:
    """Run one life with a fault and check it; return whether the fault was met."""
    filesystem = MemoryFileSystem() if reached is None else Recording(reached)
    fault = Fault(name, nth, forever=forever)
    with contextlib.closing(Life(filesystem, kind)) as life:
        filesystem.before = fault
        life.script()
        if fault.was_met:
            filesystem.before = None
            if nth % 2:
                life.power_was_cut = True
                filesystem.crash("lost")
            else:
                filesystem.kill()
            life.judge()
    return fault.was_met


def end_at(life: Life, nth: int, end: str) -> None:
    """Run the script of `life` until its nth call, and end it there."""
    filesystem = life.filesystem
    filesystem.before = End(nth)
    with contextlib.suppress(Killed):
        life.script()
    life.broker.end()
    filesystem.before = None
    if end == "kill":
        filesystem.kill()
    else:
        life.power_was_cut = True
        filesystem.crash(end)


def run_with_end(nth: int, end: str, kind: str = "whole") -> None:
    with contextlib.closing(Life(MemoryFileSystem(), kind)) as life:
        end_at(life, nth, end)
        life.judge()


def sweep(run: Callable[[int], Any], numbers: Sequence[int]) -> None:
    """Run for each number; say which one failed, and how many did."""
    failures: list[str] = []
    for number in numbers:
        try:
            run(number)
        except BaseException as error:
            failures.append(f"call {number}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} of {len(numbers)}:\n" + "\n".join(failures[:20])


FAULTS = [
    (name, forever)
    for name in ERRORS
    for forever in (False, True)
    if not (name == "short" and forever)
]
STRIDES = [STRIDE * STEP, pytest.param(1, marks=pytest.mark.faults)]


@pytest.mark.parametrize(("name", "forever"), FAULTS)
@pytest.mark.parametrize("stride", STRIDES)
def test_each_call_fails(name: str, forever: bool, stride: int) -> None:
    numbers = turn_of(calls_of(ERRORS[name][1] or OPERATIONS)[::stride])
    met: list[int] = []

    def run(nth: int) -> None:
        if run_with_fault(name, nth, forever=forever):
            met.append(nth)

    sweep(run, numbers)
    assert met == numbers


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stride", STRIDES)
def test_the_process_ends_at_each_call(end: str, stride: int) -> None:
    sweep(lambda nth: run_with_end(nth, end), turn_of(calls_of(CHANGES)[::stride]))


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("stride", STRIDES)
def test_each_call_of_the_short_lives(kind: str, stride: int) -> None:
    changes = frozenset(calls_of(CHANGES, kind))

    def run(nth: int) -> None:
        run_with_fault("EIO", nth, forever=False, kind=kind)
        if nth in changes:
            run_with_fault("ENOSPC", nth, forever=True, kind=kind)
            run_with_end(nth, "kill", kind)
            run_with_end(nth, "torn", kind)

    sweep(run, turn_of(calls_of(OPERATIONS, kind)[::stride]))


@pytest.mark.parametrize(
    ("end", "stride"),
    [("torn", 10 * STRIDE)]
    + [pytest.param(end, STRIDE, marks=pytest.mark.slow) for end in ("lost", "torn", "zeros")],
)
def test_faults_while_recovering(end: str, stride: int) -> None:
    """The power is cut at some call; each call of the next start fails, or is the last one."""

    def run(nth: int) -> None:
        for step in itertools.count(1, 7 if stride > STRIDE else 3):
            with contextlib.closing(Life(MemoryFileSystem())) as life:
                end_at(life, nth, end)
                fault = Fault("EIO", step, forever=False)
                if not start_with(life, fault):
                    break
                life.judge()
            with contextlib.closing(Life(MemoryFileSystem())) as life:
                end_at(life, nth, end)
                with contextlib.suppress(Killed):
                    start_with(life, End(step))
                life.filesystem.crash("torn")
                life.judge()

    sweep(run, some_of(turn_of(calls_of(OPERATIONS)[50::stride]), first=1))


def start_with(life: Life, fault: Fault | End) -> bool:
    """Start a broker under a fault, and kill it; return whether the fault was met."""
    life.filesystem.before = fault
    broker = MemoryBroker(life.filesystem)
    try:
        with contextlib.suppress(OSError, StorageError):
            broker.start()
    finally:
        broker.end()
        life.filesystem.before = None
        life.filesystem.kill()
    return fault.calls >= fault.nth


@pytest.mark.faults
def test_every_call_site_is_reached() -> None:
    """Every place that touches a file was reached; for one that was not, extend a life.

    The lives reach them without faults, with the process ending in the middle of each write, and
    with each call failing.
    """
    reached: set[tuple[str, int]] = set()
    for kind in KINDS:
        with contextlib.closing(Life(Recording(reached), kind)) as life:
            life.script()
            life.judge()
        for nth in calls_of(("open", "pwrite", "rename", "fdatasync"), kind):
            run_with_fault("EIO", nth, forever=False, kind=kind, reached=reached)
    for nth in calls_of(("pwrite",)):
        with contextlib.closing(Life(Recording(reached))) as life:
            end_at(life, nth, "kill" if nth % 2 else "torn")
            start_with(life, Fault("EIO", 60 + nth % 40, forever=False))
            life.judge()
    sites = static_sites()
    assert len(sites) > 70, "the file system's interface has been renamed"
    missing = unreached(sites, reached)
    told = [f"{path}:{line} {sites[path, line, end]}" for path, line, end in missing]
    elsewhere = {(path, sites[path, line, end]) for path, line, end in missing}
    assert elsewhere <= ELSEWHERE.keys(), told


@pytest.mark.parametrize("site", ELSEWHERE, ids=" ".join)
def test_unit_tests_reach_what_the_lives_do_not(
    site: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: set[tuple[str, int]] = set()
    with mock.patch.object(MemoryFileSystem, "_enter", noting(reached)):
        ELSEWHERE[site](MemoryFileSystem(), monkeypatch)
    places = [place for place, what in static_sites().items() if (place[0], what) == site]
    assert places, "the place has been removed or renamed"
    assert unreached(places, reached) == []


# -- The checks are checked ----------------------------------------------------------------------


def no_fsync(self: Any) -> None:
    """A flush that reports success without an fsync."""


def no_check(self: Any, header: Any) -> None:
    """A producer state that accepts every batch as new."""


def forgiving(log: Any, flush: Any, error: OSError | None) -> None:
    """A log that treats a failed fsync as a success."""
    FINISH_FLUSH(log, flush, None)


FINISH_FLUSH = Log.finish_flush
BROKEN = {
    "acknowledges before the fsync": ("storage.flush.Flush.run", no_fsync, "lost"),
    "skips deduplication": (
        "storage.producers.producer_state.ProducerState.check",
        no_check,
        "kill",
    ),
    "takes a failed fsync for a good one": ("storage.log.Log.finish_flush", forgiving, "EIO"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_broker_is_caught(how: str) -> None:
    target, replacement, fault = BROKEN[how]
    caught = []
    numbers = calls_of(("fdatasync",))[::4]
    with mock.patch(target, replacement):
        for nth in numbers:
            try:
                if fault in ENDS:
                    run_with_end(nth, fault)
                else:
                    run_with_fault(fault, nth, forever=False)
            except AssertionError as error:
                caught.append(str(error))
    assert len(caught) > 1, caught
