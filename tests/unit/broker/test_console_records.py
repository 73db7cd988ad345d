"""Records in the console: pages, searches, cuts, damage, bombs, export, and what arrives."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.console import message_choice, record_pages
from broker.console.key_partition import partition_of
from broker.console.record_views import CUT_BYTES, shown_bytes
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.partitions.partition import Partition
from client.partitioners import partition_of_key
from protocol.compression import GZIP, ZSTD
from protocol.control_records import Marker
from protocol.record_batch import as_int64
from protocol.records import Record, build
from storage.errors import LogFailed
from tests.support.console_client import ConsoleBroker, EventReader
from tests.support.console_groups import commit

NASTY = "<script>alert(1)</script>\"'\n\u202e\u0000é💡"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data", "barnabas.decompressed.bytes.max=2097152")
    await found.post("topics/create", {"name": "clicks", "partitions": 3})
    large = {"max.message.bytes": "3000000"}
    await found.post("topics/create", {"name": "one", "partitions": 1, "configs": large})
    yield found
    assert await found.stop() == EXIT_CLEAN


def append(
    running: ConsoleBroker,
    topic: str,
    batch: bytearray,
    partition: int = 0,
    transaction: int = 0,
) -> None:
    """Append a batch as a producer's, also one that no handler would take."""
    found = running.services.partitions.get(topic, partition)
    found.log.append(memoryview(batch), running.services.clock.now_ms(), transaction)
    flush(found)


def flush(found: Partition) -> None:
    """Make a partition durable, and so visible."""
    job = found.log.begin_flush()
    assert job is not None
    job.run()
    found.log.finish_flush(job, None)


def records(count: int, start: int = 0, size: int = 10, at: int = 1_000) -> list[Record]:
    return [
        Record(0, at + number, b"k%d" % number, (b"v%d " % number).ljust(size, b"."))
        for number in range(start, start + count)
    ]


async def offsets(running: ConsoleBroker, query: str) -> list[int]:
    """Read all pages, and return the offsets of the records of partition 0 in their order."""
    found: list[int] = []
    cursor = ""
    for _ in range(500):
        page = await running.get(f"messages?topic=one&{query}&cursor={cursor}")
        found += [one["offset"] for one in page["messages"]]
        cursor = page["cursor"]
        assert page["is_complete"] == (not cursor)
        if not cursor:
            return found
    raise AssertionError("no end")


async def test_a_record_is_produced_and_shown(running: ConsoleBroker) -> None:
    made = await running.post(
        "messages/produce",
        {"topic": "clicks", "key": NASTY, "value": NASTY, "headers": [[NASTY, NASTY], ["n", None]]},
    )
    assert made["partition"] == partition_of(NASTY.encode(), 3)
    assert made["offset"] == 0
    page = await running.get("messages?topic=clicks")
    (shown,) = page["messages"]
    assert shown["key"]["kind"] == "binary"  # it has a null
    plain = NASTY.replace("\0", "")
    await running.post("messages/produce", {"topic": "one", "key": plain, "value": plain})
    (shown,) = (await running.get("messages?topic=one"))["messages"]
    assert shown["value"]["text"] == plain
    await running.post("messages/produce", {"topic": "one"})
    newest = (await running.get("messages?topic=one&limit=1"))["messages"][0]
    assert (newest["offset"], newest["key"], newest["value"]) == (1, None, None)


@pytest.mark.parametrize(
    "body",
    [
        {}, {"topic": "one", "partition": 7}, {"topic": "one", "partition": "0"},
        {"topic": "one", "partition": True}, {"topic": "one", "value": 5},
        {"topic": "one", "value_base64": "%"}, {"topic": "one", "headers": [["a"]]},
        {"topic": "one", "headers": [["a", "b"]] * 200}, {"topic": "one", "timestamp": 1 << 70},
        {"topic": "one", "value": "\ud800"},
    ],
)  # fmt: skip
async def test_a_bad_record_is_refused(running: ConsoleBroker, body: dict[str, Any]) -> None:
    found = await running.post("messages/produce", body, 400)
    assert found["error"]["code"] == "BAD_REQUEST"
    assert (await running.get("messages?topic=one"))["messages"] == []


