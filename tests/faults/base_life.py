"""The life of one data directory, from crash to crash, judged after each. Under any load.

A cycle: the broker starts (with faults, possibly dying during recovery), everything is read and
checked against the whole history, then the clients run until the crash: a place in the code that
kills, or a kill, a power cut or a stop at a random moment. The clients outlive the broker.
`finish` stops it without load: then `barnabas verify` must find nothing (H8). A cycle with too few
acknowledgements proves nothing and counts as a failure (H9).

Which clients there are, and how what they saw is judged, a subclass says.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from client.files.findings import DAMAGE, NOTE
from client.files.verify import Verification
from storage.files.os_filesystem import OsFileSystem
from tests.faults.clients import Clients
from tests.faults.failpoints import Crash
from tests.faults.faulty_broker import FaultyBroker
from tests.faults.faulty_filesystem import cut_power_of
from tests.faults.power import Ext4
from tests.faults.rot import flip_a_bit, spoil_the_ends, spoil_the_lists
from tests.faults.wire import Connection
from tests.support.broker_process import BrokerNotReady
from tests.support.history_checker import Anomaly, Key
from tests.support.log_ledger import HIGH_WATERMARK, Ledger, SeenBatch, batches_in
from tests.support.patience import Limit
from tests.support.raw_client import EARLIEST, Closed

SETTINGS = {
    "barnabas.recovery.point.interval.ms": "100",
    "log.retention.check.interval.ms": "150",
    "log.initial.task.delay.ms": "100",
    "auto.create.topics.enable": "false",
    "log.cleaner.backoff.ms": "50",
}
SMALL = {"index.interval.bytes": "256", "file.delete.delay.ms": "200"}
COMPACTING = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "16384",
    "min.cleanable.dirty.ratio": "0.01",
    **SMALL,
}
# Of an idle machine: a busy one stretches them (`tests.support.patience`).
LOAD_S_MAX = 10.0
START_S_MAX = 60.0
REFUSALS_OF_ROT = {2, 56}  # CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR
FAILPOINT_S_MAX = 1.0  # how long to wait for a failpoint; what does not come to it is killed
FAILPOINT_STRETCH_MAX = 3.0

Topics = Mapping[str, tuple[int, Mapping[str, str]]]  # partitions and configs of each


@dataclass(slots=True)
class Tally:
    """The figures of one life, or of many."""

    cycles: int = 0
    kills: int = 0
    power_cuts: int = 0
    stops: int = 0
    by_failpoint: int = 0
    acknowledged: int = 0
    committed: int = 0
    transactions: int = 0
    settled: int = 0  # checks with all transactions over
    lag_s_max: float = 0.0
    found: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return one line for a person."""
        return (
            f"{self.cycles} cycles: {self.kills} kills, {self.power_cuts} power cuts, "
            f"{self.stops} clean stops ({self.by_failpoint} at a failpoint); "
            f"{self.acknowledged} operations acknowledged, "
            f"{self.committed} offsets committed, {self.transactions} transactions ended, all over "
            f"in {self.settled} checks, {len(self.found)} anomalies; "
            f"a reader was at most {self.lag_s_max:.3f} s late"
        )

    def add(self, other: Tally) -> None:
        """Add the figures of another tally."""
        for field_ in fields(self):
            if field_.type == "int":
                setattr(self, field_.name, getattr(self, field_.name) + getattr(other, field_.name))
        self.lag_s_max = max(self.lag_s_max, other.lag_s_max)
        self.found += other.found


