"""Logs of one-record batches that were stopped or killed, and the report of the next start."""

from __future__ import annotations

from tests.support.log_house import House, append, batch, checkpoint, flush

SIZE = len(batch())  # of each batch below
LOG = "00000000000000000000.log"
SEGMENTS = {"internal_segment_bytes": 5 * SIZE, "index_interval_bytes": 1}
FIRST, SECOND, THIRD = (f"{base:020}" for base in (0, 5, 10))


def house_with(count, *, below=0, **config):
    """Return a log of `count` one-record batches whose recovery point has passed `below`."""
    house = House()
    house.open()
    log = house.log(**({"internal_segment_bytes": 10**6} | config))
    append(log, below)
    flush(log)
    checkpoint(house, log)
    append(log, count - below)
    flush(log)
    return house


def report_of(house):
    (report,) = house.manager.reports
    return report


def quarantined(house):
    return {name: house.filesystem.live_bytes(house.path(name)) for name in
            house.names("quarantine")}  # fmt: skip


def stopped_house(count=12, *, clean=True, **config):
    """Return a stopped or killed log of three segments: 0, 5 and 10."""
    house = House()
    house.open()
    append(house.log(**(SEGMENTS | config)), count)
    if clean:
        assert house.stop()
    else:
        flush(house.manager.get("t", 0))
        house.kill()
    return house


def warnings_of(house):
    return [text for report in house.manager.reports for text in report.warnings]
