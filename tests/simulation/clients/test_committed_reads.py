"""A reader of committed records passes over what was aborted, and only that."""

from types import SimpleNamespace

from protocol.control_records import Marker, build_marker
from protocol.record_batch import write_crc
from protocol.records import Record, build
from tests.simulation.clients.committed_reads import committed_in


def batch(offset, value, producer_id=-1):
    ids = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    more = ids | {"transactional": True} if producer_id >= 0 else {}
    return bytes(build([Record(0, 1, b"k", value)], base_offset=offset, **more))


def marker(offset, producer_id, *, is_commit):
    data = build_marker(Marker(producer_id, 0, is_commit, 0), 1)
    data[:8] = offset.to_bytes(8, "big")
    write_crc(data, 0)
    return bytes(data)


LOG = b"".join(
    (
        batch(0, b"plain"),
        batch(1, b"aborted", 7),
        batch(2, b"other", 8),
        marker(3, 7, is_commit=False),
        batch(4, b"next", 7),
        marker(5, 8, is_commit=True),
        marker(6, 7, is_commit=True),
    )
)


def test_aborted_records_are_passed_over_up_to_their_marker():
    aborted = [SimpleNamespace(producer_id=7, first_offset=1)]
    assert committed_in(LOG, aborted, 0) == [(0, b"plain"), (2, b"other"), (4, b"next")]


def test_markers_are_no_records():
    assert [value for _, value in committed_in(LOG, (), 1)] == [b"aborted", b"other", b"next"]


def test_nothing_holds_nothing():
    assert committed_in(None, (), 0) == []