async def test_pages_go_on_where_the_last_one_ended(running: ConsoleBroker) -> None:
    for start in range(0, 300, 30):
        append(running, "one", build(records(30, start), codec=GZIP if start % 60 else 0))
    everything = list(range(300))
    assert await offsets(running, "order=oldest&limit=7") == everything
    assert await offsets(running, "order=newest&limit=7") == everything[::-1]
    assert await offsets(running, "order=newest&limit=200") == everything[::-1]
    assert await offsets(running, "order=oldest&offset=250") == everything[250:]
    assert await offsets(running, "order=newest&offset=20") == everything[20::-1]
    assert await offsets(running, "order=oldest&timestamp=1290") == everything[290:]
    assert await offsets(running, "order=oldest&timestamp=9999") == []
    assert await offsets(running, "text=v77%20") == [77]
    assert await offsets(running, "key=k123") == [123]
    assert await offsets(running, "text=nothing") == []


async def test_partitions_are_merged_by_time(running: ConsoleBroker) -> None:
    for number in range(3):
        append(running, "clicks", build([Record(0, 100 * one + number, None, b"%d" % number)
                                         for one in range(5)]), number)  # fmt: skip
    page = await running.get("messages?topic=clicks&limit=9")
    times = [one["timestamp"] for one in page["messages"]]
    assert times == sorted(times, reverse=True)
    rest = await running.get(f"messages?topic=clicks&limit=9&cursor={page['cursor']}")
    assert [one["timestamp"] for one in rest["messages"]] == [102, 101, 100, 2, 1, 0]


async def test_a_search_ends_with_its_budget_and_goes_on(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_pages, "FETCHED_BYTES", 4_096)
    monkeypatch.setattr(message_choice, "FETCHED_BYTES", 4_096)
    monkeypatch.setattr(record_pages.Budget.__init__, "__defaults__", (1 << 40, 20_000))
    for start in range(0, 200, 20):
        append(running, "one", build(records(20, start, size=500)))
    for order in ("newest", "oldest"):
        page = await running.get(f"messages?topic=one&text=v100%20&order={order}")
        assert page["messages"] == []
        assert 0 < page["looked_at"] < 200
        assert not page["is_complete"]
        assert await offsets(running, f"text=v100%20&order={order}") == [100]


@pytest.mark.parametrize("codec", [0, ZSTD])
@pytest.mark.parametrize("size", [10, 4_000])  # opened on the loop, and in a thread
async def test_a_search_finds_what_is_at_either_end(
    running: ConsoleBroker, codec: int, size: int
) -> None:
    for begin in (0, 10, 20):
        append(running, "one", build(records(10, begin, size), codec=codec))
    for number in (0, 9, 10, 19, 29):
        for order in ("newest", "oldest"):
            assert await offsets(running, f"order={order}&text=v{number}%20") == [number]
    assert await offsets(running, "text=v30%20") == []


async def test_large_records_of_a_topic_of_small_ones_are_reached(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_pages.Budget.__init__, "__defaults__", (1 << 40, 200_000))
    monkeypatch.setattr(record_pages, "BYTES_MAX", 200_000)
    append(running, "one", build(records(2_000)))
    for number in range(10):
        append(running, "one", build(records(1, number, size=150_000)))
    found = await offsets(running, "limit=200")
    assert found == list(range(2_009, -1, -1))


