"""A scripted life of a broker, and everything that must be true of it whatever fails.

`Life.script` starts a broker on a disk in memory, creates topics, produces (plain, idempotent,
retried, acks=1), reads, checkpoints, deletes records, lets retention run, deletes a topic, stops
cleanly, starts, is killed, recovers, and stops again. The test makes file calls fail or ends the
process at one of them. The script notes the answers and continues as a client would. `Life.judge`
then starts once more, on a healthy disk, and checks the logs against the answers:

- every batch acknowledged with acks=all is in the log, at the offsets of its answer, whole, once;
- so is every batch acknowledged with acks=1, but for a suffix of the log after a power cut;
- a value that was read at an offset is still there;
- the log holds only whole batches that were sent, each once; offsets have no holes;
- deleted records and topics stay deleted, created topics stay created;
- the broker appends more, stops cleanly, and the next start has nothing to recover.

During the script every request is answered, with an error code that the fault allows
(`life_client`).

`tests.faults.life` differs: it runs a process under a random load and crashes it at random moments.
"""

import contextlib
import errno
from collections.abc import Callable
from typing import Any

from broker.metadata.topic_rules import GROUP_TOPIC
from storage.errors import StorageError
from tests.support import life_groups
from tests.support.life_client import LARGE_BYTES, SMALL, TOPICS, Expected, LifeClient
from tests.support.life_groups import CLASSIC, CONSUMER, DELETED, SIMPLE, LifeGroups
from tests.support.memory_broker import DATA, NOW_MS, MemoryBroker
from tests.support.memory_filesystem import MemoryFileSystem

# A metadata snapshot after every change or two, and only the last two are kept.
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "100",
    "metadata.max.retention.bytes": "1",
}
LARGE_REPEAT = 60_000  # makes a batch larger than one read of recovery


