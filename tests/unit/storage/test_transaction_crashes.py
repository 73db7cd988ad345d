"""A log's transactions after a kill or a power cut in every call of a scripted life.

Whatever is left of the log, the start lists what was aborted in it and what is open, finds every
marker that was not settled, and takes back no outcome that readers have seen.
"""

from contextlib import suppress

import pytest

from protocol.control_records import read_marker
from protocol.record_batch import batches
from tests.support.log_house import NOW, House, append, batch, checkpoint, flush
from tests.support.log_transactions import mark, send
from tests.support.thorough import some_of

CONFIG = {"internal_segment_bytes": 7 * len(batch())}


class EndError(BaseException):
    """The process ends here."""


class Life:
    """The script, and what a client was told until it ended."""

    def __init__(self):
        self.house = House()
        self.settled = {}  # marker's offset -> whether it is a commit
        self.unsettled = set()

    def run(self):
        house = self.house
        house.open()
        log = house.log(**CONFIG)
        for n in range(5):
            send(log, 5, epoch=n)
            send(log, 6, 2, epoch=n)
            append(log)
            self.end(log, 5, n + 1, commit=n % 2 == 0)
            if n == 2:
                checkpoint(house, log)
            self.end(log, 6, n + 1, commit=n % 3 == 0)
            if n % 2:
                checkpoint(house, log)
        send(log, 7)
        self.unsettled.add(log.end_offset)
        mark(log, 7, commit=False)
        send(log, 8)
        for _ in range(2):
            append(log, 3)
            flush(log)
            checkpoint(house, log)
        house.stop()

    def end(self, log, pid, epoch, *, commit):
        self.unsettled.add(log.end_offset)
        offset = mark(log, pid, commit=commit, epoch=epoch)
        flush(log)
        if log.durable_offset > offset:
            log.settle(offset)
            self.unsettled.discard(offset)
            self.settled[offset] = commit

    def judge(self):
        log = self.house.restart(**CONFIG)
        offset, begun, aborted, markers = log.start_offset, {}, [], {}
        while (piece := log.read(offset, 1000)) is not None:
            data = piece.read()
            for at, header in batches(data):
                batch = data[at : at + header.size]
                if header.is_control:
                    first = begun.pop(header.producer_id, None)
                    markers[header.base_offset] = read_marker(batch)
                    if not markers[header.base_offset].is_commit:
                        aborted.append((header.producer_id, first))
                elif header.is_transactional:
                    begun.setdefault(header.producer_id, header.base_offset)
                offset = header.next_offset
        assert log.aborted(0, log.end_offset) == aborted
        assert {one.producer_id: one.first_offset for one in log.open_transactions()} == begun
        assert log.last_stable_offset == min([log.high_watermark, *begun.values()])
        for marker_offset, is_commit in self.settled.items():
            assert markers[marker_offset].is_commit is is_commit
        left = self.unsettled & markers.keys()
        assert left <= {one.offset for one in log.replayed_markers}
        assert not left or log.checkpointable_offset <= min(left)


def calls():
    life = Life()
    life.run()
    return len(life.house.filesystem.calls)


ENDS = ["kill", "lost", "torn", "zeros", "kept"]


@pytest.mark.parametrize("how", ENDS)
def test_whatever_call_the_life_ends_in(how):
    total = calls()
    assert total > 100
    for nth in some_of(range(1, total + 1), ENDS.index(how)):
        life, seen = Life(), 0
        filesystem = life.house.filesystem

        def before(_operation, _path, nth=nth):
            nonlocal seen
            seen += 1
            return (EndError(), 0.5 if seen == nth else 0.0) if seen >= nth else None

        filesystem.before = before
        with suppress(EndError):
            life.run()
        filesystem.before = None
        if life.house.manager is not None:
            life.house.manager.abandon()
        filesystem.kill() if how == "kill" else filesystem.crash(how)
        life.house.now_ms = NOW + 1
        life.judge()
