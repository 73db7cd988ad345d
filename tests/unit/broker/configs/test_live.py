"""Configs in a whole broker: what a change affects at once, and after a restart."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker import metadata_changes
from broker.configs import live
from broker.configs.changes import (
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    Operation,
    Resource,
    State,
    changes_of,
)
from broker.configs.rows import ConfigSource
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from broker.metadata.topic_rules import RECORDS_PER_REQUEST_MAX, TopicError
from broker.security.tls.server_tls import ServerTls
from config.topic import TopicConfig
from protocol.errors import ErrorCode
from storage.log import Log
from tests.support.broker_rig import Rig, batch
from tests.support.certificates import Authority
from tests.support.rig_client import create, produce
from tests.support.slow_metadata import hold


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "data", num_partitions="2")
    yield made
    assert await made.close()


async def change(rig: Rig, kind: int, name: str, **values: str | None) -> Any:
    """Set keys, or delete them with None; return the errors."""
    operations = [
        Operation(key.replace("_", "."), DELETE if value is None else SET, value)
        for key, value in values.items()
    ]
    (outcome,) = await rig.services.configs.alter([Resource(kind, name, operations)])
    return outcome


def log_of(rig: Rig, topic: str = "t", partition: int = 0) -> Log:
    return rig.services.partitions.get(topic, partition).log


TOPIC_KEYS = {
    "retention_ms": ("5000", 5000),
    "retention_bytes": ("70", 70),
    "segment_bytes": ("1048576", 1048576),
    "segment_ms": ("99", 99),
    "max_message_bytes": ("1000", 1000),
    "index_interval_bytes": ("64", 64),
    "flush_messages": ("3", 3),
    "flush_ms": ("4", 4),
    "cleanup_policy": ("compact", ("compact",)),
    "message_timestamp_type": ("LogAppendTime", "LogAppendTime"),
    "message_timestamp_before_max_ms": ("8", 8),
    "message_timestamp_after_max_ms": ("9", 9),
    "write_caching": ("true", True),
}


@pytest.mark.parametrize("attribute", TOPIC_KEYS)
async def test_a_topics_key_applies_at_once_to_every_partition_and_can_be_removed(
    rig: Rig, attribute: str
) -> None:
    text, value = TOPIC_KEYS[attribute]
    await create(rig, "t", 2)
    await create(rig, "other")
    assert await change(rig, CONFIG_TOPIC, "t", **{attribute: text}) is None
    for partition in (0, 1):
        assert getattr(log_of(rig, "t", partition).config, attribute) == value
    assert log_of(rig, "other").config == TopicConfig()
    assert await change(rig, CONFIG_TOPIC, "t", **{attribute: None}) is None
    assert log_of(rig).config == TopicConfig()


BROKER_KEYS = {
    "log_retention_ms": ("5000", "retention_ms", 5000),
    "log_retention_bytes": ("70", "retention_bytes", 70),
    "log_segment_bytes": ("1048576", "segment_bytes", 1048576),
    "message_max_bytes": ("1000", "max_message_bytes", 1000),
    "log_index_interval_bytes": ("64", "index_interval_bytes", 64),
    "log_flush_interval_ms": ("4", "flush_ms", 4),
    "log_cleanup_policy": ("compact", "cleanup_policy", ("compact",)),
    "write_caching": ("true", "write_caching", True),
}


@pytest.mark.parametrize("name", BROKER_KEYS)
@pytest.mark.parametrize("broker", ["", "1"])
async def test_a_brokers_key_is_the_default_of_old_and_new_topics(
    rig: Rig, name: str, broker: str
) -> None:
    text, attribute, value = BROKER_KEYS[name]
    await create(rig, "old")
    await create(rig, "own", retention_ms="1", retention_bytes="2", segment_bytes="3000000",
                 max_message_bytes="4", index_interval_bytes="5", flush_ms="6",
                 cleanup_policy="delete", write_caching="false")  # fmt: skip
    own = log_of(rig, "own").config
    assert await change(rig, CONFIG_BROKER, broker, **{name: text}) is None
    await create(rig, "new")
    assert getattr(log_of(rig, "old").config, attribute) == value
    assert getattr(log_of(rig, "new").config, attribute) == value
    assert log_of(rig, "own").config == own
    assert await change(rig, CONFIG_BROKER, broker, **{name: None}) is None
    assert log_of(rig, "old").config == log_of(rig, "new").config == TopicConfig()


async def test_this_broker_overrides_all_brokers_and_both_override_the_static_configs(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path / "data", log_roll_ms="1000")
    held = [rig.services.config.topic_defaults.segment_ms]
    for broker, text in (("", "2000"), ("1", "3000"), ("1", None), ("", None)):
        await change(rig, CONFIG_BROKER, broker, log_roll_ms=text)
        held.append(rig.services.config.topic_defaults.segment_ms)
    assert held == [1000, 2000, 3000, 2000, 1000]
    assert await rig.close()


async def test_changed_bounds_of_the_broker_reach_their_listeners(rig: Rig) -> None:
    heard: list[int] = []
    rig.services.configs.settings.listen(lambda config: heard.append(config.max_connections))
    await change(rig, CONFIG_BROKER, "", max_connections="7", producer_id_expiration_ms="8")
    assert heard == [2**31 - 1, 7]
    assert rig.services.config.max_connections == 7
    assert rig.services.logs.home.producer_expiration_ms == 8


async def test_all_configs_survive_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig)
    await change(rig, CONFIG_TOPIC, "t", retention_ms="5000", flush_ms="6")
    await change(rig, CONFIG_TOPIC, "t", flush_ms=None)
    await change(rig, CONFIG_BROKER, "", log_segment_bytes="3000000", max_connections="9")
    await change(rig, CONFIG_BROKER, "1", log_segment_bytes="4000000", foo_bar="secret")
    await change(rig, GROUP, "g", consumer_session_timeout_ms="50000")
    await change(rig, CLIENT_METRICS, "m", interval_ms="1000")
    before = (rig.services.configs.broker(), rig.services.configs.cluster())
    assert await rig.close()

    again = Rig(tmp_path / "data")
    config = log_of(again).config
    assert (config.retention_ms, config.segment_bytes) == (5000, 4000000)
    assert config.flush_ms == TopicConfig().flush_ms
    assert again.services.config.max_connections == 9
    configs = again.services.configs
    assert (configs.broker(), configs.cluster()) == before
    assert [row.value for row in configs.group("g") if row.source is ConfigSource.GROUP] == [
        "50000"
    ]
    assert [row.value for row in configs.client_metrics("m") if row.name == "interval.ms"] == [
        "1000"
    ]
    assert await again.close()


async def test_unusable_recorded_values_are_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(tmp_path / "data")
    with caplog.at_level(logging.WARNING, "barnabas.configs"):
        await change(rig, CONFIG_BROKER, "", foo_bar="secret")
        await change(rig, CONFIG_BROKER, "", max_connections="9")
        assert len(caplog.messages) == 1
        assert "foo.bar" in caplog.messages[0]
        assert "secret" not in caplog.messages[0]
        assert await rig.close()
        again = Rig(tmp_path / "data")
        assert len(caplog.messages) == 2
    assert again.services.config.max_connections == 9
    assert await again.close()


async def test_validate_only_changes_and_records_nothing(rig: Rig) -> None:
    await create(rig)
    end_offset = rig.services.controller.metadata_log.end_offset
    wanted = Resource(CONFIG_TOPIC, "t", [Operation("retention.ms", SET, "5")])
    assert await rig.services.configs.alter([wanted], validate_only=True) == [None]
    assert log_of(rig).config == TopicConfig()
    assert rig.services.controller.metadata_log.end_offset == end_offset


async def test_each_resource_is_changed_by_itself_and_recorded_once(rig: Rig) -> None:
    await create(rig)
    end_offset = rig.services.controller.metadata_log.end_offset
    good = Resource(CONFIG_TOPIC, "t", [Operation("retention.ms", SET, "5")])
    bad = Resource(CONFIG_TOPIC, "nope", [Operation("retention.ms", SET, "5")])
    first, second = await rig.services.configs.alter([bad, good])
    assert first is not None
    assert first.code == 3
    assert second is None
    assert log_of(rig).config.retention_ms == 5
    assert rig.services.controller.metadata_log.end_offset == end_offset + 1
    assert await rig.services.configs.alter([good]) == [None]
    assert rig.services.controller.metadata_log.end_offset == end_offset + 1


async def test_a_failed_flush_of_the_metadata_log_changes_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(tmp_path / "data")
    await create(rig)

    async def not_durable(*_: object) -> ErrorCode:
        return ErrorCode.KAFKA_STORAGE_ERROR

    with monkeypatch.context() as patch:
        patch.setattr(rig.services.commit, "durable", not_durable)
        with pytest.raises(TopicError) as failed:
            await change(rig, CONFIG_TOPIC, "t", retention_ms="5")
    assert failed.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log_of(rig).config == TopicConfig()
    assert await rig.close()


async def test_turning_write_caching_off_flushes_acknowledged_records(rig: Rig) -> None:
    await create(rig, write_caching="true")
    assert await produce(rig, batch(b"a")) == 0
    log = log_of(rig)
    assert (log.high_watermark, log.durable_offset) == (1, 0)
    await change(rig, CONFIG_TOPIC, "t", write_caching=None)
    assert log.high_watermark == 1
    await rig.services.commit.drained()
    assert log.durable_offset == 1
    assert await produce(rig, batch(b"b")) == 1
    assert log.durable_offset == 2


async def test_turning_write_caching_on_shows_written_records_at_once(rig: Rig) -> None:
    await create(rig)
    seen: list[int] = []
    partition = rig.services.partitions.get("t", 0)
    notified = rig.services.purgatory.notify
    rig.services.purgatory.notify = lambda one: (  # type: ignore[method-assign]
        seen.append(one.log.high_watermark), notified(one),
    )[1]  # fmt: skip
    partition.log.append(batch(b"a"), rig.clock.now_ms())
    assert partition.log.high_watermark == 0
    await change(rig, CONFIG_TOPIC, "t", write_caching="true")
    assert 1 in seen


async def test_resources_are_named_by_type(rig: Rig) -> None:
    await create(rig)
    await change(rig, GROUP, "g", consumer_session_timeout_ms="50000")
    await change(rig, GROUP, "gone", consumer_session_timeout_ms="50000")
    await change(rig, GROUP, "gone", consumer_session_timeout_ms=None)
    names = rig.services.configs.names
    assert [names(kind) for kind in (CONFIG_TOPIC, CONFIG_BROKER, GROUP, CLIENT_METRICS, 8)] == [
        ["t"],
        ["1"],
        ["g"],
        [],
        [],
    ]


async def test_a_brokers_change_reaches_every_topic_and_keeps_its_own_values(rig: Rig) -> None:
    for number in range(50):
        await create(rig, f"t{number}", retention_ms="7")
    before = [log_of(rig, f"t{number}").config for number in range(50)]
    await change(rig, CONFIG_BROKER, "", log_roll_ms="12345")
    after = [log_of(rig, f"t{number}").config for number in range(50)]
    assert after == [dataclasses.replace(config, segment_ms=12345) for config in before]


async def test_a_brokers_change_reaches_topics_in_the_order_of_their_creation(rig: Rig) -> None:
    names = [f"t{number}" for number in range(20)]
    for name in names:
        await create(rig, name)
    notified: list[str] = []
    rig.services.purgatory.notify = (  # type: ignore[method-assign]
        lambda partition: notified.append(partition.log.topic)
    )
    await change(rig, CONFIG_BROKER, "", write_caching="true")
    assert [name for name in dict.fromkeys(notified) if name in names] == names


@pytest.fixture
async def tls_rig(tmp_path: Path) -> AsyncIterator[Rig]:
    authority = Authority(tmp_path / "certificates")
    issued = authority.issue("broker")
    made = Rig(
        tmp_path / "data",
        listeners="SSL://127.0.0.1:1",
        ssl_certificate=issued.chain_file,
        ssl_key=issued.key_file,
        ssl_truststore_location=authority.file,
        ssl_client_auth="required",
    )
    yield made
    assert await made.close()


def tls_of(rig: Rig) -> ServerTls:
    assert rig.services.tls is not None
    return rig.services.tls.of("SSL")


OPEN = Operation("listener.name.ssl.ssl.client.auth", SET, "none")


@pytest.mark.parametrize(
    "resources",
    [
        [Resource(CONFIG_BROKER, "1", [OPEN])] * 2,
        [Resource(CONFIG_BROKER, "2", [OPEN])],
        [Resource(CONFIG_BROKER, "", [OPEN])],
        [Resource(CONFIG_BROKER, "1", [OPEN, Operation("log.cleaner.threads", SET, "100")])],
    ],
    ids=["named twice", "another broker", "the cluster", "another key"],
)
async def test_a_refused_change_leaves_the_tls_of_a_listener(
    tls_rig: Rig, resources: list[Resource]
) -> None:
    before = tls_of(tls_rig)
    outcomes = await tls_rig.services.configs.alter(resources)
    assert None not in outcomes
    assert tls_of(tls_rig) is before


async def test_changes_of_a_listeners_tls_at_the_same_time_build_on_each_other(
    tls_rig: Rig,
) -> None:
    opened = Resource(CONFIG_BROKER, "1", [OPEN])
    newest = Operation("listener.name.ssl.ssl.enabled.protocols", SET, "TLSv1.3")
    outcomes = await asyncio.gather(
        tls_rig.services.configs.alter([opened]),
        tls_rig.services.configs.alter([Resource(CONFIG_BROKER, "1", [newest])]),
    )
    assert outcomes == [[None], [None]]
    settings = tls_of(tls_rig).settings
    assert settings.client_auth == "none"
    assert settings.enabled_protocols == ("TLSv1.3",)


async def test_a_change_of_tls_whose_client_has_left_takes_effect_as_a_whole(
    tls_rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than a client waits, and is recorded: late is not failed (I15)."""
    monkeypatch.setattr(metadata_changes, "METADATA_TIMEOUT_MS", 20)
    slow = hold(monkeypatch.setattr)
    with pytest.raises(TopicError) as refused:
        await tls_rig.services.configs.alter([Resource(CONFIG_BROKER, "1", [OPEN])])
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert tls_of(tls_rig).settings.client_auth == "required"
    slow.release()
    await tls_rig.services.topics.finish()
    assert tls_rig.services.config.tls["SSL"].client_auth == "none"
    assert tls_of(tls_rig).settings.client_auth == "none"


