"""A power cut leaves what a disk may hold then, and all of that comes up."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.simulation.disk import SimDisk
from tests.simulation.disk_rig import disk_of, make
from tests.simulation.power_cut import FATES, left_of
from tests.support.memory_inodes import Inode


def written(*changes: tuple[int, bytes | None], durable: bytes = b"") -> Inode:
    inode = Inode()
    inode.live += durable
    inode.durable += durable
    for position, data in changes:
        if data is None:
            inode.truncate(position)
        else:
            inode.write(data, position)
    return inode


def contents(inode: Inode, fate: str, tries: int = 300) -> set[bytes]:
    rng = random.Random(1)
    return {bytes(left_of(inode, fate, rng)) for _ in range(tries)}


def test_writes_are_lost_kept_or_cut_anywhere() -> None:
    inode = written((1, b"bc"), (3, b"de"), durable=b"a")
    assert contents(inode, "lost") == {b"a"}
    assert contents(inode, "kept") == {b"abcde"}
    assert contents(inode, "prefix") == {b"a", b"ab", b"abc", b"abcd", b"abcde"}
    assert contents(inode, "grown") == {b"a" + bytes(4)}
    assert bytes(inode.durable) == b"a", "asking changes nothing"


def test_pages_arrive_in_any_order() -> None:
    inode = written((0, b"1" * 512), (512, b"2" * 512), (1024, b"3" * 100))
    found = contents(inode, "pages", 2_000)
    one, two, three = b"1" * 512, b"2" * 512, b"3" * 100
    no = bytes(512)
    for wanted in (
        b"", no, one, no + two, one + no, one + two, one + two + three, no + two + three,
        one + no + three, no + no + three, no + no + bytes(100), one + two + bytes(100),
    ):  # fmt: skip
        assert wanted in found, (wanted[:1], len(wanted))
    for content in found:
        assert {content[n : n + 512].strip(b"\0") for n in (0, 512, 1024)} <= {
            b"", one, two, three,
        }  # fmt: skip


def test_a_page_holds_what_it_held_at_one_time() -> None:
    inode = written((0, b"1"), (1, b"2"), (1, None), (1, b"3"))
    found = contents(inode, "pages", 1_000)
    assert found == {b"", b"\0", b"\0\0", b"1", b"1\0", b"12", b"13"}


def names_left(change: Callable[[SimDisk], None], tries: int = 200) -> set[tuple[str, ...]]:
    found = set()
    for seed in range(tries):
        disk = disk_of().disk
        make(disk, "/data/t-0/old")
        change(disk)
        disk.power_cut(random.Random(seed))
        found.add(tuple(disk.list("/data/t-0")))
    return found


def test_a_prefix_of_the_names_since_the_last_sync_survives() -> None:
    def change(disk: SimDisk) -> None:
        disk.open("/data/t-0/a", create=True)
        disk.rename("/data/t-0/old", "/data/t-0/new")
        disk.unlink("/data/t-0/a")

    assert names_left(change) == {("old",), ("a", "old"), ("a", "new"), ("new",)}


def test_a_synced_name_survives() -> None:
    def change(disk: SimDisk) -> None:
        disk.rename("/data/t-0/old", "/data/t-0/new")
        disk.sync_directory("/data/t-0")

    assert names_left(change) == {("new",)}


def test_a_rename_between_directories_happens_in_both_or_in_none() -> None:
    def there(disk: SimDisk) -> tuple[list[str], list[str]]:
        return disk.list("/data/t-0"), disk.list("/data/u-1")

    found = []
    for seed in range(100):
        disk = disk_of().disk
        make(disk)
        disk.rename("/data/t-0/f", "/data/u-1/f")
        if seed == 0:
            disk.sync_directory("/data/u-1")
        disk.power_cut(random.Random(seed))
        found.append(there(disk))
    assert found[0] == ([], ["f"])
    assert sorted(map(str, {str(each) for each in found})) == [
        "(['f'], [])",
        "([], ['f'])",
    ]


def test_a_cut_comes_out_the_same_for_the_same_seed_and_ends_the_process() -> None:
    prints = set()
    for _ in range(2):
        disk = disk_of().disk
        for name in ("a", "b", "c"):
            file = make(disk, f"/data/t-0/{name}")
            for n in range(20):
                file.pwrite(bytes([n + 1]) * 100, 4 + 100 * n)
            disk.rename(f"/data/t-0/{name}", f"/data/t-0/{name}2")
        disk.power_cut(random.Random(5))
        prints.add(disk.fingerprint())
        with pytest.raises(OSError, match="Bad file"):
            file.size()
        assert disk.open_count == 0
    assert len(prints) == 1


def test_every_fate_keeps_what_was_synced() -> None:
    for fate in FATES:
        inode = written((4, b"x" * 600), (604, b"y"), durable=b"base")
        assert all(content[:4] == b"base" for content in contents(inode, fate))
