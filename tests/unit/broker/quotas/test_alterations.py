"""Which changes of quotas are made: outcomes and texts of Apache Kafka 4.3 for the same."""

from typing import Any

import pytest

from broker.metadata.quota_image import QuotaImage, quota_entity, quota_record
from broker.metadata.topic_rules import TopicError
from broker.quotas.alterations import Alteration, literal_address, plan

P = "producer_byte_rate"
C = "connection_creation_rate"
USER = [("user", "a")]
IP = [("ip", "1.2.3.4")]
MIXED = "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"


def planned(*asked: tuple[Any, Any], image: QuotaImage | None = None) -> Any:
    names = {"localhost": "127.0.0.1"}
    alterations = [Alteration(quota_entity(entity), values) for entity, values in asked]
    return plan(alterations, image or QuotaImage(), names.get)


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER, P, 1000.0),
        (USER, P, 1.0000001),
        (USER, "x", None),
        (USER, "request_percentage", 0.01),
        (USER, "request_percentage", float("inf")),
        (USER, "controller_mutation_rate", 0.5),
        ([("client-id", None)], "consumer_byte_rate", 1.0),
        ([("user", None), ("client-id", "b")], P, 1.0),
        (IP, C, 5.0),
        ([("ip", "localhost")], C, 5.0),
        ([("ip", None)], C, 5.0),
        ([("ip", "::1")], C, 5.0),
        ([("ip", "1.2")], C, 5.0),
        ([("ip", "10.0.0.1"), ("ip", "10.0.0.2")], C, 5.0),
    ],
)
def test_made(entity: Any, key: str, value: float | None) -> None:
    found = planned((entity, [(key, value)]))
    made = quota_entity(entity)
    assert found.outcomes == {made: None}
    assert found.records == ([] if value is None else [quota_record(made, key, value)])


@pytest.mark.parametrize(
    ("entity", "key", "value", "text"),
    [
        (USER, P, 0.0, f"Quota {P} must be greater than 0"),
        (USER, P, -1.5, f"Quota {P} must be greater than 0"),
        (USER, P, float("nan"), f"Quota {P} must be greater than 0"),  # ours: Kafka takes it
        (USER, "request_percentage", 0.0, "Quota request_percentage must be greater than 0"),
        (USER, P, 1.5, f"{P} cannot be a fractional value."),
        (USER, P, float("inf"), f"Proposed value for {P} is too large for a LONG."),
        (USER, P, 1e19, f"Proposed value for {P} is too large for a LONG."),
        (IP, C, 3e9, f"Proposed value for {C} is too large for an INT."),
        (IP, C, 1.5, f"{C} cannot be a fractional value."),
        (USER, "x", 1.0, "Invalid configuration key x"),
        (USER, C, 1.0, f"Invalid configuration key {C}"),
        (USER, "SCRAM-SHA-256", 1.0, "Invalid configuration key SCRAM-SHA-256"),
        (IP, P, 1.0, f"Invalid configuration key {P}"),
        ([], P, 1.0, "Invalid empty client quota entity"),
        ([("user", "")], P, 1.0, "Empty user not supported"),
        ([("client-id", "")], P, 1.0, "Empty client-id not supported"),
        ([("ip", "")], C, 1.0, "Empty ip not supported"),
        ([("foo", "")], P, 1.0, "Unhandled client quota entity type: foo"),
        ([("user", "a"), ("ip", "1.2.3.4")], P, 1.0, MIXED),
        ([("client-id", "a"), ("ip", "1.2.3.4")], P, 1.0, MIXED),
        ([("ip", "no.such")], C, 1.0, "no.such is not a valid IP or resolvable host."),
        ([("ip", "1.2.3.4/8")], C, 1.0, "1.2.3.4/8 is not a valid IP or resolvable host."),
        ([("ip", "300.1.1.1")], C, 1.0, "300.1.1.1 is not a valid IP or resolvable host."),
        ([("user", "é" * 16_384)], P, 1.0, "The name of a user has more than 32767 bytes"),
    ],
)
def test_refused(entity: Any, key: str, value: float, text: str) -> None:
    found = planned((entity, [(key, value)]), ([("user", "z")], [(P, 1.0)]))
    outcome = found.outcomes[quota_entity(entity)]
    assert (outcome.code, outcome.message) == (42, text)
    assert found.records == [quota_record((("user", "z"),), P, 1.0)]


def test_an_entity_is_changed_whole_or_not_at_all() -> None:
    found = planned((USER, [(P, 5.0), ("x", 6.0)]))
    assert found.outcomes[quota_entity(USER)].message == "Invalid configuration key x"
    assert found.records == []


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ([(USER, [(P, 5.0), (P, 6.0)])], "{user=a}"),
        ([(USER, [(P, 5.0)]), (USER, [(P, 6.0)])], "{user=a}"),
        ([([("client-id", None), ("user", "a")], [(P, 5.0)])] * 2, "{client-id=null, user=a}"),
    ],
)
def test_what_is_named_twice_is_not_changed(asked: Any, text: str) -> None:
    found = planned(*asked)
    (outcome,) = found.outcomes.values()
    assert outcome.message == f"Ignoring duplicate entity ClientQuotaEntity(entries={text})"
    assert found.records == []


def test_what_is_so_already_makes_no_record() -> None:
    image = QuotaImage({quota_entity(USER): {P: 5.0}})
    found = planned((USER, [(P, 5.0), ("consumer_byte_rate", None)]), image=image)
    assert (list(found.outcomes.values()), found.records) == ([None], [])
    found = planned((USER, [(P, None)]), image=image)
    assert found.records == [quota_record(quota_entity(USER), P, None)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("1.2", "1.0.0.2"),
        ("1.2.259", "1.2.1.3"),
        ("16909060", "1.2.3.4"),
        ("::0:1", "::1"),
        ("1.2.3.4.5", None),
        ("256.1.1.1", None),
        ("4294967296", None),
        ("1..2", None),
        ("host", None),
        ("1.2.3.x", None),
        ("9" * 5_000, None),
        ("²", None),
    ],
)
def test_addresses(text: str, address: str | None) -> None:
    assert literal_address(text) == address


def test_refusals_hold_no_frames() -> None:
    """They would hold the outcomes, and so themselves, until the garbage collector comes."""
    (refusal,) = planned((USER, [(P, 1.0), (P, 2.0)])).outcomes.values()
    assert isinstance(refusal, TopicError)
    assert refusal.__traceback__ is None
