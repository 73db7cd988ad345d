"""AlterClientQuotas in both versions: outcomes for each entity, in effect with the answer."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.handlers import alter_client_quotas
from broker.runtime.request import Request
from protocol.dialect import RequestHeader
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask


def entity(**names: str | None) -> list[AlteredQuotaEntity]:
    return [
        AlteredQuotaEntity(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in names.items()
    ]


def change(key: str, value: float | None, **names: str | None) -> QuotaAlteration:
    operation = QuotaOperation(key=key, value=value or 0.0, remove=value is None)
    return QuotaAlteration(entity=entity(**names), ops=[operation])


@pytest.mark.parametrize("version", [0, 1])
async def test_each_entity_has_an_outcome(rig: Rig, version: int) -> None:
    wanted = [
        change("producer_byte_rate", 5.0, user="a", client_id=None),
        change("nope", 5.0, user="b"),
        change("producer_byte_rate", None, user="c"),
    ]
    answer = await ask(rig, AlterClientQuotasRequest(entries=wanted), version)
    assert [(one.error_code, one.error_message) for one in answer.entries] == [
        (0, None),
        (42, "Invalid configuration key nope"),
        (0, None),
    ]
    assert answer.entries[1].entity == entity(user="b")
    assert rig.services.controller.image.quotas.entities == {
        (("client-id", None), ("user", "a")): {"producer_byte_rate": 5.0}
    }


async def test_the_quota_of_changes_to_topics_is_in_effect(rig: Rig) -> None:
    limit = change("controller_mutation_rate", 1.0, user="ANONYMOUS")
    await ask(rig, AlterClientQuotasRequest(entries=[limit]), 1)

    def create(name: str, count: int, *, validate_only: bool = False) -> CreateTopicsRequest:
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        return CreateTopicsRequest(topics=[topic], timeout_ms=5_000, validate_only=validate_only)

    answer = await ask(rig, create("a", 10), 7)
    assert (answer.throttle_time_ms, answer.topics[0].error_code) == (0, 0)
    answer = await ask(rig, create("b", 10, validate_only=True), 7)  # counts in Kafka, too
    assert (answer.throttle_time_ms, answer.topics[0].error_code) == (0, 0)
    answer = await ask(rig, create("b", 1), 7)
    (refused,) = answer.topics
    assert (refused.error_code, refused.error_message) == (89, None)
    assert 8_000 < answer.throttle_time_ms <= 9_000
    assert rig.connection.throttled == [answer.throttle_time_ms]
    assert "b" not in rig.services.controller.image.topics
    answer = await ask(rig, create("b", 1), 5)  # a version without the error
    assert (answer.topics[0].error_code, answer.throttle_time_ms > 8_000) == (0, True)
    delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=5_000)
    answer = await ask(rig, delete, 6)
    assert (answer.responses[0].error_code, answer.throttle_time_ms > 8_000) == (89, True)
    assert "a" in rig.services.controller.image.topics


async def test_topics_that_are_created_by_asking_for_them_count(rig: Rig) -> None:
    limit = change("controller_mutation_rate", 1.0, user="ANONYMOUS")
    await ask(rig, AlterClientQuotasRequest(entries=[limit]), 1)
    names = [f"t{number}" for number in range(15)]
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    answer = await ask(rig, wanted, 12)
    codes = [topic.error_code for topic in answer.topics]
    assert codes == [0] * 12 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3  # 11, and one on credit
    assert len(rig.services.controller.image.topics) == 12
    assert rig.connection.throttled == []


async def test_too_many_changes_are_refused_together(rig: Rig) -> None:
    ops = [QuotaOperation(key="producer_byte_rate", value=5.0, remove=False)] * 5_001
    wanted = [QuotaAlteration(entity=entity(user=name), ops=ops) for name in ("a", "b")]
    answer = await ask(rig, AlterClientQuotasRequest(entries=wanted), 1)
    assert [(one.error_code, one.entity) for one in answer.entries] == [
        (44, entity(user="a")),
        (44, entity(user="b")),
    ]
    assert rig.services.controller.image.quotas.entities == {}


@pytest.mark.parametrize("version", [0, 1])
async def test_a_refusal_that_quotes_a_long_text_is_answered(rig: Rig, version: int) -> None:
    """The other changes of the request are made: their client is told."""
    key = "k" * 32_767
    wanted = [change("producer_byte_rate", 5.0, user="a"), change(key, 5.0, user="b")]
    answer = await ask(rig, AlterClientQuotasRequest(entries=wanted), version)
    assert [one.error_code for one in answer.entries] == [0, 42]
    assert answer.entries[1].error_message.startswith("Invalid configuration key kkk")
    assert answer.entries[1].error_message.endswith("kkk…")


async def test_an_entity_of_many_parts_is_refused_in_small_steps(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as long as its client likes: nothing on the loop walks over it at once."""
    parts = [AlteredQuotaEntity(entity_type=f"t{n}", entity_name="n") for n in range(20_000)]
    body = AlterClientQuotasRequest(entries=[QuotaAlteration(entity=parts, ops=[])])
    threads = []
    pool_run = rig.services.pool.run

    async def run(job: Callable[[], Any], *more: Any) -> Any:
        threads.append(job)
        return await pool_run(job, *more)

    monkeypatch.setattr(rig.services.pool, "run", run)
    request = Request(rig.connection, RequestHeader(49, 1, 0, "c"), body, 0)
    steps = await alter_client_quotas.handle(request, rig.services)
    assert threads, "it was planned on the loop"
    sizes = list(steps)
    assert max(sizes) < 10_000
    assert sum(sizes) > 5 * len(parts)
    answer = await ask(rig, body, 1)
    assert (answer.entries[0].error_code, answer.entries[0].entity) == (42, parts)
