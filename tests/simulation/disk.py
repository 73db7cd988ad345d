"""The simulated disk: a disk in memory whose calls take time, overlap, fail and are watched.

Every call goes through `SimDisk._enter`, before it has an effect: there it costs virtual time, lets
other jobs run, and may fail. Syncs, and by chance other changes, pause once more after the effect,
so that a process may end between the effect and the answer.

    time       each life sets `baton`; without one, calls take no time
    loop       while `serving`, what the loop's side must not do stands in `violations`
               (`tests.simulation.loop_watch`)
    order      what may not come before others are on the disk (`tests.simulation.order_watch`)
    ends       the same of the ends of transactions (`tests.simulation.end_watch`)
    faults     `fail`, `slow`, `stick`, `full`, `flip`; `heal` ends them. `harmed` and `delayed`
               name the partitions they have hit since `healed`
    over       `kill` ends the process; `power_cut` loses what was not synced
               (`tests.simulation.power_cut`)
    content    `load`, `save`, `fingerprint`

A page that was read or written lately is in memory; others are not, by the shape's chance.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, cast
from weakref import WeakValueDictionary

from storage.files import filenames
from storage.files.filesystem import FileSystem
from tests.simulation import bit_flip, disk_content
from tests.simulation.bit_flip import Flip
from tests.simulation.disk_content import Content
from tests.simulation.disk_faults import GROUPS, NEVER_NS, Delay, Fault, is_meant, partition_of
from tests.simulation.disk_file import SimFile
from tests.simulation.end_watch import EndWatch
from tests.simulation.loop_watch import LoopWatch, watch_class
from tests.simulation.order_watch import OrderWatch
from tests.simulation.plan import Shape
from tests.simulation.power_cut import cut_power
from tests.simulation.world import MS, SECOND, World
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.memory_inodes import Directory, Inode, find, os_error

WARM_NS: Final = 50 * MS  # pages stay in memory for that long
AFTER_CHANCE: Final = 0.1  # that a change other than a sync pauses after its effect
_SPARED: Final = (filenames.METADATA_DIRECTORY,)  # no bit flips there
_SYNCS: Final = GROUPS["syncs"]
_QUICK: Final = frozenset({"close", "size"})
_TOLD_BY_FILE: Final = frozenset({"pwrite", "reserve"})


class TakesTime(Protocol):
    """The part of a life's baton that the disk uses."""

    @property
    def on_loop(self) -> bool:
        """Whether the caller runs in the loop's thread."""

    def pause(self, ns: int) -> None:
        """Let virtual time pass."""


def _nobody_waits() -> None:
    """Take the news."""


def _nobody_cares(_path: str) -> None:
    """Take the news."""


def _nobody_renames(_old: str, _new: str) -> None:
    """Take the news."""


