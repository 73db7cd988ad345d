"""Compaction beside a list: random lives of a compacted log, seed by seed.

The list has every record that was appended and not lost in a power cut. After each step a reader
sees a subset of the list that includes the newest record of each key if it has a value; producer
state is unchanged; no offset is assigned twice.
"""

import random

import pytest

from protocol.record_batch import batches
from protocol.records import Record, read_records
from tests.support.compacting import COMPACTED, clean, keyed, newest, records_of
from tests.support.log_house import NOW, House, checkpoint, flush

SEEDS = 60
STEPS = 40
MAX = 1 << 20


class Life:
    """One log across restarts, and the list."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.config = COMPACTED | {
            "internal_segment_bytes": self.chance.choice((600, 1000, 4000)),
            "index_interval_bytes": self.chance.choice((1, 100, 4096)),
            "delete_retention_ms": 5_000,
        }
        self.house = House()
        self.house.open()
        self.log = self.house.log(**self.config)
        self.records: dict[int, Record] = {}
        self.sequences: dict[int, int] = {}
        self.now_ms = NOW
        self.epoch = 0

    def append(self) -> None:
        chance = self.chance
        pairs = [
            (
                b"k%d" % chance.randrange(chance.choice((3, 30))),
                None if chance.random() < 0.2 else chance.randbytes(chance.choice((0, 5, 40))),
            )
            for _ in range(chance.choice((1, 1, 3, 8)))
        ]
        options = {"codec": chance.randrange(5), "timestamp": self.now_ms}
        if chance.random() < 0.5:
            pid = chance.randrange(3)
            options |= {"pid": pid, "epoch": 0, "sequence": self.sequences.get(pid, 0)}
            self.sequences[pid] = self.sequences.get(pid, 0) + len(pairs)
        batch = keyed(pairs, **options)
        self.log.append(batch, self.now_ms)
        for position, _ in batches(batch):
            for record in read_records(batch, position, size_max=MAX):
                self.records[record.offset] = record

    def clean(self) -> None:
        self.now_ms += self.chance.choice((0, 1_000, 6_000))
        slots = self.chance.choice((5, 20, 1000))
        clean(self.house, self.log, self.now_ms, map_bytes_max=24 * slots)

    def settle(self) -> None:
        flush(self.log)
        checkpoint(self.house, self.log)

    def end(self) -> None:
        """End the process, with or without a power cut, and start again."""
        ending = self.chance.choice(("stop", "kill", "lost", "torn", "kept", "zeros"))
        durable_offset = self.log.durable_offset
        if ending in ("stop", "kill"):
            getattr(self.house, ending)()
        else:
            self.house.crash(ending)
        self.epoch += 1
        self.house.open()
        self.log = self.house.log(epoch=self.epoch, **self.config)
        assert self.log.end_offset >= durable_offset
        self.records = {o: r for o, r in self.records.items() if o < self.log.end_offset}
        self.sequences = {
            pid: (entry.last_sequence + 1) % (1 << 31)
            for pid, entry in self.log.producers.entries.items()
        }

    def check(self) -> None:
        self.settle()
        found = records_of(self.log)
        assert [r.offset for r in found] == sorted({r.offset for r in found})
        assert all(self.records[r.offset] == r for r in found)
        assert newest(found) == newest(self.records[o] for o in sorted(self.records))
        reached = self.log.segments.cleaned.offset
        old = [r for r in found if r.offset < reached]
        assert len({r.key for r in old}) == len(old), "one record a key below the clean point"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_compacted_log_is_its_newest_records(seed: int) -> None:
    life = Life(seed)
    steps = (life.append,) * 8 + (life.clean, life.clean, life.settle, life.end)
    for _ in range(STEPS):
        life.chance.choice(steps)()
        if life.chance.random() < 0.2:
            life.check()
    life.check()
