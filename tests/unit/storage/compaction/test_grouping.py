"""Which segments are merged into one."""

from storage.compaction.grouping import appended_after, grouped, source_segments
from storage.segments.checked_batches import read_batches
from tests.support.compacting import ONE, fill, keyed_house, nothing


def test_a_group_fits_one_segment_in_bytes_and_in_offsets():
    _, log = keyed_house(23)
    sources = source_segments(log, 20)
    sizes = [[one.file.base_offset for one in group] for group in grouped(sources, 12 * ONE, 10**6)]
    assert sizes == [[0, 5], [10, 15]]
    assert len(grouped(sources, 10**6, 10**6)) == 1
    assert len(grouped(sources, 10**6, 0)) == 4
    far = sources[1]._replace(file=sources[1].file._replace(end_offset=2**31 + 1))
    assert len(grouped([sources[0], far], 10**6, 10**6)) == 2


def test_what_is_appended_behind_a_pass_is_read_up_to_its_end_at_the_start():
    _, log = keyed_house(23)
    behind = appended_after(log, 15)
    fill(log, 2)
    assert [(file.base_offset, file.end_offset) for file in behind] == [(15, 20), (20, 23)]
    found = [header.base_offset for file in behind for _, header, _ in read_batches(file, nothing)]
    assert found == list(range(15, 23))
