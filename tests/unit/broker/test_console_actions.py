"""Topics, groups, configs, the disk, transactions and users in the console, and their changes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.console.group_lag import _assigned
from broker.console.sessions import IDLE_MS, LONGEST_MS, SESSIONS_MAX, Sessions, token_of
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.security.acl.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    encode_assignment,
)
from tests.support.console_client import ConsoleBroker, EventReader
from tests.support.console_groups import commit


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[ConsoleBroker]:
    found = await ConsoleBroker.start(tmp_path / "data")
    yield found
    assert await found.stop() == EXIT_CLEAN


async def test_topics_are_created_listed_and_deleted(running: ConsoleBroker) -> None:
    dry = await running.post("topics/create", {"name": "a", "partitions": 2, "dry_run": True})
    assert dry == {"name": "a", "partitions": 2, "dry_run": True}
    assert (await running.get("topics"))["total"] == 0
    for name, count in (("a", 2), ("b", 5), ("__c", 1)):
        await running.post("topics/create", {"name": name, "partitions": count})
    found = await running.get("topics")
    assert [one["name"] for one in found["topics"]] == ["a", "b"]
    assert found["hidden"] == 1
    assert (await running.get("topics?internal=1"))["total"] == 3
    assert (await running.get("topics?sort=partitions"))["topics"][0]["name"] == "b"
    assert [one["name"] for one in (await running.get("topics?filter=B"))["topics"]] == ["b"]
    page = await running.get("topic?topic=b&offset=3&limit=1")
    assert [one["partition"] for one in page["list"]] == [3]
    again = await running.post("topics/create", {"name": "a"}, 409)
    assert again["error"]["code"] == "TOPIC_ALREADY_EXISTS"
    await running.post("topics/create", {"name": "a b"}, 400)
    await running.post("topics/create", {"name": "n", "configs": {"retention.ms": "x"}}, 400)
    await running.post("topics/create", {"name": "n", "partitions": 1 << 40}, 400)
    await running.post("topics/delete", {"name": "a", "confirm": "b"}, 400)
    await running.post("topics/delete", {"name": "a", "confirm": "a"})
    await running.post("topics/delete", {"name": "a", "confirm": "a"}, 404)
    assert [one["name"] for one in (await running.get("topics"))["topics"]] == ["b"]


async def test_offsets_are_reset_after_a_dry_run(running: ConsoleBroker) -> None:
    await running.post("topics/create", {"name": "a", "partitions": 2})
    for number in range(10):
        await running.post("messages/produce", {"topic": "a", "partition": 0, "value": "x",
                                                "timestamp": 1_000 * number})  # fmt: skip
    await commit(running, "g<1>", "a", {0: 3, 1: 0})
    (listed,) = (await running.get("groups"))["groups"]
    assert (listed["group_id"], listed["lag"], listed["members"]) == ("g<1>", 7, 0)
    one = await running.get("group?id=g%3C1%3E")
    assert [(part["offset"], part["lag"]) for part in one["offsets"]] == [(3, 7), (0, 0)]
    assert one["offsets"][0]["lag_seconds"] > 1_000_000
    for body, after in (
        ({"to": "earliest"}, {0: 0, 1: 0}),
        ({"to": "latest"}, {0: 10, 1: 0}),
        ({"to": "offset", "value": 4, "partitions": [0]}, {0: 4}),
        ({"to": "offset", "value": 4, "partitions": [0] * 9_000}, {0: 4}),
        ({"to": "offset", "value": 400}, {0: 10, 1: 0}),
        ({"to": "shift", "value": -2}, {0: 1, 1: 0}),
        ({"to": "timestamp", "value": 5_000}, {0: 5, 1: 0}),
        ({"to": "timestamp", "value": 5_000_000_000_000}, {0: 10, 1: 0}),
    ):
        asked = {"group": "g<1>", "topic": "a", "dry_run": True, **body}
        found = await running.post("groups/reset", asked)
        assert {change["partition"]: change["after"] for change in found["changes"]} == after
    assert (await running.get("group?id=g%3C1%3E"))["offsets"][0]["offset"] == 3
    await running.post("groups/reset", {"group": "g<1>", "topic": "a", "to": "latest"})
    assert (await running.get("group?id=g%3C1%3E"))["lag"] == 0
    await running.post("topics/create", {"name": "b", "partitions": 1})
    shift = {"group": "g<1>", "topic": "b", "to": "shift", "value": 1}  # nothing is committed
    assert (await running.post("groups/reset", shift))["changes"] == []
    await running.post("groups/reset", {"group": "no", "topic": "a", "to": "latest"}, 404)
    await running.post("groups/reset", {"group": "g<1>", "topic": "z", "to": "latest"}, 404)
    await running.post("groups/reset", {"group": "g<1>", "topic": "a", "to": "up"}, 400)
    await running.post("groups/delete", {"group": "g<1>", "confirm": ""}, 400)
    await running.post("groups/delete", {"group": "g<1>", "confirm": "g<1>"})
    assert (await running.get("groups"))["total"] == 0


def test_a_huge_assignment_is_not_decoded() -> None:
    """The leader of a group writes the assignments: a list of partitions may take long."""
    for count, shown in ((1_000, True), (100_000, False)):
        topic = TopicPartition(topic="t", partitions=list(range(count)))
        found = _assigned(
            encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[topic]))
        )
        assert (found == {"t": list(range(count))}) == shown


async def test_configs_are_shown_and_changed(running: ConsoleBroker) -> None:
    await running.post("topics/create", {"name": "a"})
    asked = {"type": "topic", "name": "a", "set": {"retention.ms": "1000"}}

    async def row() -> Any:
        found = (await running.get("configs?type=topic&name=a"))["configs"]
        return next(one for one in found if one["name"] == "retention.ms")

    await running.post("configs/alter", {**asked, "dry_run": True})
    assert (await row())["differs"] is False
    await running.post("configs/alter", asked)
    found = await row()
    assert (found["value"], found["source"], found["differs"]) == ("1000", "topic", True)
    assert found["documentation"]
    await running.post("configs/alter", {"type": "topic", "name": "a", "delete": ["retention.ms"]})
    assert (await row())["differs"] is False
    for body in (
        {"type": "topic", "name": "a"},
        {"type": "nothing", "name": "a", "set": {"a": "b"}},
        {"type": "topic", "name": "a", "set": {"retention.ms": 5}},
        {"type": "topic", "name": "a", "set": {"retention.ms": "soon"}},
        {"type": "topic", "name": "a", "set": {"nothing": "1"}},
    ):
        await running.post("configs/alter", body, 400)
    broker = (await running.get("configs"))["configs"]
    assert any(one["name"] == "log.retention.hours" for one in broker)
    secrets = [one for one in broker if one["is_sensitive"]]
    assert all(one["value"] is None for one in secrets)


async def test_the_disk_transactions_and_users(running: ConsoleBroker) -> None:
    await running.post("topics/create", {"name": "a", "partitions": 2})
    await running.post("messages/produce", {"topic": "a", "value": "x"})
    disk = await running.get("disk")
    assert disk["topics"][0]["name"] == "a"
    assert sum(disk["fsync"]["counts"]) > 0
    assert len(disk["fsync"]["counts"]) == len(disk["fsync"]["bounds_ms"]) + 1
    assert (await running.get("transactions"))["transactions"] == []
    assert (await running.get("users"))["users"] == []


async def test_a_read_only_console_changes_nothing(tmp_path: Path) -> None:
    running = await ConsoleBroker.start(tmp_path / "data", "barnabas.http.read.only=true")
    refused = await running.post("topics/create", {"name": "a"}, 403)
    assert refused["error"]["code"] == "READ_ONLY"
    assert (await running.get("session"))["may_write"] is False
    assert (await running.get("topics"))["total"] == 0
    assert await running.stop() == EXIT_CLEAN


# -- logins ------------------------------------------------------------------------------------


async def test_users_log_in_and_have_their_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.console.login_api.PAUSE_SECONDS", 0.0)
    running = await ConsoleBroker.start_with_users(tmp_path / "data")
    assert (await running.get("session"))["entry"] == "user"
    for path in ("overview", "topics", "messages?topic=a", "configs", "log", "events"):
        await running.get(path, 401)
    await running.post("topics/create", {"name": "a"}, 401)
    await running.post("login", {"user": "admin", "password": "wrong"}, 401)
    await running.post("login", {"user": "nobody", "password": "secret"}, 401)
    await running.post("login", {"user": "admin", "password": "secret"})
    assert (await running.get("session"))["principal"] == "User:admin"
    await running.post("topics/create", {"name": "a", "partitions": 1})
    await running.post("messages/produce", {"topic": "a", "value": "x"})
    assert (await running.get("topics"))["total"] == 1
    await running.get("overview")
    await running.post("logout", {})
    await running.get("overview", 401)
    await running.post("login", {"user": "alice", "password": "wonder"})
    assert (await running.get("topics"))["total"] == 0
    assert (await running.get("groups"))["total"] == 0
    for path in ("overview", "history", "events", "clients", "log", "disk", "topic?topic=a",
                 "messages?topic=a", "message?topic=a&offset=0", "export?topic=a", "tail?topic=a",
                 "configs", "users", "configs?type=topic&name=a"):  # fmt: skip
        found = await running.get(path, 403)
        assert "AUTHORIZATION_FAILED" in found["error"]["code"], path
    for path, body in (
        ("topics/create", {"name": "b"}),
        ("topics/delete", {"name": "a", "confirm": "a"}),
        ("configs/alter", {"type": "topic", "name": "a", "set": {"retention.ms": "1"}}),
        ("groups/delete", {"group": "g", "confirm": "g"}),
    ):
        await running.post(path, body, 403)
    await running.post("messages/produce", {"topic": "a", "value": "x"}, 404)
    assert await running.stop() == EXIT_CLEAN


async def test_events_end_with_the_login(tmp_path: Path) -> None:
    running = await ConsoleBroker.start_with_users(tmp_path / "data")
    await running.post("login", {"user": "admin", "password": "secret"})
    reader = await EventReader.connect(running, "/api/v1/events")
    assert await reader.head() == 200
    kinds = await reader.kinds(lambda: running.post("logout", {}))
    assert (kinds[0], kinds[-1]) == ("overview", "ended")
    reader.close()
    assert await running.stop() == EXIT_CLEAN


async def test_events_end_with_the_right_to_see_them(tmp_path: Path) -> None:
    running = await ConsoleBroker.start_with_users(tmp_path / "data")
    authorizer = running.services.authorizer
    assert authorizer is not None
    entry = AclEntry(
        ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, "User:alice", "*",
        AclOperation.DESCRIBE, PermissionType.ALLOW,
    )  # fmt: skip
    authorizer.add(entry)
    await running.post("login", {"user": "alice", "password": "wonder"})
    await running.get("overview")
    reader = await EventReader.connect(running, "/api/v1/events")
    assert await reader.head() == 200

    async def end() -> None:
        authorizer.remove(entry)

    kinds = await reader.kinds(end)
    assert (kinds[0], kinds[-1]) == ("overview", "ended")
    await running.get("overview", 403)
    reader.close()
    assert await running.stop() == EXIT_CLEAN


class ManualClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000

    def advance_ms(self, ms: int) -> None:
        self.ms += ms


def test_sessions_are_bounded_and_end() -> None:
    clock = ManualClock()
    made = iter(range(1_000))
    sessions = Sessions(lambda size: next(made).to_bytes(size, "big"), clock)
    first = sessions.begin("User:a", None, may_write=True)
    assert sessions.find(first) is not None
    others = [sessions.begin("User:b", None, may_write=True) for _ in range(SESSIONS_MAX)]
    assert len(sessions) == SESSIONS_MAX
    assert sessions.find(first) is None
    clock.advance_ms(IDLE_MS - 1)
    assert sessions.find(others[-1]) is not None
    clock.advance_ms(1)
    assert sessions.find(others[0]) is None
    for _ in range(2 * LONGEST_MS // IDLE_MS):
        clock.advance_ms(IDLE_MS // 2)
        found = sessions.find(others[-1])
    assert found is None
    exists = [True]
    of_user = sessions.begin("User:c", lambda: exists[0], may_write=True)
    assert sessions.is_open(of_user)
    exists[0] = False
    assert not sessions.is_open(of_user)
    assert sessions.find(of_user) is None
    assert token_of("a=b; barnabas_session=x; c") == "x"
    assert token_of("barnabas_sessions=x") == ""


async def test_a_password_lets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.console.login_api.PAUSE_SECONDS", 0.0)
    running = await ConsoleBroker.start(tmp_path / "data", "barnabas.http.password=key")
    assert (await running.get("session"))["entry"] == "password"
    await running.get("overview", 401)
    await running.post("login", {"password": "no"}, 401)
    await running.post("login", {"password": "key"})
    await running.get("overview")
    await running.post("topics/create", {"name": "a"})
    assert await running.stop() == EXIT_CLEAN
