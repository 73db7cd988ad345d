"""`topics copy`: what the copy has, on either dialect, and copies that are killed and run again."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.two_dialects import TwoDialects, command, run

pytestmark = pytest.mark.slow

COUNT = 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoDialects]:
    settings = {"barnabas.http.listener": ""}
    with TwoDialects(tmp_path_factory.mktemp("copy") / "data", settings) as made:
        yield made


def records(broker: TwoDialects, topic: str, *more: str) -> list[str]:
    shape = ["--isolation", "read_committed", "--format", "%p %T %k %K %s %S %h"]
    return run(broker, "consume", topic, *shape, *more).decode().splitlines()


def filled(broker: TwoDialects, topic: str, count: int, *settings: str) -> None:
    run(broker, "topics", "create", topic, "--partitions", "3", *settings)
    lines = [
        {"key": f"k{one}", "value": None if one % 7 == 0 else f"v{one}", "timestamp": 10**12 + one}
        | {"headers": [["h", f"x{one}"]]}
        for one in range(count)
    ]
    run(broker, "produce", topic, "--json", data="\n".join(map(json.dumps, lines)).encode())


def test_partitions_keys_headers_and_times_stay(broker: TwoDialects) -> None:
    filled(broker, "source", 500, "--config", "retention.ms=-1", "--config", "segment.ms=7d")
    said = run(broker, "topics", "copy", "source", "copied", "--to", broker.msgpack)
    assert said == b"Copied 500 records of source to copied.\n"
    for partition in ("0", "1", "2"):
        found = records(broker, "copied", "--partition", partition)
        assert found == records(broker, "source", "--partition", partition)
        assert found
    diff = json.loads(run(broker, "config", "diff", "--topic", "copied", "--json"))
    assert {one["key"]: one["value"] for one in diff} == {
        "retention.ms": "-1",
        "segment.ms": "604800000",
    }


def test_a_copy_is_compressed_as_its_source(broker: TwoDialects) -> None:
    """Uncompressed, the record is larger than the limit of both topics."""
    run(broker, "topics", "create", "packed")
    run(broker, "produce", "packed", "--compression", "zstd", data=b"x" * 3_000_000 + b"\nsmall\n")
    run(broker, "topics", "copy", "packed", "unpacked")
    assert run(broker, "consume", "unpacked", "--format", "%S").split() == [b"3000000", b"5"]
    sizes = {
        one["topic"]: one["partitions"][0]["bytes"]
        for one in json.loads(run(broker, "topics", "describe", "packed", "unpacked", "--json"))
    }
    assert sizes["unpacked"] < 3 * sizes["packed"]


def test_a_copy_that_is_run_again_takes_what_is_new(broker: TwoDialects) -> None:
    filled(broker, "growing", 10, "--config", "retention.ms=-1")
    run(broker, "topics", "copy", "growing", "grown")
    run(broker, "produce", "growing", data=b"later\n")
    found = json.loads(run(broker, "topics", "copy", "growing", "grown", "--json"))
    assert (found["copied"], found["continued"]) == (1, True)
    run(broker, "topics", "trim", "growing", "--all", "--yes")
    run(broker, "produce", "growing", data=b"last\n")
    assert run(broker, "topics", "copy", "growing", "grown").startswith(b"Copied 1 record ")
    assert len(records(broker, "grown")) == 12


def test_a_copy_that_is_killed_goes_on_without_loss_or_doubles(
    broker: TwoDialects, tmp_path: Path
) -> None:
    filled(broker, "long", COUNT, "--config", "retention.ms=-1")
    for delay_s in (0.6, 0.8, 1.0):
        with command(broker, "topics", "copy", "long", "whole") as process:
            time.sleep(delay_s)  # wherever it is then
            process.kill()
            process.wait()
    run(broker, "topics", "copy", "long", "whole")
    assert sorted(records(broker, "whole")) == sorted(records(broker, "long"))


def refused(broker: TwoDialects, *words: str) -> str:
    """Run a copy that must not be made; return why."""
    with command(broker, "topics", "copy", *words, "--json") as process:
        said, _ = process.communicate()
    assert process.returncode == 1
    return str(json.loads(said)["error"])


def test_two_copies_at_once_write_each_record_once(broker: TwoDialects) -> None:
    """The second one takes over in the middle of the first one, which says so."""
    for topic in ("raced", "winner"):
        run(broker, "topics", "create", topic, "--partitions", "1", "--config", "retention.ms=-1")
    lines = b"".join(b"%d:%s\n" % (number, b"x" * 10_000) for number in range(6_000))
    run(broker, "produce", "raced", "--key-separator", ":", data=lines)
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "none"})
    with command(broker, "topics", "copy", "raced", "winner") as first:
        while not reader.get_watermark_offsets(TopicPartition("winner", 0), 30)[1]:
            assert first.poll() is None
        run(broker, "topics", "copy", "raced", "winner")
        _, told = first.communicate()
    reader.close()
    assert (first.returncode, b"a newer producer has taken over" in told) == (1, True), told
    keys = ["--isolation", "read_committed", "--format", "%k"]
    found = run(broker, "consume", "winner", *keys).split()
    assert found == [b"%d" % number for number in range(6_000)]


def test_a_copy_that_was_killed_before_its_commit_is_not_waited_for(broker: TwoDialects) -> None:
    """Its transaction, with a position, is open for a minute; the next copy ends it."""
    filled(broker, "orphan", 10, "--config", "retention.ms=-1")
    run(broker, "topics", "copy", "orphan", "heir")
    described = json.loads(run(broker, "topics", "describe", "orphan", "--json"))[0]
    topic_id = base64.urlsafe_b64decode(described["topic_id"] + "==").hex()
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "none"})
    name = f"barnabas-copy.{reader.list_topics().cluster_id}.orphan.{topic_id}.heir"
    reader.close()
    killed = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    killed.init_transactions(30)
    killed.begin_transaction()
    killed.produce("heir", b"never committed", partition=0)
    member = Consumer({"bootstrap.servers": broker.address, "group.id": name})
    places = [TopicPartition("heir", partition, 99) for partition in range(3)]
    assert len(member.committed([TopicPartition("heir", one) for one in range(3)], 30)) == 3
    killed.send_offsets_to_transaction(places, member.consumer_group_metadata(), 30)
    member.close()
    run(broker, "produce", "orphan", data=b"later\n")
    assert run(broker, "topics", "copy", "orphan", "heir").startswith(b"Copied 1 record ")
    assert sorted(records(broker, "heir")) == sorted(records(broker, "orphan"))


def test_a_copy_that_failed_in_its_first_transaction_goes_on(broker: TwoDialects) -> None:
    """Its records are in the log, though aborted: the next copy knows that they are its own."""
    run(broker, "topics", "create", "mixed", "--config", "retention.ms=-1")
    run(broker, "produce", "mixed", data=b"".join(b"%d %s\n" % (n, b"x" * 900) for n in range(9)))
    run(broker, "produce", "mixed", data=b"y" * 5_000 + b"\n")
    run(broker, "topics", "create", "strict", "--config", "max.message.bytes=3000")
    assert "MESSAGE_TOO_LARGE" in refused(broker, "mixed", "strict")
    assert records(broker, "strict") == []
    run(broker, "config", "set", "--topic", "strict", "max.message.bytes=9000")
    assert run(broker, "topics", "copy", "mixed", "strict").startswith(b"Copied 10 records ")
    assert records(broker, "strict") == records(broker, "mixed")


def test_batches_are_as_large_as_the_target_takes(broker: TwoDialects) -> None:
    run(broker, "topics", "create", "bulky", "--config", "retention.ms=-1")
    for letter in (b"a", b"b", b"c"):
        run(broker, "produce", "bulky", data=letter * 600_000 + b"\n")
    run(broker, "produce", "bulky", data=b"".join(b"%d\n" % n for n in range(5_000)))
    run(broker, "topics", "copy", "bulky", "whole-bulk")
    assert records(broker, "whole-bulk") == records(broker, "bulky")


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(broker: TwoDialects) -> None:
    filled(broker, "reborn", 9, "--config", "retention.ms=-1")
    run(broker, "topics", "copy", "reborn", "child")
    run(broker, "topics", "delete", "reborn", "--yes")
    filled(broker, "reborn", 4, "--config", "retention.ms=-1")
    assert "pass --append" in refused(broker, "reborn", "child")
    found = json.loads(run(broker, "topics", "copy", "reborn", "child", "--append", "--json"))
    assert (found["copied"], found["continued"]) == (4, False)
    found = json.loads(run(broker, "topics", "copy", "reborn", "child", "--json"))
    assert (found["copied"], found["continued"]) == (0, True)


def test_a_target_that_stamps_records_itself_is_refused(broker: TwoDialects) -> None:
    run(broker, "topics", "create", "timed", "--partitions", "1")
    settings = ("--config", "message.timestamp.type=LogAppendTime")
    run(broker, "topics", "create", "stamped", "--partitions", "1", *settings)
    assert "message.timestamp.type=LogAppendTime" in refused(broker, "timed", "stamped")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("refused", "cannot be copied to itself"),
        ("small", "has 1 partitions"),
        ("occupied", "pass --append"),
        ("no/name", "was not created"),
    ],
)
def test_a_target_that_must_not_be_is_refused(broker: TwoDialects, target: str, why: str) -> None:
    run(broker, "topics", "create", "refused", "--partitions", "3", "--if-not-exists")
    run(broker, "topics", "create", "small", "--partitions", "1", "--if-not-exists")
    run(broker, "topics", "create", "occupied", "--partitions", "3", "--if-not-exists")
    run(broker, "produce", "occupied", data=b"mine\n")
    before = records(broker, "occupied")
    assert why in refused(broker, "refused", target)
    assert records(broker, "occupied") == before


def copy_group(broker: TwoDialects, target: str) -> str:
    """Return the group that has the positions of the copy."""
    groups = json.loads(run(broker, "groups", "list", "--json"))
    (name,) = [one["group"] for one in groups if one["group"].endswith(f".{target}")]
    return str(name)


def test_records_are_not_copied_again_where_the_broker_forgot_a_position(
    broker: TwoDialects,
) -> None:
    run(broker, "topics", "create", "uneven", "--partitions", "2", "--config", "retention.ms=-1")
    for partition in ("0", "1"):
        run(broker, "produce", "uneven", "--partition", partition, data=b"a\nb\n")
    run(broker, "topics", "copy", "uneven", "evened")
    group = copy_group(broker, "evened")
    run(broker, "groups", "delete", group, "--yes")
    member = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    member.commit(offsets=[TopicPartition("evened", 1, 2)], asynchronous=False)
    member.close()  # as if the position of partition 0 had expired
    assert "evened-0 has records, and the broker does not" in refused(broker, "uneven", "evened")
    assert len(records(broker, "evened")) == 4
    run(broker, "topics", "copy", "uneven", "evened", "--append")
    assert len(records(broker, "evened")) == 6


def test_each_copy_renews_all_positions(broker: TwoDialects) -> None:
    """They expire by the times of their commits: those without new records must not be first."""
    run(broker, "topics", "create", "quiet", "--partitions", "3", "--config", "retention.ms=-1")
    run(broker, "produce", "quiet", data=b"a\nb\nc\n")
    run(broker, "topics", "copy", "quiet", "still")
    group = copy_group(broker, "still")
    reached = run(broker, "groups", "describe", group, "--json")
    before = commit_count(broker)
    run(broker, "topics", "copy", "quiet", "still")
    assert run(broker, "groups", "describe", group, "--json") == reached
    assert commit_count(broker) == before + 3 + 1  # and the marker


def commit_count(broker: TwoDialects) -> int:
    """Return how many offsets, and markers behind them, groups have committed."""
    (found,) = json.loads(run(broker, "topics", "describe", "__consumer_offsets", "--json"))
    return sum(one["end_offset"] for one in found["partitions"])


def test_records_older_than_the_source_takes_are_copied(broker: TwoDialects) -> None:
    """The limit is for producers: a copy that had it, too, would refuse what is copied."""
    settings = ("--config", "message.timestamp.before.max.ms=1000", "--config", "retention.ms=-1")
    run(broker, "topics", "create", "aged", *settings)
    run(broker, "produce", "aged", data=b"a\n")
    time.sleep(1.1)
    assert run(broker, "topics", "copy", "aged", "kept").startswith(b"Copied 1 record ")
    assert records(broker, "kept") == records(broker, "aged")