class BaseLife(ABC):
    """See the module. With a `shape` the directory is on an ext4 whose power can be cut."""

    topics: Topics
    settings: Mapping[str, str] = SETTINGS
    rots: Sequence[Key] = ()  # where a bit may flip
    acknowledged_min = 10  # in a cycle without a failpoint, or the cycle proves nothing
    acknowledged_wanted = 10  # before a crash at a random moment

    def __init__(
        self, directory: Path, seed: int, ledger: Ledger, *, shape: str = "", broken: str = ""
    ) -> None:
        self.directory = directory
        self.disk = Ext4(directory, shape) if shape else None
        data = (self.disk.mountpoint if self.disk else directory) / "data"
        self.broker = FaultyBroker(data, dict(self.settings), broken=broken)
        self.broker.output_path = directory / "output"
        self.chance = random.Random(seed)
        self.ledger = ledger
        self.tally = Tally()
        self.rotten: list[tuple[Key, int]] = []  # where a bit was flipped: key, offset
        self.crash: Crash | None = None  # that the cycle is to end in
        self._was_cut = False
        self._topics_are_made = False
        self.clients = self._clients((self.broker.host, self.broker.port))

    @abstractmethod
    def _clients(self, address: tuple[str, int]) -> Clients:
        """Return the clients."""

    @abstractmethod
    async def _read_all(self, connection: Connection) -> None:
        """Read everything there is, and note it."""

    @abstractmethod
    def _judge(self) -> list[Anomaly]:
        """Return the anomalies in all that is known so far, but for the ledger's."""

    @abstractmethod
    def _harden(self) -> None:
        """Note that all is on the disk, after a clean stop."""

    # -- the cycle ----------------------------------------------------------------------------

    async def live_through(self, crash: Crash) -> list[str]:
        """Run one cycle; return what is wrong with the state that the earlier crashes left."""
        self.crash = crash
        await self._start(crash.recovering, crash.serving)
        found = await self._look()
        before, committed = self.clients.acknowledged, self.clients.committed
        self.clients.gate.set()
        died = await self._load(crash, before)
        await self._end(crash, died=died)
        acknowledged = self.clients.acknowledged - before
        is_judged = not died and not crash.serving and not self.broker.broken
        if is_judged and acknowledged < self.acknowledged_min:
            found.append(f"H9: only {acknowledged} acknowledged in a cycle")
        self.tally.cycles += 1
        self.tally.acknowledged += acknowledged
        self.tally.committed += self.clients.committed - committed
        return found

    async def finish(self) -> list[str]:
        """Check once more, stop without load, verify, and check after a clean start, too."""
        self.crash = None
        await self._start()
        found = await self._look()
        await self.clients.stop()
        found += await self._stop_cleanly()
        found += self._verify()
        await self._start()
        found += await self._look()
        await self._kill()
        return found

    async def abandon(self) -> None:
        """Stop all processes and unmount, whatever has happened."""
        if self.broker.running:
            await self._kill()
        self.clients.cancel()
        if self.disk is None or not self.disk.image.exists():
            return
        if self.tally.found:
            self.disk.unmount()  # the image stays for inspection
        else:
            self.disk.remove()

    async def _start(self, recovering: Sequence[str] = (), serving: Sequence[str] = ()) -> None:
        """Start until the broker listens; a fault may end it before that once."""
        self.broker.recovering, self.broker.serving = recovering, serving
        try:
            await asyncio.to_thread(self.broker.start, START_S_MAX)
        except BrokerNotReady:
            self._note_death()
            self.broker.recovering = self.broker.serving = ()
            await asyncio.to_thread(self.broker.start, START_S_MAX)

    def _note_death(self) -> None:
        """Check that a fault that kills ended the broker."""
        process = self.broker.process
        assert process is not None
        assert process.returncode == -9, (
            f"exit {process.returncode}:\n{self.broker.output()[-3000:]}"
        )
        self.tally.by_failpoint += 1
        faults = (*self.broker.recovering, *self.broker.serving)
        self._count_crash(power=any(line.startswith("power") for line in faults))

    def _count_crash(self, *, power: bool) -> None:
        self.tally.kills += not power
        self.tally.power_cuts += power
        if power:
            assert self.disk is not None
            self.disk.unmount()
            self.disk.mount()
            self._was_cut = True

    async def _load(self, crash: Crash, before: int) -> bool:
        """Let the clients work until the crash is due; return whether the broker died by itself."""
        limit = Limit(LOAD_S_MAX)
        span_s = FAILPOINT_S_MAX if crash.serving else self.chance.uniform(0.02, 0.4)
        span = Limit(span_s, FAILPOINT_STRETCH_MAX)
        while not limit.is_over:
            if not self.broker.running:
                return True
            self.clients.check_alive()
            if span.is_over and (
                self.clients.acknowledged - before >= self.acknowledged_wanted or crash.serving
            ):
                return False
            await asyncio.sleep(0.005)
        return False

    async def _end(self, crash: Crash, *, died: bool) -> None:
        if died:
            await self.clients.pause()
            self._note_death()
        elif crash.ending == "stop":
            code = await asyncio.to_thread(self.broker.stop)
            await self.clients.pause()
            self.tally.stops += 1
            if code == 0:
                self._harden()
            if crash.power_after and self.disk is not None:
                self.disk.cut()
                self._count_crash(power=True)
        else:
            if crash.ending == "power":
                assert self.disk is not None
                await asyncio.to_thread(cut_power_of, self.broker.pid, str(self.disk.mountpoint))
            await asyncio.to_thread(self.broker.kill)
            await self.clients.pause()
            self._count_crash(power=crash.ending == "power")
            if crash.ending == "flip":
                flipped = flip_a_bit(self.broker.data, self.rots, self.chance)
                self.rotten += [flipped] if flipped else []
            if crash.ending == "tail":
                spoil_the_ends(self.broker.data, self.chance)
            if crash.ending == "lists":
                spoil_the_lists(self.broker.data, self.chance)

    async def _has_died(self) -> bool:
        """Return whether a broker that does not answer has exited; wait a moment for its exit."""
        for _ in range(200):
            if not self.broker.running:
                return True
            await asyncio.sleep(0.005)
        return False

    async def _kill(self) -> None:
        await asyncio.to_thread(self.broker.kill)

    async def _stop_cleanly(self) -> list[str]:
        code = await asyncio.to_thread(self.broker.stop)
        self._harden()
        return [] if code == 0 else [f"H8: a stop without load ended with {code}"]

    def _verify(self) -> list[str]:
        report = Verification(OsFileSystem(), open_records=True).run([str(self.broker.data)])
        if self.rotten:
            found = any(one.weight == DAMAGE for one in report.findings)
            return [] if found else [f"H8: verify does not find the rot at {self.rotten}"]
        return [f"H8: {one}" for one in report.findings if one.weight != NOTE]

    # -- checks -------------------------------------------------------------------------------

    async def _look(self) -> list[str]:
        """Read everything, and judge all that is known so far."""
        if not self._topics_are_made:
            await self._with_a_broker(self._make_topics)
            self._topics_are_made = True
            self.clients.start()
        await self._with_a_broker(self._read_all)
        found = [*self._judge(), *self.ledger.found, *self.clients.found]
        self.ledger.found.clear()
        self.clients.found.clear()
        return [f"{anomaly.name}: {anomaly.detail}" for anomaly in found]

    async def _with_a_broker(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do some work, and again if the broker dies meanwhile: in its housekeeping, perhaps."""
        while True:
            try:
                connection = await Connection.open(self.broker.host, self.broker.port)
                try:
                    await work(connection)
                finally:
                    connection.close()
                return
            except (Closed, OSError):
                if not await self._has_died():
                    raise
                self._note_death()
                await self._start()

    async def _make_topics(self, connection: Connection) -> None:
        for name, (partitions, configs) in self.topics.items():
            error = await connection.create_topic(name, partitions, configs)
            assert error in (0, 36), f"creating {name}: error {error}"  # 36: it exists

    async def _read(
        self, connection: Connection, key: Key, end: int, raw: list[bytes] | None = None
    ) -> tuple[int, Sequence[SeenBatch]]:
        """Read a key from its start to its end; return the start and the batches.

        Puts the bytes of the answers into `raw`.
        """
        _, start = await connection.offset_at(*key, EARLIEST)
        batches: list[SeenBatch] = []
        position = start
        while position < end:
            answer = await connection.fetch(*key, position, size_max=4 << 20)
            got = list(batches_in(answer.records))
            known = self.ledger.batch_with(key, position)
            if known and answer.error in REFUSALS_OF_ROT and self._is_rotten(key, known):
                got = [known]  # refused as it should be; the broker has not lost its records
            elif answer.error or not got:
                self.ledger.found.append(
                    Anomaly("unreadable", f"{key} at {position} of {end}: error {answer.error}")
                )
                break
            batches += got
            if raw is not None:
                raw.append(answer.records)
            position = got[-1].last_offset + 1
        self.ledger.saw_mark(key, HIGH_WATERMARK, end)
        self.ledger.saw_log(key, start, batches)
        return start, batches

    def _is_rotten(self, key: Key, batch: SeenBatch) -> bool:
        return any(
            key == where and batch.base_offset <= offset <= batch.last_offset
            for where, offset in self.rotten
        )
