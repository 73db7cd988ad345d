"""Damaged directories served read-only: the same answers as a normal start, and no byte changes.

Each case of `tests.faults.test_damaged_directory`, each kind of flipped bit, and every state of a
disk that a power cut may leave are served twice: by a broker that serves read-only, and by one that
repairs a copy. Both must give the same batches and the same errors.
"""

import contextlib
import errno
import itertools
import logging
import random
from collections.abc import Iterator

import pytest

from storage.errors import CorruptMetadata, StorageError
from storage.files.overlay import Overlay
from tests.faults import test_crash_states
from tests.faults.test_damaged_directory import CASES, Case, damaged, ids
from tests.support import crash_states, rotten
from tests.support.log_house import House, read_all
from tests.support.memory_broker import NOW_MS, MemoryBroker
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.rotten import Flip, Original, Outcome
from tests.support.thorough import some_of

# A killed broker has not written the newest snapshot.
OF_ANY_DIRECTORY = [case for case in CASES if not case.name.startswith(("snapshot", "producers"))]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def sound() -> Original:
    return rotten.make("clean")


@pytest.fixture(scope="module")
def killed() -> Original:
    return rotten.make("killed")


def content(disk: MemoryFileSystem) -> dict[str, bytes]:
    return dict(rotten.files_of(disk))


def served(original: Original, flip: Flip | None, **settings: str) -> Outcome:
    """Serve a directory to one who asks for every batch, and retain, compact and stop meanwhile."""
    disk = original.file_system(flip)
    before = content(disk)
    broker = MemoryBroker(disk, started_ms=NOW_MS + 10_000, **settings)
    found = Outcome()
    try:
        broker.start()
        broker.run(rotten.fetch_all(broker, original, found))
        if "barnabas_read_only" in settings:
            assert broker.run(broker.stop())
            assert content(disk) == before
        assert not broker.surprises
    finally:
        broker.end()
    return found


def hold_against_a_normal_start(original: Original, flip: Flip | None = None) -> None:
    found = served(original, flip, barnabas_read_only="true")
    try:
        normal = served(original, flip)
    except CorruptMetadata:  # of meta.properties, without which a broker does not write
        assert flip is not None
        assert flip.region == "meta.properties"
        return
    assert found.codes == normal.codes
    assert found.wrong == normal.wrong
    assert found.start_offset == normal.start_offset


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_damaged_directory_is_served_as_after_a_repair(sound: Original, case: Case) -> None:
    hold_against_a_normal_start(damaged(sound, case))


@pytest.mark.parametrize("case", OF_ANY_DIRECTORY, ids=ids)
def test_a_killed_brokers_directory_is_served_as_after_a_repair(
    killed: Original, case: Case
) -> None:
    hold_against_a_normal_start(damaged(killed, case))


def test_a_flipped_bit_costs_what_it_costs_after_a_repair(
    sound: Original, killed: Original
) -> None:
    for original in (sound, killed):
        flips = rotten.flips(original, random.Random(3), per_field=1, per_file=1)
        for flip in some_of(flips):
            if flip.region.startswith("metadata"):
                continue
            try:
                hold_against_a_normal_start(original, flip)
            except AssertionError as error:
                raise AssertionError(str(flip)) from error


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.faults)])
@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
def test_a_read_that_fails_costs_its_records_and_no_other(
    sound: Original, killed: Original, number: int, stride: int
) -> None:
    """Each call of the disk fails once: a start may be refused, and no wrong record is served."""
    for original in (sound, killed):
        for nth in itertools.count(1, stride):
            disk = original.file_system()
            before, calls = content(disk), itertools.count(1)
            disk.before = lambda _op, _path, nth=nth, calls=calls: (
                (OSError(number, "of the test"), 0.0) if next(calls) == nth else None
            )
            broker, found = MemoryBroker(disk, barnabas_read_only="true"), Outcome()
            try:
                with contextlib.suppress(StorageError, OSError):
                    broker.start()
                    broker.run(rotten.fetch_all(broker, original, found))
                    assert broker.run(broker.stop()), nth
            finally:
                broker.end()
                disk.before = None
            assert content(disk) == before, nth
            assert not found.wrong, nth
            assert not broker.surprises, nth
            if next(calls) <= nth:
                break


@pytest.mark.parametrize("length", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_state_after_a_power_cut_is_served_as_after_recovery(length: int) -> None:
    chance, count = random.Random(length), 0
    for row in itertools.product(test_crash_states.ALPHABET, repeat=length):
        for run in test_crash_states.cuts(row):
            for state in crash_states.states(run.house.filesystem, chance, 12):
                count += 1
                disk = crash_states.disk_of(state)
                before = content(disk)
                house = House(Overlay(disk))
                log = house.restart(**test_crash_states.CONFIG)
                found = (log.start_offset, log.end_offset, read_all(log))
                assert house.stop()
                assert content(disk) == before, row
                normal = House(disk).restart(**test_crash_states.CONFIG)
                assert found == (normal.start_offset, normal.end_offset, read_all(normal)), row
    assert count > 100
