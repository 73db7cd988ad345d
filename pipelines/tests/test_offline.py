"""A directory read without its broker gives the rows that its broker gives."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time

import pytest
from broker_process import ROOT, BrokerProcess
from files import ALL, copy_directory, offline_rows
from test_segments import batch, message, write
from topics import Topic

from pyspark_barnabas.options import offline_options
from pyspark_barnabas.source.offline import OfflineReader
from pyspark_barnabas.wire import protocol
from pyspark_barnabas.wire.encode import Record
from pyspark_barnabas.wire.errors import BadOption, DamagedLog, DataLost, NotALog, UnknownTopic

START_MS = 1_700_000_000_000
SETTINGS = {
    "num.partitions": "3",
    "log.retention.ms": "-1",
    "internal.segment.bytes": "20000",
    "log.index.interval.bytes": "1000",
    "log.cleaner.backoff.ms": "50",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", SETTINGS) as started:
        yield started


def command(broker, *words):
    """Run the broker's command line."""
    subprocess.run(
        [sys.executable, "-m", "client.cli", *words, "--bootstrap", broker.address],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip


def fill(topic, count, seed=1, keys=50):
    """Batches of all codecs, with everything a record may be."""
    dice = random.Random(seed)
    number = 0
    while number < count:
        records = []
        for _ in range(dice.choice([1, 5, 40])):
            headers = [("h", dice.choice([None, b"", b"x" * 9]))] * dice.choice([0, 0, 2])
            key = dice.choice([None, b"", b"k%d" % dice.randrange(keys)])
            value = dice.choice([None, b"", dice.randbytes(100), b"abc" * 40])
            when = START_MS + number * 10 + dice.randrange(50)
            records.append(Record(key, value, when, headers))
            number += 1
        topic.append(number % 3, records, codec=dice.randrange(5))


@pytest.fixture(scope="module")
def topic(broker):
    with Topic(broker.address) as made:
        fill(made, 3000)
        yield made


def both(broker, topic, columns=ALL, **options):
    """Return the rows over the wire and those of the files; partition after partition."""
    names = {name.replace("_", "."): value for name, value in options.items()}
    wire = topic.rows(columns, **options)
    return wire, offline_rows(broker.data, columns, **{"subscribe": topic.name} | names)


def everywhere(topic, numbers):
    return json.dumps({topic.name: {str(index): number for index, number in enumerate(numbers)}})


PLACES = {
    "all": lambda t: {},
    "offsets": lambda t: {
        "startingOffsets": everywhere(t, [100, -2, 900]),
        "endingOffsets": everywhere(t, [101, -1, 950]),
    },
    "a time": lambda t: {
        "startingTimestamp": str(START_MS + 10_500), "endingTimestamp": str(START_MS + 20_100),
    },
    "times": lambda t: {
        "startingOffsetsByTimestamp": everywhere(t, [START_MS, START_MS + 29_000, 0])
    },
    "late": lambda t: {
        "startingTimestamp": str(START_MS * 2),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "committed": lambda t: {"kafka_isolation_level": "read_committed"},
    "cut by bytes": lambda t: {"minPartitions": "40"},
    "cut by records": lambda t: {"maxRecordsPerPartition": "77"},
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_the_rows_are_those_of_the_wire(broker, topic, name):
    wire, files = both(broker, topic, **PLACES[name](topic))
    assert files == wire
    assert (len(wire) >= 50) == (name != "late")


@pytest.mark.parametrize("lost", [".index", ".timeindex", "both", "garbage"])
def test_nothing_depends_on_an_index(broker, topic, tmp_path, lost):
    copy = tmp_path / "copy"
    copy_directory(broker.data, copy)
    for path in copy.glob(f"{topic.name}-*/*"):
        if lost == "garbage" and path.suffix in (".index", ".timeindex"):
            path.write_bytes(random.Random(2).randbytes(120))
        elif path.suffix == lost or (lost == "both" and path.suffix != ".log"):
            path.unlink()
    for name in ("all", "offsets", "a time", "cut by bytes", "cut by records"):
        options = PLACES[name](topic)
        rows = offline_rows(copy, ALL, **{"subscribe": topic.name} | options)
        assert rows == topic.rows(ALL, **options), name


def test_small_segments_are_taken_together_and_large_ones_cut(broker, topic):
    def tasks(**options):
        given = {"path": str(broker.data), "subscribe": topic.name, **options}
        reader = OfflineReader(["offset"], offline_options(given))
        return [partition.task for partition in reader.partitions()]

    assert len(tasks()) == 3
    assert all(len(task.spans) >= 3 for task in tasks())
    many = tasks(minPartitions="60")
    assert 40 <= len(many) <= 90
    sizes = [sum(span.size for span in task.spans) for task in many]
    assert max(sizes) < 3 * sum(sizes) / len(sizes)


def test_topics_are_chosen_as_over_the_wire(broker, topic):
    for options in (
        {"subscribePattern": topic.name[:6] + ".*"},
        {"assign": json.dumps({topic.name: [0, 2]})},
    ):
        wire = Topic.rows(_Chosen(topic, options), ALL)
        assert offline_rows(broker.data, ALL, **options) == wire


class _Chosen:
    """A topic that is read by other options than `subscribe`."""

    def __init__(self, topic, options):
        self._given = {"kafka.bootstrap.servers": topic.address, **options}

    def options(self, **_):
        return self._given


# -- compacted and trimmed logs ------------------------------------------------------------------


def test_a_compacted_log_is_read_with_its_holes(broker):
    with Topic(broker.address) as made:
        name = made.name = f"{made.name}-compacted"
        command(
            broker, "topics", "create", name, "--partitions", "3",
            "--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01",
            "--config", "min.compaction.lag.ms=0",
        )  # fmt: skip
        dice = random.Random(3)
        for number in range(600):
            records = [
                Record(b"k%d" % dice.randrange(20), dice.randbytes(100), START_MS + number)
                for _ in range(10)
            ]
            made.append(number % 3, records, codec=number % 5)
        before = 6000
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and len(made.rows()) > before // 2:
            time.sleep(0.1)
        command(broker, "config", "set", "cleanup.policy=delete", "--topic", name)
        time.sleep(0.5)  # a pass that is under way ends
        wire, files = both(broker, made)
        assert files == wire
        assert len(files) <= before // 2
        some = offline_rows(broker.data, ALL, subscribe=name, minPartitions="9")
        assert some == wire


def test_a_trimmed_log_begins_where_its_checkpoint_says(broker, monkeypatch):
    monkeypatch.setitem(protocol.VERSIONS, 21, 0)
    monkeypatch.setitem(protocol.API_NAMES, 21, "DeleteRecords")
    with Topic(broker.address) as made:
        fill(made, 1000, seed=4)
        leader = made.cluster.leader(made.name, 1)
        name = made.name.encode()
        body = (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name
        body += (1).to_bytes(4, "big") + (1).to_bytes(4, "big") + (77).to_bytes(8, "big")
        leader.call(21, body + (10_000).to_bytes(4, "big"))
        broker.stop()  # the checkpoint is written at a stop, or a minute later
        directory = broker.data
        files = offline_rows(directory, ALL, subscribe=made.name)
        with pytest.raises(DataLost, match=r"holds offsets 77 to .* startingOffsets asks for 3 to"):
            offline_rows(
                directory, subscribe=made.name, startingOffsets=everywhere(made, [0, 3, 0])
            )
        less = offline_rows(
            directory, ALL, subscribe=made.name, startingOffsets=everywhere(made, [0, 3, 0]),
            failOnDataLoss="false",
        )  # fmt: skip
        broker.start()
        assert files == less == made.rows(ALL)
        assert min(row[4] for row in files if row[3] == 1) == 77


# -- damage --------------------------------------------------------------------------------------


@pytest.fixture
def damaged(broker, topic, tmp_path):
    """A copy with one batch of one segment flipped; (directory, partition, first, last offset)."""
    copy = tmp_path / "copy"
    copy_directory(broker.data, copy)
    path = sorted(copy.glob(f"{topic.name}-1/*.log"))[2]
    data = bytearray(path.read_bytes())
    data[70] ^= 0x55
    path.write_bytes(data)
    first = int.from_bytes(data[:8], "big")
    return copy, path, first, first + int.from_bytes(data[23:27], "big")


def test_damage_fails_by_default_with_its_place_and_a_cure(topic, damaged):
    directory, path, first, last = damaged
    with pytest.raises(DamagedLog) as caught:
        offline_rows(directory, subscribe=topic.name)
    text = str(caught.value)
    assert text.startswith(f"{path} at position 0: checksum, CRC-32C 0x")
    assert f"offsets from {first} to {last} of {topic.name}-1" in text
    for word in ("Restore", "startingOffsets", "onDamage=skip or rows", "`barnabas verify`"):
        assert word in text


@pytest.mark.parametrize("cut", [{}, {"minPartitions": "30"}, {"maxRecordsPerPartition": "50"}])
def test_damage_is_skipped_or_told_in_rows(topic, damaged, cut):
    directory, path, first, last = damaged
    sound = [row for row in topic.rows(ALL) if not (row[3] == 1 and first <= row[4] <= last)]
    given = {"subscribe": topic.name, **cut}
    assert offline_rows(directory, ALL, onDamage="skip", **given) == sound
    rows = offline_rows(directory, [*ALL, "damage"], onDamage="rows", **given)
    assert [row[:-1] for row in rows if row[-1] is None] == sound
    told = [row for row in rows if row[-1] is not None]
    assert {row[:-1] for row in told} == {(None, None, topic.name, 1, first, None, None, None)}
    for row in told:  # by each task that was to read some of these offsets
        assert row[-1]["kind"] == "checksum"
        assert (row[-1]["file"], row[-1]["position"]) == (str(path), 0)
        assert (row[-1]["next_offset"], row[-1]["size"] > 61) == (last + 1, True)
    assert len(told) == 1 or "maxRecordsPerPartition" in cut
    (one, *_) = offline_rows(directory, ["damage"], onDamage="rows", **given)[-1:]
    assert one == (None,)


def test_reading_around_the_place_is_no_error(topic, damaged):
    directory, _, first, last = damaged
    before = {"startingOffsets": everywhere(topic, [-2, -2, -2]),
              "endingOffsets": everywhere(topic, [-1, first, -1])}  # fmt: skip
    behind = {"startingOffsets": everywhere(topic, [-2, last + 1, -2])}
    for options in (before, behind):
        found = offline_rows(directory, ALL, subscribe=topic.name, **options)
        assert found == topic.rows(ALL, **options)


def test_a_torn_end_is_usual_and_garbage_is_not(broker, topic, tmp_path):
    copy = tmp_path / "copy"
    copy_directory(broker.data, copy)
    path = sorted(copy.glob(f"{topic.name}-0/*.log"))[-1]
    whole = path.read_bytes()
    expected = topic.rows(ALL)
    torn = bytearray(whole[: 61 + 9])  # the head of a batch, and some of it
    end = 1 + max(row[4] for row in expected if row[3] == 0)
    torn[:8] = end.to_bytes(8, "big")
    path.write_bytes(whole + torn)
    assert offline_rows(copy, ALL, subscribe=topic.name) == expected
    path.write_bytes(whole + bytes(4096))
    assert offline_rows(copy, ALL, subscribe=topic.name) == expected
    path.write_bytes(whole + b"not a batch" * 100)
    with pytest.raises(DamagedLog, match=f"{path} at position {len(whole)}: structure, magic"):
        offline_rows(copy, subscribe=topic.name)
    closed = everywhere(topic, [end, -1, -1])
    assert offline_rows(copy, ALL, subscribe=topic.name, endingOffsets=closed) == expected


def test_records_that_contradict_themselves_are_damage_too(topic, damaged):
    """A batch whose CRC is right and whose records are not: made with a right CRC."""
    import crc32c

    from pyspark_barnabas.wire.batches import CRC_START

    directory, path, first, _ = damaged
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    data[61:80] = b"\xff" * 19
    data[17:21] = crc32c.crc32c(bytes(data[CRC_START:size])).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(DamagedLog, match=f"{path} at position 0: records, "):
        offline_rows(directory, subscribe=topic.name)
    rows = offline_rows(directory, ["offset", "damage"], subscribe=topic.name, onDamage="rows")
    assert [(row[0], row[1]["kind"]) for row in rows if row[1]] == [(first, "records")]


def test_messages_from_before_batches_are_named_and_may_be_left_out(tmp_path):
    path = write(tmp_path, [message(0, 0), message(1, 1), batch(2)])
    with pytest.raises(DamagedLog, match=r"position 0: format, 2 messages .* before Kafka 0\.11"):
        offline_rows(tmp_path, subscribe="t")
    assert [at for (at,) in offline_rows(tmp_path, ["offset"], subscribe="t", onDamage="skip")] == [
        2, 3, 4,
    ]  # fmt: skip
    later = '{"t": {"0": 2}}'
    assert len(offline_rows(tmp_path, subscribe="t", startingOffsets=later)) == 3
    (told,) = [
        row[0] for row in offline_rows(tmp_path, ["damage"], subscribe="t", onDamage="rows")
        if row[0]
    ]  # fmt: skip
    assert (told["kind"], told["file"], told["next_offset"]) == ("format", str(path), 2)


def test_what_is_left_out_is_told_in_the_log_of_the_executor(tmp_path, caplog):
    write(tmp_path, [batch(0), b"rubbish" * 20, batch(3)])
    assert len(offline_rows(tmp_path, subscribe="t", onDamage="skip")) == 6
    (line,) = caplog.messages
    assert line.startswith("left out: ")
    assert "structure" in line


# -- what cannot be read at all ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"subscribe": "nowhere"}, UnknownTopic, "there is no nowhere in .*, which holds .*t-"),
        ({"assign": '{"%s": [0, 7]}'}, UnknownTopic, "assign names partition 7 of"),
        ({"subscribePattern": "%s", "startingOffsets": '{"%s": {"0": 0}}'},
         BadOption, "startingOffsets must name every partition"),
        ({"subscribe": "%s", "startingOffsets": '{"%s": {"0": 0, "1": 999999, "2": 0}}'},
         DataLost, "holds offsets 0 to .* but startingOffsets asks for 999999"),
        ({"subscribe": "%s", "startingTimestamp": "9999999999999"},
         BadOption, "startingTimestamp: .* has no record at or after 9999999999999 ms"),
    ],
)  # fmt: skip
def test_errors_name_the_option(broker, topic, options, kind, words):
    given = {name: value.replace("%s", topic.name) for name, value in options.items()}
    with pytest.raises(kind, match=words):
        offline_rows(broker.data, **given)


def test_offsets_out_of_range_are_passed_over_if_that_is_wanted(broker, topic):
    options = {"startingOffsets": everywhere(topic, [0, 999_999, 0]), "failOnDataLoss": "false"}
    found = offline_rows(broker.data, ALL, subscribe=topic.name, **options)
    assert found == topic.rows(ALL, **options)
    assert {row[3] for row in found} == {0, 2}


def test_a_directory_that_is_none_is_told(tmp_path):
    with pytest.raises(NotALog, match="no broker's data directory: it is empty"):
        offline_rows(tmp_path, subscribe="t")


def test_a_file_that_goes_while_it_is_read_is_data_lost(broker, topic, tmp_path):
    copy = tmp_path / "copy"
    copy_directory(broker.data, copy)
    for loss in ("true", "false"):
        given = {"path": str(copy), "subscribe": topic.name, "failOnDataLoss": loss}
        reader = OfflineReader(["value"], offline_options(given))
        partitions = reader.partitions()
        for path in copy.glob(f"{topic.name}-0/*.log"):
            os.rename(path, f"{path}.deleted")
        if loss == "true":
            with pytest.raises(DataLost, match="is gone since the query was planned"):
                list(reader.read(partitions[0]))
            for path in copy.glob(f"{topic.name}-0/*.deleted"):
                os.rename(path, str(path).removesuffix(".deleted"))
        else:
            assert list(reader.read(partitions[0])) == []


def test_rows_of_damage_need_their_column(tmp_path):
    given = {"path": str(tmp_path), "subscribe": "t", "onDamage": "rows"}
    with pytest.raises(BadOption, match="the column damage and onDamage=rows go together"):
        OfflineReader(["value"], offline_options(given))
