"""`barnabas-pipeline replay` in a real session: into the same topic, elsewhere, and refused."""

from __future__ import annotations

import io
import json
import shutil
import uuid

import pytest
from outcomes import outcome
from test_archive import archive  # noqa: F401 - a fixture
from test_archive_writer import records
from topics import Topic

from pyspark_barnabas.jobs import cli
from pyspark_barnabas.wire.cluster import create_topic

pytestmark = pytest.mark.spark
KEPT = ("key", "value", "headers", "timestamp", "partition")


def fill(topic):
    for partition, count in enumerate([100, 40, 0]):
        if count:
            topic.append(partition, records(count))


@pytest.fixture(scope="module")
def kept(spark, broker, tmp_path_factory):
    """A topic that no test changes, and its archive."""
    with Topic(broker.address) as topic:
        fill(topic)
        directory = tmp_path_factory.mktemp("kept") / "archive"
        words = ["--bootstrap", topic.address, "--to", str(directory), "--topic", topic.name]
        words += ["--max-offsets", "50", "--json", "--quiet"]
        said = io.StringIO()
        assert cli.main(["archive", *words], spark=spark, stdout=said, stderr=said) == 0
        yield topic, directory


@pytest.fixture
def topic(kept, broker, request):
    """Return that topic, or one of the test's own for what writes to it."""
    if "own" not in request.fixturenames:
        yield kept[0]
        return
    with Topic(broker.address) as made:
        fill(made)
        yield made


@pytest.fixture
def own():
    """Ask for a topic that the test may write to."""


@pytest.fixture
def filled(archive, kept, topic, tmp_path):  # noqa: F811
    """The topic's archive, which the test may change."""
    if topic is kept[0]:
        shutil.copytree(kept[1], tmp_path / "archive")
    else:
        assert archive("--max-offsets", "50")[0] == 0
    return tmp_path / "archive"


@pytest.fixture
def replay(spark, topic, filled):
    """Replay it; return (exit code, facts or the error's line)."""

    def call(*words, directory=filled, refused=False):
        stdout, stderr = io.StringIO(), io.StringIO()
        words = ["replay", str(directory), "--bootstrap", topic.address, "--json", *words]
        code = cli.main(words, spark=spark, stdout=stdout, stderr=stderr)
        return outcome(code, stdout, stderr, refused=refused)

    return call


class Elsewhere:
    """Another topic's name, and its records by partition."""

    def __init__(self, topic):
        self.topic = topic
        self.name = f"t-{uuid.uuid4().hex[:8]}"

    def rows(self, columns=KEPT):
        return self._here(lambda: self.topic.rows(columns))

    def recreate(self):
        self._here(self.topic.recreate)

    def _here(self, call):
        own, self.topic.name = self.topic.name, self.name
        try:
            return call()
        finally:
            self.topic.name = own


@pytest.fixture
def elsewhere(topic):
    return Elsewhere(topic)


def make(topic, name, partitions, **configs):
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    create_topic(topic.cluster, name, partitions, settings)


def test_a_replay_is_the_topic_again(replay, topic, elsewhere, filled):
    code, facts = replay("--to", elsewhere.name, "--max-records", "60")
    assert (code, facts["records"], facts["made"]) == (0, 140, [elsewhere.name])
    assert facts["batches"] >= 3
    assert elsewhere.rows() == topic.rows(KEPT)
    # Again: nothing is left to do. A longer archive: only what is new.
    assert replay("--to", elsewhere.name)[1]["records"] == 0
    assert elsewhere.rows() == topic.rows(KEPT)
    assert len(topic.cluster.topics([elsewhere.name])[elsewhere.name]) == 3


def test_a_replay_goes_on_with_what_was_archived_since(
    own, replay, archive, topic, elsewhere, filled  # noqa: F811
):  # fmt: skip
    assert replay("--to", elsewhere.name, "--option", "kafka.compression.type=zstd")[0] == 0
    topic.append(2, records(9))
    assert archive()[0] == 0
    assert replay("--to", elsewhere.name)[1]["records"] == 9
    assert elsewhere.rows() == topic.rows(KEPT)


def test_what_a_run_that_was_cut_off_has_written_is_found_and_not_counted_again(
    replay, topic, elsewhere, tmp_path
):
    """Spark finished the last micro-batch and was killed before it recorded that."""
    state = tmp_path / "state"
    words = ("--to", elsewhere.name, "--state", str(state), "--max-records", "60")
    code, facts = replay(*words)
    assert (code, facts["records"], facts["found"]) == (0, 140, 0)
    commits = state / "_checkpoint" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    code, facts = replay(*words)
    assert (code, facts["records"], facts["batches"]) == (0, 0, 1)
    assert 0 < facts["found"] < 140
    assert elsewhere.rows() == topic.rows(KEPT)


