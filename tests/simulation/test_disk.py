"""The simulated disk keeps its promises: what it loses, whom it hits, and what it objects to."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.simulation.disk_faults import partition_of
from tests.simulation.disk_rig import CALM, disk_of, make
from tests.simulation.plan import Shape
from tests.simulation.world import SECOND


class Ended(KeyboardInterrupt):
    pass


def end() -> None:
    raise Ended


# -- Syncs ------------------------------------------------------------------------------------


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    rig = disk_of()
    file = make(rig.disk)
    file.pwrite(b"1", 4)
    rig.baton.meanwhile = lambda: file.pwrite(b"2", 5)
    file.fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base1"
    assert file.dirty
    file.fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base12"
    assert not file.dirty


def test_a_sync_that_ends_after_a_later_one_changes_nothing() -> None:
    rig = disk_of()
    file = make(rig.disk)
    file.pwrite(b"1", 4)

    def later() -> None:
        file.pwrite(b"2", 5)
        file.fdatasync()
        file.pwrite(b"3", 6)

    rig.baton.meanwhile = later
    file.fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base12"


def test_a_failed_sync_forgets_what_was_written_before_it_began() -> None:
    rig = disk_of()
    file = make(rig.disk)
    file.pwrite(b"1", 4)
    rig.disk.fail("syncs")
    rig.baton.meanwhile = lambda: file.pwrite(b"2", 5)
    with pytest.raises(OSError, match="Input/output"):
        file.fdatasync()
    file.fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base\x002"


def test_a_process_may_end_before_and_after_the_effect_of_a_sync() -> None:
    rig = disk_of()
    file = make(rig.disk)
    file.pwrite(b"1", 4)
    rig.baton.meanwhile = end
    with pytest.raises(Ended):
        file.fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base"

    def end_at_the_next() -> None:
        rig.baton.meanwhile = end

    rig.baton.meanwhile = end_at_the_next
    with pytest.raises(Ended):
        file.fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base1"


@pytest.mark.parametrize("ending", ["kill", "shutdown"])
def test_a_sync_of_a_process_that_has_ended_forgets_nothing(ending: str) -> None:
    rig = disk_of()
    file = make(rig.disk)
    file.pwrite(b"1", 4)

    def refuse() -> None:
        raise OSError(errno.ESHUTDOWN, "ended")

    if ending == "kill":
        rig.disk.kill()
    else:
        rig.baton.meanwhile = refuse
    with pytest.raises(OSError):
        file.fdatasync()
    rig.disk.kill()
    rig.disk.open("/data/t-0/f").fdatasync()
    assert rig.disk.durable_bytes("/data/t-0/f") == b"base1"


def test_a_directory_sync_covers_names_made_before_it_began() -> None:
    rig = disk_of()
    rig.disk.open("/data/t-0/a", create=True)
    rig.baton.meanwhile = lambda: rig.disk.open("/data/t-0/b", create=True)
    rig.disk.sync_directory("/data/t-0")
    assert rig.disk.durable_bytes("/data/t-0/a") == b""
    assert rig.disk.durable_bytes("/data/t-0/b") is None


# -- Faults -----------------------------------------------------------------------------------


def test_a_fault_harms_the_partition_it_hits_and_no_other() -> None:
    rig = disk_of()
    disk = rig.disk
    file, other = make(disk), make(disk, "/data/u-1/f")
    disk.fail("pwrite", error=errno.ENOSPC, path_part="t-0", bytes_written=0.5)
    other.pwrite(b"fine", 4)
    assert disk.harmed == set()
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"12345678", 4)
    assert disk.live_bytes("/data/t-0/f") == b"base1234"
    assert disk.harmed == {"t-0"}
    file.pwrite(b"12345678", 4)
    disk.fail("replace")
    with pytest.raises(OSError, match="Input"):
        disk.replace("/data/checkpoint", b"x")
    assert disk.harmed == disk.failed == {"", "t-0"}
    disk.healed()
    assert disk.harmed == disk.failed == set()


def test_faults_hit_a_range_a_number_of_calls_and_a_span_of_time() -> None:
    rig = disk_of()
    disk, file = rig.disk, make(rig.disk)

    def is_bad(position: int) -> bool:
        try:
            file.pread(2, position)
        except OSError:
            return True
        return False

    disk.fail("reads", span=(2, 3), forever=True)
    assert [is_bad(position) for position in (0, 1, 2, 3)] == [False, True, True, False]
    disk.heal()
    disk.fail("reads", nth=2, count=2)
    assert [is_bad(0) for _ in range(5)] == [False, True, True, False, False]
    disk.fail("reads", forever=True, until_ns=rig.world.now_ns + SECOND)
    assert is_bad(0)
    rig.world.now_ns += SECOND
    assert not is_bad(0)


def test_an_open_file_has_its_descriptor() -> None:
    disk = disk_of().disk
    file = make(disk)
    disk.fail("any", error=errno.EMFILE, forever=True)
    file.pwrite(b"more", 0)
    file.fdatasync()
    assert file.pread(4, 0) == b"more"
    with pytest.raises(OSError, match="Too many open files"):
        disk.sync_directory("/data/t-0")


def test_a_disk_that_is_read_only_serves_reads() -> None:
    disk = disk_of().disk
    file = make(disk)
    disk.fail("writes", error=errno.EROFS, forever=True)
    assert file.pread(4, 0) == disk.read("/data/t-0/f") == b"base"
    assert disk.open("/data/t-0/f", write=False).pread_nowait(4, 0) == b"base"
    for call in (
        lambda: disk.open("/data/t-0/f"),
        lambda: file.pwrite(b"x", 0),
        lambda: disk.mkdir("/data/v-0"),
        lambda: disk.replace("/data/x", b""),
    ):
        with pytest.raises(OSError, match="Read-only"):
            call()


def test_a_full_disk_gets_its_room_back() -> None:
    rig = disk_of()
    disk, file = rig.disk, make(rig.disk)
    disk.full(2, until_ns=rig.world.now_ns + SECOND)
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"1234", 4)
    assert (disk.live_bytes("/data/t-0/f"), disk.harmed) == (b"base12", {"t-0"})
    assert disk.free_bytes("/data") == 0
    rig.world.step()
    file.pwrite(b"1234", 4)
    disk.full()
    disk.heal()
    file.pwrite(b"1234", 8)


def test_reserved_room_stays_on_a_full_disk() -> None:
    disk = disk_of().disk
    file, other = make(disk), make(disk, "/data/u-1/f")
    disk.full(6)
    file.reserve(10)
    with pytest.raises(OSError, match="No space"):
        other.pwrite(b"x", 4)
    file.pwrite(b"123456", 4)
    with pytest.raises(OSError, match="No space"):
        file.reserve(11)


def test_syncs_are_slow_or_stuck_for_a_time() -> None:
    rig = disk_of()
    disk, file = rig.disk, make(rig.disk)

    def takes_ns() -> int:
        began_ns = rig.world.now_ns
        file.fdatasync()
        return rig.world.now_ns - began_ns

    usual = CALM.fsync_ns
    assert usual * 0.5 <= takes_ns() <= usual * 1.6
    disk.slow(100, path_part="u-1")
    assert takes_ns() <= usual * 1.6
    assert disk.delayed == set()
    disk.slow(100, path_part="t-0")
    assert takes_ns() >= usual * 50
    assert (disk.delayed, disk.harmed) == ({"t-0"}, set())
    disk.heal()
    disk.stick(rig.world.now_ns + 60 * SECOND)
    rig.baton.meanwhile = disk.heal
    assert takes_ns() < 2 * SECOND
    disk.stick(rig.world.now_ns + 60 * SECOND)
    assert takes_ns() >= 60 * SECOND
    assert takes_ns() <= usual * 1.6


def test_descriptors_are_counted_and_bounded() -> None:
    disk = disk_of().disk
    file = make(disk)
    again = disk.open("/data/t-0/f")
    lock = disk.lock("/data/.lock")
    assert disk.open_count == 3
    del again
    lock.close()
    assert disk.open_count == 1
    disk.open_max = 1
    with pytest.raises(OSError, match="Too many open files"):
        disk.open("/data/t-0/f")
    file.close()
    assert disk.open_count == 0
    file = disk.open("/data/t-0/f")
    disk.kill()
    assert disk.open_count == 0
    del file
    assert disk.open_count == 0


def test_cold_pages_are_warm_once_read() -> None:
    rig = disk_of(Shape(cold_chance=1.0))
    file = make(rig.disk)
    rig.world.now_ns += SECOND
    assert file.pread_nowait(4, 0) is None
    assert not file.is_cached(0, 4)
    assert file.pull(10, 1) == 3
    assert file.is_cached(0, 4)
    assert file.pread_nowait(4, 0) == b"base"


@pytest.mark.parametrize(
    ("path", "partition"),
    [
        ("/data/t-0/00000000000000000000.log", "t-0"),
        ("/data/t-0", "t-0"),
        (f"/data/a-b-12.{'0' * 32}-delete/00000000000000000000.log.deleted", "a-b-12"),
        ("/data/recovery-point-offset-checkpoint", ""),
        ("/data", ""),
    ],
)
def test_a_path_belongs_to_a_partition(path: str, partition: str) -> None:
    assert partition_of(path) == partition


# -- Content ----------------------------------------------------------------------------------


def test_content_goes_out_to_a_real_directory_and_comes_back(tmp_path: Path) -> None:
    disk = disk_of().disk
    make(disk)
    disk.save(tmp_path / "out", at="/data")
    assert (tmp_path / "out" / "t-0" / "f").read_bytes() == b"base"
    assert (tmp_path / "out" / "u-1").is_dir()
    other = disk_of().disk
    before = other.fingerprint("/data")
    other.load(tmp_path / "out", at="/data")
    assert other.fingerprint("/data") == disk.fingerprint("/data") != before
    assert other.durable_bytes("/data/t-0/f") == b"base"
    other.open("/data/t-0/f").pwrite(b"c", 0)
    assert other.fingerprint("/data") != disk.fingerprint("/data")


def test_a_directory_that_is_not_synced_harms_what_was_made_in_it() -> None:
    rig = disk_of()
    disk = rig.disk
    disk.mkdir("/data/old-0")
    disk.kill()
    disk.mkdir("/data/new-0")
    disk.fail("sync_directory", path_part="/data")
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_directory("/data")
    assert disk.harmed == {"", "new-0"}