class Life(LifeClient):
    """One run of the script over `filesystem`, and the checks after it."""

    def __init__(self, filesystem: MemoryFileSystem, kind: str = "whole") -> None:
        super().__init__()
        self.filesystem = filesystem
        self.script: Callable[[], None] = getattr(self, f"_{kind}_script")
        self.groups: LifeGroups | None = None
        self.settings: dict[str, str] = {}
        self.life = 0
        self.power_was_cut = False
        self.refusals: list[str] = []

    # -- The script ---------------------------------------------------------------------------

    def _whole_script(self) -> None:
        """Run the whole script. Raises Killed, and AssertionError for a broken invariant."""
        if not self._start():
            return
        self._drive(self._first())
        self._stop()
        if not self._start():
            return
        self._drive(self._second())
        self._kill()
        if not self._start():
            return
        self._drive(self._third())
        self._stop()

    def _large_script(self) -> None:
        """Batches that recovery reads in several pieces and that are sent from a mapped file."""
        self.topics = {"large": Expected()}
        for work in (self._large, self._read_large):
            if not self._start():
                return
            self._drive(work())
            self._kill()

    def _repairs_script(self) -> None:
        """A deleted index, and a segment from an interrupted swap by Kafka."""
        if not self._start():
            return
        self._drive(self._fill())
        self._stop()
        self._tamper("unlink", "plain-0/00000000000000000000.index")
        swap = "idem-0/00000000000000000000.log"
        self._tamper("rename", swap, swap + ".swap")
        # Zeros at the end of an index, as a killed Kafka leaves them.
        self._write("plain-0/00000000000000000006.index", bytes(4096))
        if not self._start():
            return
        self._drive(self._third())
        self._drive(self._third())
        self._stop()

    def _compacted_script(self) -> None:
        """A log that is compacted twice, so that segments merge, and again after a kill."""
        self.topics = {"kept": Expected(is_compacted=True)}
        if not self._start():
            return
        self._drive(self._keep())
        self._kill()
        # Kafka's list of aborted transactions, which a merged segment keeps.
        self._write("kept-0/00000000000000000006.txnindex", bytes(34))
        if not self._start():
            return
        self._drive(self._keep_on())
        self._stop()

    def _groups_script(self) -> None:
        """Members of both kinds of group, their offsets, and the compaction of the offsets."""
        self.topics = {"plain": Expected()}
        self.groups = groups = LifeGroups()
        self.settings = life_groups.SETTINGS
        for work in (self._commit, self._commit_more, self._delete_offsets):
            if not self._start():
                return
            groups.broker = self.broker
            self._drive(work(groups))
            if work == self._commit_more:
                self._kill()
            else:
                self._stop()

    def _snapshots_script(self) -> None:
        """Topics are created and deleted while the metadata log is snapshotted and trimmed."""
        self.topics = {name: Expected() for name in ("plain", "gone")}
        self.settings = SNAPSHOTS
        for work in (self._change_metadata, self._change_metadata_on):
            if not self._start():
                return
            self._drive(work())
            self._kill()
        if self._start():
            self._drive(self._change_metadata_on())
            self._stop()

    async def _change_metadata(self) -> None:
        for name in self.topics:
            await self.create(name)
            await self._snapshot_metadata()
        await self.produce("plain")
        await self._change_metadata_on()
        await self.delete_topic("gone")
        await self._snapshot_metadata()

    async def _change_metadata_on(self) -> None:
        for number in range(3):
            await self.alter("plain", {"retention.ms": str(86_400_000 + number)})
            await self._snapshot_metadata()
        await self.produce("plain")
        await self.broker.duty("deletions")

    async def _snapshot_metadata(self) -> None:
        """Snapshot as housekeeping does: the second checkpoint follows the flush of a roll."""
        for duty in ("checkpoints", "metadata", "checkpoints", "metadata"):
            await self.broker.duty(duty)

    async def _commit(self, groups: LifeGroups) -> None:
        await self.create("plain")
        await groups.find()
        await self.alter(GROUP_TOPIC, SMALL | {"min.cleanable.dirty.ratio": "0.0"})
        await groups.join()
        await groups.beat()
        for _ in range(3):
            for name in groups.offsets:
                await groups.commit(name)
        await groups.fetch_all()
        await self.broker.duty("checkpoints")
        await self.broker.compact(GROUP_TOPIC)
        await groups.commit(SIMPLE)

    async def _commit_more(self, groups: LifeGroups) -> None:
        await groups.commit(SIMPLE)  # the coordinator may still be loading
        await self.broker.loading
        await groups.fetch_all()
        await groups.join()
        await groups.beat()
        for name in (CLASSIC, CONSUMER):
            await groups.commit(name)
        await groups.delete(DELETED)
        await self.broker.duty("groups")

    async def _delete_offsets(self, groups: LifeGroups) -> None:
        await self.broker.loading
        await groups.forget(SIMPLE)
        await groups.beat()
        await groups.commit(DELETED)
        await groups.commit(CONSUMER)
        await groups.fetch_all()

    async def _keep(self) -> None:
        await self.create("kept")
        for count in (7, 4):
            for _ in range(count):
                await self.produce("kept")
            await self.broker.duty("checkpoints")
            await self.broker.compact("kept")
            await self.broker.duty("checkpoints")
            await self.read_all()
        await self.broker.duty("deletions")
        await self.produce("kept")

    async def _keep_on(self) -> None:
        await self.read_all()
        for _ in range(4):
            await self.produce("kept")
        await self.broker.duty("checkpoints")
        await self.broker.compact("kept")
        await self.read_all()
        await self.broker.duty("deletions")

    def _write(self, name: str, content: bytes) -> None:
        """Append bytes to a file without the broker's knowledge."""
        before, self.filesystem.before = self.filesystem.before, None
        with contextlib.suppress(OSError):
            file = self.filesystem.open(f"{DATA}/{name}", create=True)
            file.pwrite(content, file.size())
            file.fdatasync()
        self.filesystem.before = before

    def _tamper(self, operation: str, *names: str) -> None:
        """Run a file operation without the broker's knowledge, if the files exist."""
        before, self.filesystem.before = self.filesystem.before, None
        with contextlib.suppress(OSError):
            getattr(self.filesystem, operation)(*(f"{DATA}/{name}" for name in names))
        for name in TOPICS:
            with contextlib.suppress(OSError):
                self.filesystem.sync_directory(f"{DATA}/{name}-0")
        self.filesystem.before = before

    def _start(self) -> bool:
        self.life += 1
        self.broker = MemoryBroker(
            self.filesystem, started_ms=NOW_MS + self.life * 100_000, **self.settings
        )
        try:
            self.broker.start()
        except (StorageError, OSError) as error:
            self.refusals.append(repr(error))
            self.broker.end()
            return False
        return True

    def _drive(self, work: Any) -> None:
        self.broker.run(work)
        assert not self.broker.surprises, self.broker.surprises

    def _stop(self) -> bool:
        clean = bool(self.broker.run(self.broker.stop()))
        assert not self.broker.surprises, self.broker.surprises
        self.broker.end()
        self.filesystem.kill()
        return clean

    def _kill(self) -> None:
        self.broker.services.logs.abandon()
        self.broker.end()
        self.filesystem.kill()

    async def _large(self) -> None:
        await self.create("large")
        await self.produce("large", repeat=LARGE_REPEAT)
        await self.broker.duty("checkpoints")
        await self.read("large", LARGE_BYTES)
        await self.produce("large", repeat=LARGE_REPEAT)

    async def _read_large(self) -> None:
        await self.read("large", LARGE_BYTES)

    async def _fill(self) -> None:
        for name in TOPICS:
            await self.create(name)
        await self.new_producer()
        for _ in range(6):
            await self.produce("plain")
            await self.produce("idem", idempotent=True)

    async def _first(self) -> None:
        for name in TOPICS:
            await self.create(name)
        await self.new_producer()
        for _ in range(4):
            await self.produce("plain")
            await self.produce("idem", idempotent=True)
            await self.produce("short")
        await self.produce("gone")
        await self.produce("plain", acks=1)
        await self.broker.duty("checkpoints")
        await self.read_all()
        await self.look_up("plain")
        await self.produce("idem", idempotent=True)
        await self.produce("idem", idempotent=True, again=True)
        await self.delete_records("plain", 3)
        await self.broker.duty("checkpoints")
        self.topics["short"].may_be_trimmed = True
        await self.broker.duty("retention")
        await self.delete_topic("gone")
        await self.alter("plain", {"retention.ms": "86400000"})
        await self.broker.duty("deletions")
        await self.produce("short")
        await self.create_again("gone")

    async def _second(self) -> None:
        await self.read_all()
        await self.look_up("idem")
        for _ in range(2):
            await self.produce("plain")
            await self.produce("idem", idempotent=True)
        await self.broker.duty("checkpoints")
        for _ in range(3):
            await self.produce("plain")
        await self.produce("idem", idempotent=True)
        await self.produce("plain", acks=1)

    async def _third(self) -> None:
        await self.broker.duty("deletions")
        await self.read_all()
        await self.produce("idem", idempotent=True, again=True)
        await self.produce("idem", idempotent=True)
        await self.produce("plain")
        await self.look_up("plain")
        await self.broker.duty("checkpoints")

    def close(self) -> None:
        """Close the broker, whatever its state."""
        self.broker.end()

    # -- Checks -------------------------------------------------------------------------------

    def judge(self) -> None:
        """Start on a healthy disk and check the logs against the answers."""
        self.filesystem.before = None
        assert self._start(), f"no start on a healthy disk: {self.refusals[-1]}"
        self._drive(self._judge())
        assert self._stop(), f"no clean stop: {self.broker.services.logs.warnings}"
        assert self._start(), f"no start after a clean stop: {self.refusals[-1]}"
        logs = self.broker.services.logs
        assert logs.directory.was_clean, "the stop was not clean"
        lines = [line for report in logs.reports for line in report.lines()]
        assert all("aborted transactions" in line for line in lines), lines
        self._drive(self._judge())
        assert self._stop()

    async def _judge(self) -> None:
        for name, topic in self.topics.items():
            is_there = name in self.broker.services.controller.image.topics
            if topic.is_gone:
                assert not is_there, f"{name} is back"
                continue
            if topic.is_created and not topic.may_be_gone:
                assert is_there, f"{name} was created, but does not exist"
            if not is_there:
                assert topic.may_be_gone or not any(s.offset >= 0 for s in topic.sent), name
                continue
            code, start, found = await self.read(name)
            assert code == 0, (name, code)
            self._check_promises(name, topic, start, found)
            if not await self.produce(name):
                continue
            raise AssertionError(f"{name} accepts no more records")
        if self.groups is not None:
            self.groups.broker = self.broker
            await self.groups.judge(
                has_topic="plain" in self.broker.services.controller.image.topics
            )

    def _check_promises(
        self, name: str, topic: Expected, start: int, found: dict[int, bytes]
    ) -> None:
        if topic.is_compacted:
            self._check_newest(name, topic, found)
            return
        end = start + len(found)
        assert topic.start_min <= start, f"{name}: deleted records are back"
        if not topic.may_be_trimmed:
            assert start <= topic.start_max, f"{name}: begins at {start}"
        for offset, value in topic.seen.items():
            assert offset < start or found.get(offset) == value, f"{name}: {offset} was seen"
        for sent in topic.sent:
            if sent.offset < 0:
                continue
            for number, value in enumerate(sent.values):
                at = sent.offset + number
                if at < start or (self.power_was_cut and sent.acks == 1 and at >= end):
                    continue
                assert found.get(at) == value, f"{name}: {value!r}, acknowledged at {at}, is gone"
        if self.power_was_cut:  # later checks must not expect the lost batches
            topic.sent = [s for s in topic.sent if s.acks != 1 or s.offset < end]

    def _check_newest(self, name: str, topic: Expected, found: dict[int, bytes]) -> None:
        """Check a compacted topic: all batches have the same keys, so the last one must remain."""
        acknowledged = [sent for sent in topic.sent if sent.offset >= 0]
        if acknowledged:
            newest = acknowledged[-1]
            later = topic.sent[topic.sent.index(newest) + 1 :]
            known = {value for sent in (newest, *later) for value in sent.values}
            assert known & set(found.values()), f"{name}: the newest record of a key is gone"


def os_error(number: int) -> OSError:
    """Return an error as the system raises it."""
    return OSError(number, errno.errorcode[number])
