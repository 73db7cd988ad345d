"""The row of segments: which segment holds an offset, and where the readable part ends."""

import pytest

from storage.errors import AppendFailed
from storage.segments.row import HoleInLogError, create_segment
from storage.segments.segment import Segment
from tests.support.log_house import NOW, House, append, batch, flush

SIZE = len(batch())


@pytest.fixture
def house():
    house = House()
    house.open()
    return house


@pytest.fixture
def log(house):
    log = house.log(internal_segment_bytes=5 * SIZE)
    append(log, 12)
    flush(log)
    append(log, 2)
    return log


@pytest.mark.parametrize(
    ("offset", "index"), [(-5, 0), (0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (99, 2)]
)
def test_index_of(log, offset, index):
    assert log.segments.index_of(offset) == index


@pytest.mark.parametrize(
    ("index", "limit", "batches"),
    [(0, 12, 5), (2, 12, 2), (2, 14, 4), (0, 14, 5), (0, 3, 3), (1, 7, 2), (2, 11, 1)],
)
def test_position_of_end(log, index, limit, batches):
    segment = log.segments.all[index]
    assert log.segments.position_of_end(segment, limit, 14) == batches * SIZE


def test_the_durable_end_needs_no_read(house, log):
    before = house.filesystem.counts["pread"]
    assert log.segments.position_of_end(log.segments.active, 12, 14) == 2 * SIZE
    assert house.filesystem.counts["pread"] == before


def test_segments_below_the_limit_are_counted_without_a_look_up(log, monkeypatch):
    """A last stable offset is no durable offset, whose position is remembered."""
    looked_at = []
    position_of = Segment.position_of

    def noted(segment, *arguments):
        looked_at.append((segment.base_offset, *arguments))
        return position_of(segment, *arguments)

    monkeypatch.setattr(Segment, "position_of", noted)
    assert log.segments.available_bytes(1, 11, 14) == 10 * SIZE
    assert looked_at == [(0, 1, 5 * SIZE), (10, 11)]


def test_a_hole_is_an_error_unless_compaction_made_it(log):
    del log.segments.all[1]
    arguments = {"limit": 12, "end_offset": 14, "at_least_one_batch": True}
    with pytest.raises(HoleInLogError):
        log.segments.read(6, 1000, **arguments)
    log.segments.cleaned.compacted = True
    found = log.segments.read(6, 1000, **arguments)
    assert len(found) == 2 * SIZE
    assert log.segments.read(6, 1000, **(arguments | {"limit": 10})) is None


def test_replace_takes_closed_segments_only(log):
    segments = log.segments
    twin = segments.all[1]
    segments.replace(twin)
    before = list(segments.all)
    segments.replace(segments.active)
    assert segments.all == before
    gone = segments.drop_first(1)[0]
    segments.replace(gone)
    assert segments.all == before[1:]
    with pytest.raises(AssertionError):
        segments.drop_first(2)


def test_a_new_segment_has_its_index_files(house):
    log = house.log()
    assert house.names("index") == [f"{0:020}.index", f"{0:020}.timeindex"]
    house.filesystem.fail("open", path_part=f"{7:020}.timeindex")
    with pytest.raises(AppendFailed) as caught:
        create_segment(house.manager.home.files, log.directory, 7, log.config, NOW)
    assert caught.value.rolled_back
