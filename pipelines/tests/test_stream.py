"""The streaming source without Spark: where batches begin and end, and what is data loss."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyspark_barnabas.clock import Clock
from pyspark_barnabas.source.stream import WireStreamReader
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.errors import BadOption, DataLost


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


def offsets(topic, *numbers, ids=True):
    found = {topic.name: {str(index): number for index, number in enumerate(numbers)}}
    if ids:
        found["@topicIds"] = topic.cluster.topic_ids([topic.name], fresh=True)
    return found


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
    assert stream.reportLatestOffset() == offsets(topic, 5, 3, 4, ids=False)


def test_a_query_from_the_end_begins_with_an_empty_batch(topic, start):
    """It records the starting offsets, which a restart before its end must not move."""
    fill(topic, 5)
    stream = start()
    begin = stream.initialOffset()
    fill(topic, 2)
    first = stream.latestOffset(begin)
    assert first == begin == offsets(topic, 5, 0, 0)
    second = stream.latestOffset(first)
    assert rows(stream, first, second) == 2
    again = start()  # the query died in its first batch, whose end Spark recorded
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


class Watch(Clock):
    """A clock that a test moves."""

    now = 0

    def elapsed_ms(self):
        return self.now


def test_few_offsets_wait_for_more_or_for_the_delay(topic, start):
    fill(topic, 5)
    stream = start(
        startingOffsets="earliest", minOffsetsPerTrigger="4", maxTriggerDelay="10s",
        maxOffsetsPerTrigger="6",
    )  # fmt: skip
    watch = stream._clock = Watch()
    begin = stream.initialOffset()
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(begin, limit)  # never held back, as in Spark's source
    assert first == offsets(topic, 5, 0, 0)
    fill(topic, 0, 3)
    watch.now = 9_999
    assert stream.latestOffset(first, limit) == first
    assert stream.reportLatestOffset() == offsets(topic, 5, 3, 0, ids=False)
    fill(topic, 0, 0, 1)
    second = stream.latestOffset(first, limit)
    assert second == offsets(topic, 5, 3, 1)
    fill(topic, 1)
    watch.now += 9_999
    assert stream.latestOffset(second, limit) == second
    watch.now += 1
    assert stream.latestOffset(second, limit) == offsets(topic, 6, 3, 1)
    fill(topic, 7)
    assert stream.latestOffset(second, limit) == offsets(topic, 11, 3, 1)


def test_without_a_limit_of_sparks_nothing_is_held_back(topic, start):
    """Trigger.Once asks for everything, and Trigger.AvailableNow would end before it."""
    fill(topic, 5)
    stream = start(startingOffsets="earliest", minOffsetsPerTrigger="100", maxTriggerDelay="1d")
    assert stream.getDefaultReadLimit().min_rows == 100
    begin = stream.initialOffset()
    first = stream.latestOffset(begin, stream.getDefaultReadLimit())
    fill(topic, 1)
    assert stream.latestOffset(first, stream.getDefaultReadLimit()) == first
    assert stream.latestOffset(first, object()) == offsets(topic, 6, 0, 0)
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset(first, stream.getDefaultReadLimit()) == offsets(topic, 6, 0, 0)


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
    """The topic was created again under the same name, or the broker lost its disk."""
    fill(topic, 5)
    known = offsets(topic, 900, 0, 0)
    with pytest.raises(DataLost, match="ends at offset 5 and was read up to 900"):
        start().latestOffset(known)
    lenient = start(failOnDataLoss="false")
    assert lenient.latestOffset(known) == offsets(topic, 5, 0, 0)
    assert lenient.partitions(known, offsets(topic, 5, 0, 0)) == []


@pytest.mark.parametrize("limit", [None, SimpleNamespace(max_rows=100)])
def test_a_topic_created_again_is_lost_data_however_long_it_is(topic, start, limit):
    """By its offsets it has three new records; in fact it has eight that were never read."""
    fill(topic, 5)
    end = start(startingOffsets="earliest").latestOffset(None)
    topic.recreate()
    fill(topic, 8)
    with pytest.raises(
        DataLost, match=f"topic {topic.name} was deleted and created again: its id was"
    ):
        start().latestOffset(end, limit)
    lenient = start(failOnDataLoss="false")
    later = lenient.latestOffset(end, limit)
    assert later == offsets(topic, 8, 0, 0)
    assert rows(lenient, end, later) == 8
    assert lenient.latestOffset(later, limit) == later


def test_a_batch_that_spans_two_lives_of_a_topic_is_lost_data(topic, start):
    """PySpark before 4.2 asks for the end of the log without a start, so planning finds this."""
    fill(topic, 5)
    end = offsets(topic, 5, 0, 0)
    topic.recreate()
    fill(topic, 8)
    stream = start()
    with pytest.raises(DataLost, match="was deleted and created again"):
        stream.partitions(end, stream.latestOffset())


@pytest.mark.parametrize("lenient", ["true", "false"])
def test_a_topic_created_again_between_plan_and_read_is_lost_data(topic, start, lenient, caplog):
    fill(topic, 5)
    stream = start(startingOffsets="earliest", failOnDataLoss=lenient)
    begin = stream.initialOffset()
    (part,) = stream.partitions(begin, stream.latestOffset(begin))
    topic.recreate()
    fill(topic, 8)
    if lenient == "true":
        with pytest.raises(DataLost, match="was deleted and created again"):
            list(stream.read(part))
    else:
        assert sum(table.num_rows for table in stream.read(part)) == 5
        assert "was deleted and created again" in caplog.text


def test_a_checkpoint_without_topic_ids_is_read_and_gets_them(topic, start):
    fill(topic, 5)
    stream = start()
    old = offsets(topic, 3, 0, 0, ids=False)
    end = stream.latestOffset(old)
    assert end == offsets(topic, 5, 0, 0)
    assert rows(stream, old, end) == 2
    assert stream.initialOffset().keys() == end.keys()


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
