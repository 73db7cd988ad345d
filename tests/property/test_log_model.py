"""A log against a Python list: whatever happens to it, it keeps what was acknowledged.

The model is the list of values that were appended. `durable` counts those that a flush covered;
after a power cut the log must hold at least them, and of the rest a prefix in whole batches.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from storage.errors import OffsetOutOfRange
from tests.support.log_house import (
    NOW,
    House,
    append,
    apply_retention,
    batch,
    checkpoint,
    flush,
    read_all,
)
from tests.support.thorough import examples

SEGMENT_BYTES = 700  # some six batches


class LogModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.values = []  # by offset
        self.start = 0
        self.durable = 0
        self.sequence = 0
        self.last = None  # (batch builder's arguments, offsets) of the producer's last batch

    @initialize(write_caching=st.booleans())
    def begin(self, write_caching):
        self.config = {"internal_segment_bytes": SEGMENT_BYTES, "write_caching": write_caching,
                       "index_interval_bytes": 150, "retention_ms": -1}  # fmt: skip
        self.house = House()
        self.house.open()
        self.log = self.house.log(**self.config)

    def teardown(self):
        if self.values:
            self.house.stop()

    @rule(count=st.integers(1, 5), size=st.integers(0, 120), ms=st.integers(-5_000, 5_000))
    def append(self, count, size, ms):
        marks = [f"{len(self.values) + n}".encode().ljust(size, b".") for n in range(count)]
        for mark in marks:
            appended = self.log.append(batch(mark, timestamp=NOW + ms), NOW)
            assert appended.base_offset == appended.last_offset == len(self.values)
            self.values.append(mark)

    @rule(count=st.integers(1, 3))
    def append_idempotent(self, count):
        arguments = {"value": b"p" * 20, "count": count, "pid": 9, "epoch": 0,
                     "sequence": self.sequence}  # fmt: skip
        appended = self.log.append(batch(**arguments), NOW)
        assert not appended.is_duplicate
        assert appended.base_offset == len(self.values)
        self.values += [b"p" * 20] * count
        self.sequence += count
        self.last = arguments, appended.base_offset

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat(self):
        arguments, base_offset = self.last
        appended = self.log.append(batch(**arguments), NOW)
        assert appended.is_duplicate
        assert appended.base_offset == base_offset

    @rule()
    def roll(self):
        self.log.roll(NOW)

    @rule()
    def flush(self):
        flush(self.log)
        self.durable = len(self.values)

    @rule()
    def checkpoint(self):
        assert checkpoint(self.house, self.log) == self.durable

    @rule(part=st.floats(0, 1))
    def delete_records(self, part):
        # A log with write.caching shows more than is durable, and begins no later than that ends.
        offset = int(self.start + part * (self.log.durable_offset - self.start))
        start = self.log.start_offset
        self.log.delete_records_before(offset)
        assert self.log.start_offset == start, "not before it is durable"
        self.house.manager.write_checkpoints()
        assert self.log.start_offset == offset
        self.start = offset
        apply_retention(self.house, self.log, NOW)
        self.house.purge(NOW + 10**6)

    @rule()
    def stop_and_start(self):
        assert self.house.stop()
        self.durable = len(self.values)
        self.log = self.house.restart(**self.config)
        assert self.house.manager.directory.was_clean
        assert not any(report.reason for report in self.house.manager.reports)

    @rule(wipe=st.sampled_from(["index", "timeindex", "leader-epoch-checkpoint", "producers"]))
    def stop_and_start_without_caches(self, wipe):
        assert self.house.stop()
        self.durable = len(self.values)
        for name in self.house.names(wipe):
            self.house.filesystem.unlink(self.house.path(name))
        self.log = self.house.restart(**self.config)

    @rule()
    def kill_and_start_without_recovery_points(self):
        self.house.kill()
        path = "/data/recovery-point-offset-checkpoint"
        if self.house.filesystem.exists(path):
            self.house.filesystem.unlink(path)
        self.log = self.house.restart(**self.config)
        self.durable = len(self.values)

    @rule()
    def kill_and_start(self):
        self.house.kill()
        self.log = self.house.restart(**self.config)
        assert self.log.end_offset == len(self.values)
        self.durable = len(self.values)

    @rule(unsynced=st.sampled_from(["lost", "kept", "torn", "zeros"]))
    def power_cut(self, unsynced):
        self.house.crash(unsynced)
        self.log = self.house.restart(**self.config)
        end = self.log.end_offset
        assert self.durable <= end <= len(self.values)
        if unsynced == "kept":
            assert end == len(self.values)
        del self.values[end:]
        self.durable = end
        self.start = self.log.start_offset
        entry = self.log.producers.entries.get(9)
        self.sequence = 0 if entry is None else entry.last_sequence + 1
        if self.last is not None and self.last[1] + self.last[0]["count"] > end:
            self.last = None

    @invariant()
    def offsets_agree(self):
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.failed is None
        assert log.end_offset == len(self.values)
        assert log.durable_offset == self.durable
        visible = len(self.values) if log.write_caching else self.durable
        assert log.high_watermark == visible
        assert log.start_offset == self.start
        assert log.recovery_point <= log.durable_offset
        counted = 0 if log.write_caching else log.unflushed_bytes
        assert self.house.manager.unflushed_bytes == counted
        assert (log.unflushed_bytes > 0) == (len(self.values) > self.durable)

    @rule()
    def read_everything(self):
        wanted = dict(enumerate(self.values))
        visible = range(self.start, self.log.high_watermark)
        assert read_all(self.log) == {offset: wanted[offset] for offset in visible}

    @rule(part=st.floats(0, 1), size_max=st.integers(1, 2000))
    def read_from(self, part, size_max):
        high_watermark = self.log.high_watermark
        offset = int(self.start + part * (high_watermark - self.start))
        found = read_all(self.log, offset, size_max)
        assert found == {n: self.values[n] for n in range(offset, high_watermark)}
        assert (self.log.available_bytes(offset) > 0) == (offset < high_watermark)

    @rule()
    def read_outside(self):
        for offset in (self.start - 1, len(self.values) + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read(offset, 100)


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(
    max_examples=examples(40),
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def test_a_consumer_that_keeps_up_needs_no_lookup():
    """At the tail a read finds its position without the index, flush after flush."""
    house = House()
    house.open()
    log = house.log(internal_segment_bytes=10**6)
    append(log, 50)
    flush(log)
    read_all(log)
    for n in range(20):
        append(log)
        flush(log)
        assert list(read_all(log, 50 + n)) == [50 + n]
