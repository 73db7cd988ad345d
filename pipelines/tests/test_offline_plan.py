"""How ranges of offsets are cut into tasks: by bytes, where a batch begins, nothing read twice."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from test_segments import batch, flipped, write

from pyspark_barnabas.options import offline_options
from pyspark_barnabas.source.offline_log import DataDirectory
from pyspark_barnabas.source.offline_plan import plan

SIZE = len(batch(0))


def tasks(directory, **options):
    given = offline_options({"path": str(directory), "subscribe": "t", **options})
    return plan(DataDirectory(str(directory)), given)


def shape(found):
    """Each task as the (base offset, start, end) of its spans, in batches."""
    return [
        [(one.segment.base_offset, one.start // SIZE, one.end // SIZE) for one in task.spans]
        for task in found
    ]


def fill(directory, counts):
    """Segments with so many batches of three records each."""
    offset = 0
    for count in counts:
        write(directory, [batch(offset + 3 * index) for index in range(count)], base=offset)
        offset += 3 * count
    return offset


@pytest.mark.parametrize(
    ("counts", "room", "expected"),
    [
        ([4], 10, [[(0, 0, 4)]]),
        ([10], 4, [[(0, 0, 4)], [(0, 4, 8)], [(0, 8, 10)]]),
        ([9], 4, [[(0, 0, 4)], [(0, 4, 9)]]),  # a single batch is not worth a task
        ([2, 2, 2], 4, [[(0, 0, 2), (6, 0, 2)], [(12, 0, 2)]]),
        ([3, 6], 4, [[(0, 0, 3), (9, 0, 1)], [(9, 1, 6)]]),
        ([1, 1, 1, 1], 100, [[(0, 0, 1), (3, 0, 1), (6, 0, 1), (9, 0, 1)]]),
        ([0, 3], 4, [[(0, 0, 3)]]),
    ],
)
def test_tasks_are_of_about_one_size(tmp_path, counts, room, expected):
    fill(tmp_path, counts)
    found = tasks(tmp_path, bytesPerPartition=str(room * SIZE))
    assert shape(found) == expected


def test_min_partitions_makes_tasks_smaller(tmp_path):
    fill(tmp_path, [40])
    assert len(tasks(tmp_path)) == 1
    assert len(tasks(tmp_path, minPartitions="8")) == 8


def test_spans_join_without_a_gap_and_without_an_overlap(tmp_path):
    end = fill(tmp_path, [7, 13, 1, 30])
    for room in range(1, 40, 3):
        found = tasks(tmp_path, bytesPerPartition=str(room * SIZE))
        spans = [span for task in found for span in task.spans]
        for before, after in pairwise(spans):
            if before.segment == after.segment:
                assert before.end == after.start
                assert before.end_offset == after.next_offset
            else:
                assert (before.end, after.start) == (before.segment.size, 0)
        assert spans[-1].end_offset is None
        assert sum(span.size for span in spans) == end // 3 * SIZE
        assert all(task.end is None for task in found)


def test_ranges_are_cut_by_records_exactly(tmp_path):
    end = fill(tmp_path, [7, 13])
    found = tasks(tmp_path, maxRecordsPerPartition="10")
    assert [(task.start, task.end) for task in found] == [
        *[(start, start + 10) for start in range(0, end - 10, 10)], (end - 10, None),
    ]  # fmt: skip


def test_a_range_that_is_given_by_its_offset_ends_there(tmp_path):
    end = fill(tmp_path, [7])
    for given, wanted in [({"0": end}, end), ({"0": 4}, 4), ({"0": -1}, None)]:
        (task,) = tasks(tmp_path, endingOffsets=json.dumps({"t": given}))
        assert task.end == wanted
    (task,) = tasks(tmp_path)
    assert task.end is None


def test_damage_in_the_way_of_a_cut_leaves_the_rest_whole(tmp_path):
    parts = [batch(0), batch(3), flipped(batch(6), 8), batch(9), batch(12)]
    write(tmp_path, parts)
    found = shape(tasks(tmp_path, bytesPerPartition=str(SIZE)))
    assert found == [[(0, 0, 1)], [(0, 1, 5)]]


def test_a_log_in_which_nothing_is_readable_is_a_task_all_the_same(tmp_path):
    write(tmp_path, [flipped(batch(0), 80)])
    write(tmp_path, [], topic="t-1")
    (task,) = tasks(tmp_path)
    assert (task.partition, task.start, task.end, len(task.spans)) == (0, 0, None, 1)
    assert tasks(tmp_path, endingOffsets='{"t": {"0": 0, "1": 0}}') == []


def test_a_last_segment_in_which_nothing_is_readable_belongs_to_the_task(tmp_path):
    write(tmp_path, [batch(0)])
    write(tmp_path, [flipped(batch(3), 80)], base=3)
    assert shape(tasks(tmp_path)) == [[(0, 0, 1), (3, 0, 1)]]