def test_by_key_any_number_of_partitions_serves(replay, topic, elsewhere):
    make(topic, elsewhere.name, 2, retention_ms="3600000")
    code, text = replay("--to", elsewhere.name, refused=True)
    assert (code, "has 2 partitions and the archive's" in text) == (1, True)
    code, facts = replay("--to", elsewhere.name, "--by-key")
    assert code == 0
    assert "has retention.ms=3600000: records keep their timestamps" in facts["remarks"][0]
    kept = ("key", "value", "headers", "timestamp")
    assert sorted(elsewhere.rows(kept), key=repr) == sorted(topic.rows(kept), key=repr)


@pytest.mark.thorough
def test_by_date_the_order_is_that_of_offsets(replay, archive, topic, elsewhere, tmp_path):  # noqa: F811
    to = tmp_path / "by-date"
    assert archive("--by-date", to=to)[0] == 0
    assert replay("--to", elsewhere.name, directory=to)[0] == 0
    assert elsewhere.rows() == topic.rows(KEPT)


@pytest.mark.thorough
def test_several_topics_go_to_their_own_names(
    own, replay, archive, topic, elsewhere, tmp_path  # noqa: F811
):  # fmt: skip
    make(topic, elsewhere.name, 3, retention_ms="-1")
    own, topic.name = topic.name, elsewhere.name
    topic.append(1, records(20, first=500))
    topic.name = own
    to = tmp_path / "both"
    assert archive("--topic", f"{own},{elsewhere.name}", to=to)[0] == 0
    before = topic.rows(KEPT), elsewhere.rows()
    code, text = replay("--to", "x", directory=to, refused=True)
    assert (code, "--to gives one name, and" in text) == (2, True)
    code, text = replay(directory=to, refused=True)
    assert (code, "holds records already, up to offset" in text) == (1, True)
    assert replay("--append", "--state", str(tmp_path / "state"), directory=to)[0] == 0
    for rows, now in zip(before, (topic.rows(KEPT), elsewhere.rows()), strict=True):
        assert sorted(now, key=repr) == sorted([*rows, *rows], key=repr)


def test_what_would_not_give_the_records_back_is_refused(replay, topic, elsewhere, filled):
    make(topic, elsewhere.name, 3, message_timestamp_type="LogAppendTime")
    code, text = replay("--to", elsewhere.name, refused=True)
    assert (code, "would overwrite the timestamps" in text) == (1, True)
    code, text = replay("--topic", "other", refused=True)
    assert (code, f"has no other; it holds {topic.name}" in text) == (2, True)
    code, text = replay(directory=filled.parent, refused=True)
    assert (code, "has no _archive.json, so it is not an archive" in text) == (2, True)
    code, text = replay("--max-records", "0", refused=True)
    assert (code, "--max-records is 0" in text) == (2, True)


def test_a_state_of_another_replay_or_of_a_topic_created_again_is_refused(
    replay, topic, elsewhere, filled, tmp_path
):
    state = tmp_path / "state"
    assert replay("--to", elsewhere.name, "--state", str(state))[0] == 0
    code, text = replay("--to", "t-other", "--state", str(state), refused=True)
    assert (code, f"{state} belongs to a replay with topics" in text) == (2, True)
    promise = state / "replay.json"
    kept = json.loads(promise.read_text())
    kept["reached"][elsewhere.name]["1"] = 999
    promise.write_text(json.dumps(kept))
    code, text = replay("--to", elsewhere.name, "--state", str(state), refused=True)
    assert (code, "and the replay had reached 999: the topic was created again" in text) == (
        1,
        True,
    )
    kept["reached"][elsewhere.name]["1"] = 0
    promise.write_text(json.dumps(kept))
    elsewhere.recreate()
    code, text = replay("--to", elsewhere.name, "--state", str(state), refused=True)
    assert (code, f"topic {elsewhere.name} was deleted and created again" in text) == (1, True)
    promise.write_text("{}")
    code, text = replay("--to", elsewhere.name, "--state", str(state), refused=True)
    assert (code, "is not a replay's state" in text) == (1, True)


def test_an_archive_with_a_file_missing_is_refused_before_anything_is_written(
    replay, topic, elsewhere, filled
):
    first = sorted(filled.rglob("partition=0/*.parquet"))[1]
    shutil.move(first, filled.parent / "away")
    code, text = replay("--to", elsewhere.name, refused=True)
    assert (code, "are missing: one file ends at" in text) == (1, True)
    assert elsewhere.name not in topic.cluster.all_topics()
