"""Subscriptions: which match a client, their union, and the id of what is wanted."""

import pytest

from broker.telemetry.metric_subscriptions import (
    DEFAULT_INTERVAL_MS,
    OWN_INTERVAL_MS,
    Wanted,
    check_expressions,
    read_subscription,
    wanted_from,
)
from config.resources import ResourceConfigError

CLIENT = {"client_id": "app-1", "client_software_name": "librdkafka", "client_source_port": None}
DEFAULT = ("own.",)


def wanted(*configs: dict[str, str], default: tuple[str, ...] = DEFAULT) -> Wanted:
    return wanted_from(map(read_subscription, configs), default, CLIENT)


@pytest.mark.parametrize(
    ("match", "is_match"),
    [
        ("", True),
        ("client_id=app-1", True),
        ("client_id=app-.", True),
        ("client_id = app-.*", True),
        ("client_id=app", False),
        ("client_id=app.*,client_software_name=lib.*", True),
        ("client_id=app.*,client_software_name=apache.*", False),
        ("client_source_port=.*", False),  # not known
        ("client_id=a.*,client_id=b.*", False),  # the last one of a selector holds
        ("client_id=(?!a).*", False),  # recorded by Kafka, unknown to RE2
    ],
)
def test_all_expressions_must_match_as_wholes(match: str, *, is_match: bool) -> None:
    found = wanted({"metrics": "a.", "match": match}, default=())
    assert found.metrics == (("a.",) if is_match else ())


def test_a_client_pushes_the_union_at_the_shortest_interval() -> None:
    found = wanted(
        {"metrics": "b., a.", "interval.ms": "2000"},
        {"metrics": "a.,c.", "interval.ms": "9000"},
        {"metrics": "z.", "interval.ms": "100", "match": "client_id=other"},
    )
    assert found == Wanted(("a.", "b.", "c."), 2000)


def test_a_star_means_all() -> None:
    assert wanted({"metrics": "a.,*"}, {"metrics": "b."}).metrics == ("*",)


def test_without_an_interval_or_with_a_longer_one_it_is_kafkas_default() -> None:
    assert wanted({"metrics": "a."}) == Wanted(("a.",), DEFAULT_INTERVAL_MS)
    assert wanted({"interval.ms": "3600000"}) == Wanted((), DEFAULT_INTERVAL_MS)


def test_the_default_subscription_holds_where_none_matches() -> None:
    assert wanted({"metrics": "a.", "match": "client_id=x"}) == Wanted(DEFAULT, OWN_INTERVAL_MS)
    assert wanted(default=()) == Wanted((), DEFAULT_INTERVAL_MS)


def test_the_id_is_an_int32_of_the_metrics_the_interval_and_the_instance() -> None:
    one = Wanted(("a.",), 100)
    instance = bytes(range(15)) + b"x"
    ids = {
        one.id_for(instance), one.id_for(bytes(16)), Wanted(("a.",), 101).id_for(instance),
        Wanted(("b.",), 100).id_for(instance),
    }  # fmt: skip
    assert len(ids) == 4
    assert one.id_for(instance) == Wanted(("a.",), 100).id_for(instance)
    assert all(-(1 << 31) <= found < 1 << 31 for found in ids)


def test_an_expression_that_re2_does_not_know_is_refused() -> None:
    check_expressions("client_id=a.*,client_source_port=9")
    with pytest.raises(ResourceConfigError, match="Illegal client matching pattern"):
        check_expressions("client_id=(?!a).*")
