"""Which segments are merged into one."""

from storage.compaction.grouping import grouped, source_segments
from tests.support.compacting import ONE, keyed_house


def test_a_group_fits_one_segment_in_bytes_and_in_offsets():
    _, log = keyed_house(23)
    sources = source_segments(log, 20)
    sizes = [[one.file.base_offset for one in group] for group in grouped(sources, 12 * ONE, 10**6)]
    assert sizes == [[0, 5], [10, 15]]
    assert len(grouped(sources, 10**6, 10**6)) == 1
    assert len(grouped(sources, 10**6, 0)) == 4
    far = sources[1]._replace(file=sources[1].file._replace(end_offset=2**31 + 1))
    assert len(grouped([sources[0], far], 10**6, 10**6)) == 2