class SimDisk(MemoryFileSystem):
    """See the module. `rng` decides how long calls take and which pages are cold."""

    file_class = SimFile

    def __init__(
        self, world: World, baton: TakesTime | None, rng: random.Random, shape: Shape
    ) -> None:
        super().__init__()
        self.world = world
        self.baton = baton
        self.shape = shape
        self.open_count = 0
        self.open_max: int | None = None  # more opens raise EMFILE
        self.watch = LoopWatch(self._is_on_loop)
        self.order = OrderWatch(self.directory)
        self.ends = EndWatch(partial(find, self._root))
        # Who hears of syncs that begin, of a path, of those that went well, and of renames.
        self.syncs: Callable[[str], None] = _nobody_cares
        self.has_synced: Callable[[], None] = _nobody_waits
        self.renames: Callable[[str, str], None] = _nobody_renames
        self.harmed: set[str] = set()  # partitions' directories, "" for others
        self.failed: set[str] = set()  # those of them where a call has failed
        self.delayed: set[str] = set()  # the same, where a call took long
        self._chance = rng.random
        self._wrong: list[Fault] = []
        self._delays: list[Delay] = []
        self._fulls = 0
        self._made: list[str] = []  # directories, in this life
        self._descriptors = 0  # given to files so far
        self._described: WeakValueDictionary[int, SimFile] = WeakValueDictionary()

    @property
    def serving(self) -> bool:
        """Whether the broker serves, so that calls on the loop are judged."""
        return self.watch.serving

    @serving.setter
    def serving(self, serving: bool) -> None:
        self.watch.serving = serving

    @property
    def violations(self) -> list[str]:
        """What the loop's side did and must not do."""
        return self.watch.violations

    def end_turn(self) -> None:
        """Tell that a turn of the loop is over."""
        self.watch.end_turn()

    def _is_on_loop(self) -> bool:
        return self.baton is not None and self.baton.on_loop

    # -- Time and faults of each call ---------------------------------------------------------

    def _enter(
        self, op: str, path: str, size: int = 0, position: int = 0, *, changes: bool = True
    ) -> tuple[BaseException, int] | None:
        self.counts[op] += 1
        if self.baton is not None and op not in _QUICK:
            self._spend(op, path)
        if self.open_max is not None and op in GROUPS["descriptors"]:
            self._need_descriptor(op, path)
        if not self._wrong:
            return None
        found: Fault | None = None
        for fault in self._wrong:
            if fault.hits(op, path, size, position, changes, self.world.now_ns):
                found = found or fault
        if found is None:
            return None
        error = os_error(found.error, path)
        if op not in _TOLD_BY_FILE:
            self.hurt(op, path, error)
        if op != "pwrite":
            raise error
        return error, found.bytes_written(size)

    def _spend(self, op: str, path: str) -> None:
        if op in _SYNCS:
            ns = self.shape.fsync_ns * (0.5 + self._chance())
        elif self._delays or self._chance() < self.shape.switch_chance:
            ns = self.shape.call_ns * (0.5 + self._chance())
        else:
            return
        factor = 1.0  # of the slowest: two slow disks are not one that never answers
        for delay in self._delays:
            if delay.hits(op, path, self.world.now_ns):
                self.delayed.add(partition_of(path))
                factor = max(factor, delay.factor)
                self._wait_for(delay)
        cast("TakesTime", self.baton).pause(int(ns * factor))

    def _wait_for(self, delay: Delay) -> None:
        """Wait while a call is stuck; `heal` ends that within a second."""
        while delay.is_stuck and self.baton is not None:
            left_ns = delay.until_ns - self.world.now_ns
            if left_ns <= 0:
                return
            self.baton.pause(min(left_ns, SECOND))

    def after(self, op: str) -> None:
        """Pause between an effect and the answer."""
        if self.baton is not None and (op in _SYNCS or self._chance() < AFTER_CHANCE):
            self.baton.pause(int(self.shape.call_ns * self._chance()))

    def _need_descriptor(self, op: str, path: str) -> None:
        if self.open_max is not None and self.open_count >= self.open_max:
            error = os_error(errno.EMFILE, path)
            self.hurt(op, path, error)
            raise error

    def hurt(self, op: str, path: str, error: OSError) -> None:
        """Remember which partition an error of the disk has hit."""
        if error.errno in (errno.EBADF, errno.ESHUTDOWN):  # of a process that has ended
            return
        names = {partition_of(path)}
        if op == "sync_directory":  # their names may be lost, so their logs fail
            names |= {partition_of(one) for one in self._made if one.rpartition("/")[0] == path}
        self.harmed |= names
        self.failed |= names
        self.world.note("disk", f"{op} {path}: {errno.errorcode.get(error.errno or 0, '?')}")

    def descriptor_of(self, file: SimFile) -> int:
        """Return a number for an open file, by which `described` finds it; -1 if it is closed."""
        if file.is_closed:
            return -1
        if not file.descriptor:
            file.descriptor = self._descriptors = self._descriptors + 1
            self._described[file.descriptor] = file
        return file.descriptor

    def described(self, descriptor: int) -> SimFile | None:
        """Return the open file of that number."""
        file = self._described.get(descriptor)
        return None if file is None or file.is_closed else file

    def warm(self, inode: Inode) -> None:
        """Take a file's pages into memory."""
        inode.warm_until_ns = self.world.now_ns + WARM_NS

    def is_cold(self, inode: Inode) -> bool:
        """Whether a page of the file is not in memory."""
        if inode.warm_until_ns > self.world.now_ns or not self.shape.cold_chance:
            return False
        return self._chance() < self.shape.cold_chance

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.order.renamed(old, new)
        self.renames(old, new)

    def replace(self, path: str, data: bytes) -> None:
        super().replace(path, data)
        self.order.replaced(path, data)
        self.ends.replaced(path, data)

    # -- What the history does to it ----------------------------------------------------------

    def fail(  # type: ignore[override]
        self,
        op: str,
        nth: int = 1,
        error: int = errno.EIO,
        *,
        forever: bool = False,
        path_part: str = "",
        bytes_written: float = 0,
        count: int = 1,
        until_ns: int = NEVER_NS,
        span: tuple[int, int] | None = None,
    ) -> Fault:
        """Make calls of an operation or a group raise `error`: see `Fault`.

        `forever`: all from the nth on. `bytes_written`: how many bytes of a failing write reach
        the file, or (a float) which share of them. `span`: bytes [begin, end) of a file.
        """
        assert is_meant(op), op
        times = None if forever else count
        fault = Fault(op, error, path_part, nth, times, until_ns, span, bytes_written)
        self._wrong.append(fault)
        return fault

    def slow(
        self, factor: float, *, op: str = "syncs", path_part: str = "", until_ns: int = NEVER_NS
    ) -> None:
        """Make calls take `factor` times as long."""
        assert is_meant(op), op
        self._delays.append(Delay(op, factor, False, path_part, until_ns))

    def stick(self, until_ns: int, *, op: str = "syncs", path_part: str = "") -> None:
        """Let no call end before a time. On the loop only calls that it may make should stick."""
        assert is_meant(op), op
        self._delays.append(Delay(op, 1.0, True, path_part, until_ns))

    def full(self, room_bytes: int = 0, until_ns: int | None = None) -> None:
        """Leave room for so many bytes, until a time or `heal`."""
        self.capacity_bytes = self.used_bytes() + room_bytes
        self._fulls += 1
        if until_ns is not None:
            number = self._fulls
            self.world.at(until_ns, lambda: self._give_room(number))

    def _give_room(self, number: int) -> None:
        if number == self._fulls:
            self.capacity_bytes = None

    def flip(
        self, rng: random.Random, but: Collection[str] = _SPARED, known: Sequence[Flip] = ()
    ) -> Flip | None:
        """Flip a bit that is not in `known`, of a partition not in `but`: see `bit_flip`."""
        flip = bit_flip.flip_bit(self._root, rng, but, known)
        if flip is not None:
            flip = replace(flip, since_ns=self.world.now_ns)
            self.harmed.add(flip.partition)
            self.world.note("disk", f"{flip}")
        return flip

    def directory(self, at: str) -> Directory:
        """Return the content of a directory."""
        return self._directory(at)

    def change(self, at: str, change: Callable[[Directory], str]) -> None:
        """Change what is in a directory, while the broker is down; `change` says what it did."""
        self.world.note("disk", change(self._directory(at)))
        self._found.clear()

    @property
    def is_faulty(self) -> bool:
        """Whether a fault is active, or about to be."""
        return bool(
            self._wrong
            or self._delays
            or self.capacity_bytes is not None
            or self.open_max is not None
        )

    def heal(self) -> None:
        """End all faults but flipped bits; stuck calls go on."""
        self._wrong.clear()
        for delay in self._delays:
            delay.until_ns = 0
        self._delays = []
        self.capacity_bytes = None
        self._fulls += 1
        self.open_max = None

    def healed(self) -> None:
        """Forget whom the faults have hit."""
        self.harmed.clear()
        self.failed.clear()
        self.delayed.clear()

    def kill(self) -> None:
        """End the process: locks and descriptors go, all bytes stay."""
        super().kill()
        self.order.new_process()
        self.ends.new_process()
        self._made.clear()
        self.serving = False
        self.open_count = 0

    def power_cut(self, rng: random.Random) -> None:
        """End the process, and lose what was not synced."""
        self.kill()
        self._found.clear()
        cut_power(self._root, rng)

    # -- Content ------------------------------------------------------------------------------

    def load(self, content: Path | Content, at: str = "/") -> None:
        """Put a real directory's content, or a dict, into a directory, made if missing: durable."""
        if isinstance(content, Path):
            content = disk_content.content_of(content)
        for name in reversed([name for name in at.split("/") if name]):
            content = {name: content}
        disk_content.fill(self._root, content)
        self._found.clear()

    def save(self, path: Path, at: str = "/") -> None:
        """Write what programs see in a directory to a real one."""
        disk_content.save(self._directory(at), path)

    def fingerprint(self, at: str = "/") -> str:
        """Return a digest over all live names and bytes of a directory."""
        return disk_content.digest(self._directory(at))


def _pausing(method: Callable[..., Any], op: str) -> Callable[..., Any]:
    def call(self: SimDisk, *args: Any) -> Any:
        result = method(self, *args)
        if op == "mkdir":
            self._made.append(args[0])
            self.order.made(args[0])
        self.after(op)
        return result

    return call


for _name in ("mkdir", "rename", "unlink", "rmdir", "sync_directory"):
    setattr(SimDisk, _name, _pausing(getattr(SimDisk, _name), _name))
watch_class(SimDisk, FileSystem)