async def test_a_change_for_all_topics_takes_turns(rig: Rig, monkeypatch: Any) -> None:
    """Each topic costs some 30 µs, and a broker may have thousands."""
    for number in range(5):
        await create(rig, f"t{number}")
    monkeypatch.setattr(live, "TOPICS_PER_TURN", 2, raising=False)
    turn, turns = 0, []
    apply_topic = live.Configs._apply_topic

    def applied(*arguments: Any) -> None:
        turns.append(turn)
        apply_topic(*arguments)

    async def count() -> None:
        nonlocal turn
        while len(turns) < 5:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(live.Configs, "_apply_topic", applied)
    counting = asyncio.create_task(count())
    assert await change(rig, CONFIG_BROKER, "", log_retention_ms="5000") is None
    assert [turns.count(one) for one in dict.fromkeys(turns)] == [2, 2, 1]
    assert {log_of(rig, f"t{number}").config.retention_ms for number in range(5)} == {5000}
    await counting


async def test_refusals_hold_no_frames(rig: Rig) -> None:
    """They would hold the outcomes, and so themselves, until the garbage collector comes."""
    no_number = [Operation("retention.ms", SET, "x")]
    resources = [Resource(CONFIG_TOPIC, name, no_number) for name in ("t", "unknown")]
    refusals = await rig.services.configs.alter(resources)
    assert all(one is not None and one.__traceback__ is None for one in refusals)