async def test_values_are_cut_and_whole_when_asked_for(running: ConsoleBroker) -> None:
    value = ("é" * 100_000).encode()
    append(running, "one", build([Record(0, 5, b"k", value), Record(0, 6, b"k", b"\xff" * 2_000)]))
    binary, text = (await running.get("messages?topic=one"))["messages"]
    assert (text["value"]["size"], text["value"]["cut"]) == (200_000, True)
    assert text["value"]["text"] == "é" * (CUT_BYTES // 2)
    assert (binary["value"]["kind"], binary["value"]["size"]) == ("binary", 2_000)
    whole = await running.get("message?topic=one&partition=0&offset=0")
    assert whole["value"]["text"].encode() == value
    for part, content in (("value", value), ("key", b"k")):
        found = await running.ask(f"/api/v1/message?topic=one&offset=0&part={part}")
        assert found.body == content
        assert "attachment" in found.headers["content-disposition"]
        assert found.headers["content-type"] == "application/octet-stream"
    await running.get("message?topic=one&offset=2", 404)
    await running.get("message?topic=one&offset=0&part=x", 400)
    append(running, "one", build([Record(0, 7, None, b"x" * 1_500_000)]))
    await running.get("message?topic=one&offset=2", 413)
    found = await running.ask("/api/v1/message?topic=one&offset=2&part=value")
    assert len(found.body) == 1_500_000


async def test_a_bomb_is_named_and_the_page_goes_on(running: ConsoleBroker) -> None:
    append(running, "one", build(records(2)))
    append(running, "one", build([Record(0, 9, None, bytes(50_000_000))], codec=ZSTD))
    append(running, "one", build(records(2, 5)))
    for order in ("newest", "oldest"):
        page = await running.get(f"messages?topic=one&order={order}")
        assert sorted(one["offset"] for one in page["messages"]) == [0, 1, 3, 4]
        (problem,) = page["problems"]
        assert problem["offset"] == 2
        assert "2097152" in problem["reason"]


async def test_a_batch_of_many_records_comes_in_parts(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_pages, "KEPT", 50)
    append(running, "one", build(records(400), codec=ZSTD))
    append(running, "one", build(records(3, 400)))
    assert await offsets(running, "order=newest&limit=30") == list(range(402, -1, -1))
    assert await offsets(running, "order=oldest&limit=30") == list(range(403))
    assert await offsets(running, "text=v377%20") == [377]
    monkeypatch.setattr(record_pages, "RECORDS_MAX", 100)
    page = await running.get("messages?topic=one")
    assert [one["offset"] for one in page["messages"]] == [402, 401, 400]
    assert "400 records" in page["problems"][0]["reason"]


async def test_exports_are_bounded(running: ConsoleBroker) -> None:
    http = running.broker._serving._http
    assert http is not None
    await running.get("overview")
    http._surroundings.console.exports_now = 2
    await running.get("export?topic=one", 503)
    http._surroundings.console.exports_now = 0
    assert (await running.ask("/api/v1/export?topic=one")).status == 200
    assert http._surroundings.console.exports_now == 0


async def test_a_damaged_batch_is_named_and_the_page_goes_on(running: ConsoleBroker) -> None:
    for start in range(0, 40, 10):
        append(running, "one", build(records(10, start)))
    damage(Path(running.services.logs.directory.path), len(build(records(10))) + 80)
    for order in ("newest", "oldest"):
        page = await running.get(f"messages?topic=one&order={order}")
        found = sorted(one["offset"] for one in page["messages"])
        assert {*range(10), *range(20, 40)} <= {*found}
        assert [one["offset"] for one in page["problems"]] == [10]


def damage(directory: Path, position: int) -> None:
    (path,) = directory.glob("one-0/*.log")
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff\xff\xff")


async def test_committed_offsets_are_decoded(running: ConsoleBroker) -> None:
    await commit(running, "readers", "one", {0: 0})
    page = await running.get("messages?topic=__consumer_offsets&limit=10")
    types = {one["decoded"]["type"] for one in page["messages"]}
    assert "OffsetCommit" in types
    decoded = next(one["decoded"] for one in page["messages"]
                   if one["decoded"]["type"] == "OffsetCommit")  # fmt: skip
    assert decoded["key"]["group"] == "readers" or "readers" in json.dumps(decoded)


async def test_control_records_are_shown_on_demand(running: ConsoleBroker) -> None:
    batch = build(records(1), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    append(running, "one", batch, transaction=1)
    partition = running.services.partitions.get("one", 0)
    partition.log.append_marker(Marker(7, 0, is_commit=True, coordinator_epoch=0), 5)
    flush(partition)
    assert [one["offset"] for one in (await running.get("messages?topic=one"))["messages"]] == [0]
    marker = (await running.get("messages?topic=one&control=1"))["messages"][0]
    assert marker["control"] == "commit"


async def test_an_export_has_every_record(running: ConsoleBroker) -> None:
    append(running, "one", build([*records(500), Record(0, 1, None, b"\xff", (("h", b"x"),))]))
    found = await running.ask("/api/v1/export?topic=one")
    assert found.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in found.body.splitlines()]
    assert [line["offset"] for line in lines] == list(range(501))
    assert lines[-1]["value_base64"] == "/w=="
    assert lines[-1]["headers"] == [{"name": "h", "value": "x"}]
    some = await running.ask("/api/v1/export?topic=one&limit=3&offset=10")
    assert [json.loads(line)["offset"] for line in some.body.splitlines()] == [10, 11, 12]


async def test_an_export_has_every_partition(
    running: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a topic with more of them than a page reads."""
    monkeypatch.setattr(message_choice, "PARTITIONS_MAX", 1)
    for partition in range(3):
        append(running, "clicks", build(records(2)), partition)
    found = await running.ask("/api/v1/export?topic=clicks")
    lines = [json.loads(line) for line in found.body.splitlines()]
    assert [(one["partition"], one["offset"]) for one in lines] == [
        (partition, offset) for partition in range(3) for offset in range(2)
    ]


async def test_an_export_without_an_offline_partition_is_refused(running: ConsoleBroker) -> None:
    append(running, "clicks", build(records(2)), 2)
    failed = LogFailed("clicks-1", "the disk")
    running.services.partitions.remove("clicks", 1)
    running.services.partitions.set_offline("clicks", 1, failed)
    refused = await running.get("export?topic=clicks", 503)
    assert "clicks-1 is offline" in refused["error"]["message"]
    found = await running.ask("/api/v1/export?topic=clicks&partition=2")
    assert len(found.body.splitlines()) == 2


async def test_an_export_says_which_records_it_could_not_read(running: ConsoleBroker) -> None:
    for start in range(0, 30, 10):
        append(running, "one", build(records(10, start)))
    damage(Path(running.services.logs.directory.path), len(build(records(10))) + 80)
    found = await running.ask("/api/v1/export?topic=one")
    lines = [json.loads(line) for line in found.body.splitlines()]
    assert [one.get("offset") for one in lines] == [*range(10), None, *range(20, 30)]
    problem = lines[10]["problem"]
    assert (problem["partition"], problem["offset"], problem["until"]) == (0, 10, 20)


async def test_arriving_records_are_events(running: ConsoleBroker) -> None:
    append(running, "one", build(records(3)))
    reader = await EventReader.connect(running, "/api/v1/tail?topic=one&text=v7")
    assert await reader.head() == 200
    events = reader.events()
    assert (await anext(events))[0] == "begun"
    append(running, "one", build(records(5, 5)))
    async for kind, found in events:
        assert kind == "messages"
        if found["messages"]:
            assert [one["offset"] for one in found["messages"]] == [5]
            break
    reader.close()


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("topic=nothing", 404), ("", 400), ("topic=one&order=up", 400), ("topic=one&limit=0", 400),
        ("topic=one&partition=9", 400), ("topic=one&cursor=x", 400),
        ("topic=one&cursor=9:1:1", 200),
        ("topic=one&cursor=0:99999999999:1", 200), ("topic=one&offset=99999999", 200),
        ("topic=one&partition=%00", 400), ("topic=<script>", 404), ("topic=one&limit=99999", 400),
    ],
)  # fmt: skip
async def test_odd_questions(running: ConsoleBroker, query: str, status: int) -> None:
    await running.get(f"messages?{query}", status)
    async with asyncio.timeout(5):
        await running.get("overview")


def test_keys_go_where_javas_client_sends_them() -> None:
    for key in (b"", b"a", b"ab", b"abc", b"abcd", b"\xff" * 77, *(b"k%d" % n for n in range(200))):
        assert partition_of(key, 13) == partition_of_key(key, 13)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (b"", "text"), (b"{}", "json"), (b" [1]", "json"), (b"plain", "text"), (b"\xff", "binary"),
        (b"a\0", "binary"), (b"\x82\xa1a\x01\xa1b\x02", "msgpack"), (b"\0\0\0\0\x07x\xff", "avro"),
        (b"\x91" * 1_000, "binary"), (b"\xdd\xff\xff\xff\xff", "binary"), ("é" * 600, "text"),
    ],
)  # fmt: skip
def test_kinds_are_guessed(found: bytes | str, kind: str) -> None:
    content = found.encode() if isinstance(found, str) else found
    shown = shown_bytes(content)
    assert shown is not None
    assert shown["kind"] == kind
    assert as_int64(shown["size"]) == len(content)
