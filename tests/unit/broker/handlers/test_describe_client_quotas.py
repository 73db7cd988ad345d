"""DescribeClientQuotas: filters, and the refusals of Apache Kafka 4.3 with their texts."""

from typing import Any

import pytest

from broker.metadata.quota_image import QuotaEntity, quota_entity, quota_record
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask

EXACT, DEFAULT, ANY = range(3)
A = quota_entity([("user", "a")])
ANY_USER = quota_entity([("user", None)])
BOTH = quota_entity([("user", "a"), ("client-id", "b")])
IP = quota_entity([("ip", None)])
COMBINED = (
    "Invalid entity filter component combination. IP filter component should not be used "
    "with user or clientId filter component."
)
ALL = [A, ANY_USER, BOTH, IP]


def request(components: Any, *, strict: bool = False) -> DescribeClientQuotasRequest:
    wanted = [
        QuotaFilterComponent(entity_type=kind, match_type=way, match=name)
        for kind, way, name in components
    ]
    return DescribeClientQuotasRequest(components=wanted, strict=strict)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("components", "matched", "matched_strictly"),
    [
        ([], ALL, []),
        ([("user", ANY, None)], [A, ANY_USER, BOTH], [A, ANY_USER]),
        ([("user", EXACT, "a")], [A, BOTH], [A]),
        ([("user", DEFAULT, None)], [ANY_USER], [ANY_USER]),
        ([("user", EXACT, "")], [], []),
        ([("user", EXACT, "a"), ("client-id", ANY, None)], [BOTH], [BOTH]),
        ([("client-id", ANY, None)], [BOTH], []),
        ([("ip", ANY, None)], [IP], [IP]),
    ],
)
async def test_filters(
    rig: Rig,
    version: int,
    components: Any,
    matched: list[QuotaEntity],
    matched_strictly: list[QuotaEntity],
) -> None:
    for entity in ALL:
        rig.services.controller.image.quotas.apply(quota_record(entity, "k", 1.5))
    for strict, expected in ((False, matched), (True, matched_strictly)):
        answer = await ask(rig, request(components, strict=strict), version)
        assert (answer.error_code, answer.error_message) == (0, "")
        assert [
            tuple((part.entity_type, part.entity_name) for part in entry.entity)
            for entry in answer.entries
        ] == expected
        assert all(
            [(one.key, one.value) for one in entry.values] == [("k", 1.5)]
            for entry in answer.entries
        )


@pytest.mark.parametrize(
    ("components", "code", "text"),
    [
        ([("", EXACT, "x")], 42, "Invalid empty entity type."),
        ([("foo", 9, "x")], 35, "Unsupported entity type foo"),
        ([("user", 9, None)], 42, "Unknown match type 9"),
        (
            [("user", EXACT, None)],
            42,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "x")],
            42,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", ANY, "x")],
            42,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [("user", EXACT, "a"), ("user", ANY, None)],
            42,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", ANY, None), ("ip", ANY, None)],
            42,
            COMBINED,
        ),
    ],
)
async def test_refusals(rig: Rig, components: Any, code: int, text: str) -> None:
    for version in (0, 1):
        answer = await ask(rig, request(components), version)
        assert (answer.error_code, answer.error_message, answer.entries) == (code, text, None)


@pytest.mark.parametrize(
    "keys",
    [
        ("consumer_byte_rate", "request_percentage", "producer_byte_rate"),
        (
            "producer_byte_rate",
            "consumer_byte_rate",
            "controller_mutation_rate",
            "request_percentage",
        ),
        ("connection_creation_rate",),
    ],
)
async def test_quotas_are_in_the_order_of_kafkas_hash_map(rig: Rig, keys: tuple[str, ...]) -> None:
    for key in sorted(keys, reverse=True):
        rig.services.controller.image.quotas.apply(quota_record(A, key, 1))
    (entry,) = (await ask(rig, request([]), 1)).entries
    assert tuple(one.key for one in entry.values) == keys