def test_resources_with_very_many_keys_are_changed_in_pieces() -> None:
    counts = (3, live.KEYS_TOGETHER - 3, 1, live.KEYS_TOGETHER + 1, *[0] * live.TOGETHER, 0)
    operation = Operation("retention.ms", SET, "5")
    resources = [Resource(CONFIG_TOPIC, "t", [operation] * count) for count in counts]
    pieces = list(live._pieces(resources))
    assert [one for piece in pieces for one in piece] == resources
    assert [len(piece) for piece in pieces] == [2, 1, 1, live.TOGETHER, 1]
    assert not list(live._pieces([]))


async def test_very_many_keys_of_a_resource_are_refused_unseen(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as a request may have records, as Kafka does; each may be one."""
    seen: list[Resource] = []

    def noted(resource: Resource, state: State) -> dict[str, str | None]:
        seen.append(resource)
        return changes_of(resource, state)

    monkeypatch.setattr(live, "changes_of", noted)
    names = [f"plugin.{number}" for number in range(RECORDS_PER_REQUEST_MAX + 1)]
    operations = [Operation(name, SET, "v") for name in names]
    with pytest.raises(TopicError) as raised:
        await rig.services.configs.alter([Resource(CONFIG_BROKER, "", operations)])
    assert raised.value.code == ErrorCode.POLICY_VIOLATION
    assert not seen
    del operations[0]
    most = Resource(CONFIG_BROKER, "", operations)
    assert await rig.services.configs.alter([most], validate_only=True) == [None]
    assert seen == [most]
