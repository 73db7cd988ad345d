"""The streaming source without Spark: where batches begin and end, and what may be lost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyspark_barnabas.encode import Record
from pyspark_barnabas.errors import BadOption, DataLost
from pyspark_barnabas.stream import WireStreamReader


def fill(topic, *counts):
    for partition, count in enumerate(counts):
        if count:
            topic.append(partition, [Record(None, b"x", 1000 + i) for i in range(count)])


@pytest.fixture
def start(topic):
    made = []

    def build(**options):
        stream = WireStreamReader(["offset"], topic.options(**options))
        made.append(stream)
        return stream

    yield build
    for stream in made:
        stream.stop()


def rows(stream, begin, end):
    return sum(
        table.num_rows for part in stream.partitions(begin, end) for table in stream.read(part)
    )


def offsets(topic, *numbers):
    return {topic.name: {str(index): number for index, number in enumerate(numbers)}}


def test_earliest_reads_everything_and_then_what_comes(topic, start):
    fill(topic, 5, 3)
    stream = start(startingOffsets="earliest")
    begin = stream.initialOffset()
    assert begin == offsets(topic, 0, 0, 0)
    end = stream.latestOffset(begin)
    assert end == offsets(topic, 5, 3, 0)
    assert rows(stream, begin, end) == 8
    assert stream.latestOffset(end) == end
    assert stream.partitions(end, end) == []
    fill(topic, 0, 0, 4)
    later = stream.latestOffset(end)
    assert rows(stream, end, later) == 4
    assert stream.reportLatestOffset() == later


def test_a_query_from_the_end_begins_with_an_empty_batch(topic, start):
    """It writes the starting offsets down: a restart before it is done must not move them."""
    fill(topic, 5)
    stream = start()
    begin = stream.initialOffset()
    fill(topic, 2)
    first = stream.latestOffset(begin)
    assert first == begin == offsets(topic, 5, 0, 0)
    second = stream.latestOffset(first)
    assert rows(stream, first, second) == 2
    again = start()  # the query died in its first batch, whose end Spark has kept
    fill(topic, 1)
    moved = again.initialOffset()
    assert again.partitions(moved, first) == []
    assert rows(again, first, again.latestOffset(first)) == 3


def test_a_bad_option_is_told_when_spark_asks_and_not_before(start):
    stream = start(failOnDataLoss="yes")
    with pytest.raises(BadOption, match="failOnDataLoss is 'yes'"):
        stream.initialOffset()


def test_a_limit_takes_equal_steps(topic, start):
    fill(topic, 60, 30)
    stream = start(startingOffsets="earliest", maxOffsetsPerTrigger="30")
    limit = stream.getDefaultReadLimit()
    assert limit.max_rows == 30
    begin, steps = stream.initialOffset(), []
    for _ in range(3):
        end = stream.latestOffset(begin, limit)
        steps.append(rows(stream, begin, end))
        begin = end
    assert steps == [30, 30, 30]
    assert begin == offsets(topic, 60, 30, 0)


def test_available_now_stops_where_it_began_to_run(topic, start):
    fill(topic, 60)
    stream = start(startingOffsets="earliest")
    begin = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    fill(topic, 40)
    limit = SimpleNamespace(max_rows=50)
    one = stream.latestOffset(begin, limit)
    two = stream.latestOffset(one, limit)
    assert (one, two) == (offsets(topic, 50, 0, 0), offsets(topic, 60, 0, 0))
    assert stream.latestOffset(two, limit) == two


def test_offsets_beyond_the_end_are_lost_data(topic, start):
    fill(topic, 5)
    asked = f'{{"{topic.name}": {{"0": 9, "1": 0, "2": 0}}}}'
    with pytest.raises(DataLost, match="ends at offset 5, but startingOffsets asks for 9"):
        start(startingOffsets=asked).initialOffset()
    lenient = start(startingOffsets=asked, failOnDataLoss="false")
    assert lenient.initialOffset() == offsets(topic, 5, 0, 0)


def test_a_checkpoint_beyond_the_end_is_lost_data(topic, start):
    """The topic was made anew under the same name, or the broker lost its disk."""
    fill(topic, 5)
    known = offsets(topic, 900, 0, 0)
    with pytest.raises(DataLost, match="ends at offset 5 and was read up to 900"):
        start().latestOffset(known)
    lenient = start(failOnDataLoss="false")
    assert lenient.latestOffset(known) == offsets(topic, 5, 0, 0)
    assert lenient.partitions(known, offsets(topic, 5, 0, 0)) == []


def test_a_partition_that_is_gone_is_lost_data(topic, start):
    known = {topic.name: {"0": 0, "1": 0, "2": 0, "7": 4}}
    with pytest.raises(DataLost, match=r"partition .*-7 is gone, read up to 4"):
        start().latestOffset(known)


def test_a_partition_that_is_new_is_read_from_its_beginning(topic, start):
    fill(topic, 5, 6)
    stream = start()
    begin = {topic.name: {"0": 5, "2": 0}}
    end = stream.latestOffset(begin)
    assert rows(stream, begin, end) == 6
    few = stream.latestOffset(begin, SimpleNamespace(max_rows=2))
    assert few == offsets(topic, 5, 2, 0)
