"""Groups over the wire: both kinds, a coordinator that is not ready, and refusals."""

from __future__ import annotations

import pytest

from client.kafka import coordinators, groups
from client.kafka.connection import BrokerError, Connection
from client.places import Place
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_groups import ScriptedGroups


@pytest.fixture
def scripted():
    return ScriptedGroups()


@pytest.fixture
def broker(scripted, monkeypatch):
    monkeypatch.setattr(coordinators, "RETRY_S", 0)
    with ScriptedBroker(scripted.answers) as found:
        yield found


@pytest.fixture
def connection(broker):
    with Connection(broker.address, 5) as found:
        yield found


def asked(broker, cls):
    return [request for request in broker.requests if isinstance(request, cls)]


def test_groups_are_in_order(connection):
    found = [one.group_id for one in groups.list_groups(connection)]
    assert found == ["connect", "idle", "old", "readers"]


@pytest.mark.parametrize(
    ("name", "kind", "state", "protocol", "epoch", "partitions"),
    [
        ("readers", "consumer", "Stable", "uniform", 3, [[Place("orders", 0)]]),
        ("idle", "consumer", "Empty", "uniform", 3, []),
        ("old", "classic", "Stable", "range", None, [[Place("orders", 1)]]),
        ("connect", "classic", "Stable", "range", None, [None]),
    ],
)
def test_a_group_of_either_kind_is_described(
    connection, name, kind, state, protocol, epoch, partitions
):
    found = groups.describe(connection, name)
    assert (found.kind, found.state, found.protocol, found.epoch) == (kind, state, protocol, epoch)
    assert [member.partitions for member in found.members] == partitions


def test_a_broker_without_consumer_groups_lists_classic_ones(scripted):
    del scripted.answers[ConsumerGroupDescribeRequest]
    with ScriptedBroker(scripted.answers) as broker, Connection(broker.address, 5) as connection:
        assert groups.describe(connection, "old").kind == "classic"


def test_a_missing_group_is_an_error_with_a_suggestion(connection):
    with pytest.raises(BrokerError, match=r"no group 'reader' at .* Did you mean readers\?"):
        groups.describe(connection, "reader")


@pytest.mark.parametrize("versions", [(1, 7), (1, 9), (1, 10)])
def test_offsets_are_requested_by_name_in_any_version(scripted, versions):
    if versions[1] < 8:
        answer = scripted.answers[OffsetFetchRequest]

        def old(request):
            from protocol.messages import offset_fetch as messages

            group = messages.OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
            (found,) = answer(OffsetFetchRequest(groups=[group])).groups
            topics = [
                messages.OffsetFetchResponseTopic(name=topic.name, partitions=topic.partitions)
                for topic in found.topics
            ]
            return messages.OffsetFetchResponse(topics=topics)

        scripted.answers[OffsetFetchRequest] = old
    with (
        ScriptedBroker(scripted.answers, versions={OffsetFetchRequest: versions}) as broker,
        Connection(broker.address, 5) as connection,
    ):
        assert groups.committed(connection, "old") == {
            Place("orders", 0): 7,
            Place("gone", 3): 1,
        }


def test_a_loading_coordinator_is_awaited(scripted, broker, connection):
    scripted.codes = {OffsetFetchRequest: [14, 14], ListGroupsRequest: [14]}
    assert len(groups.committed(connection, "idle")) == 2
    assert len(groups.list_groups(connection)) == 4
    assert asked(broker, FindCoordinatorRequest) == []


@pytest.mark.parametrize("code", [15, 16])
def test_a_missing_coordinator_is_retried(scripted, broker, connection, code):
    scripted.codes = {OffsetCommitRequest: [code]}
    groups.commit(connection, "g", {Place("orders", 0): 1})
    assert len(asked(broker, FindCoordinatorRequest)) == 1


def test_a_coordinator_on_another_broker_is_named(scripted, connection):
    scripted.codes = {DeleteGroupsRequest: [16] * coordinators.TRIES}
    (why,) = groups.delete(connection, ["g"])
    assert "NOT_COORDINATOR (16)" in why
    assert "elsewhere:9192: ask there" in why


@pytest.mark.parametrize(
    ("cls", "code", "act", "words"),
    [
        (ListGroupsRequest, 30, lambda c: groups.list_groups(c), "cannot be listed: GROUP_AUTH"),
        (
            ConsumerGroupDescribeRequest, 30, lambda c: groups.describe(c, "idle"),
            "group 'idle' cannot be described: GROUP_AUTH",
        ),
        (OffsetFetchRequest, 30, lambda c: groups.committed(c, "idle"), "cannot be read"),
        (
            OffsetCommitRequest, 25, lambda c: groups.commit(c, "g", {Place("orders", 0): 1}),
            r"were not set: UNKNOWN_MEMBER_ID \(25\)",
        ),
    ],
)  # fmt: skip
def test_a_refusal_is_reported_at_once(scripted, broker, connection, cls, code, act, words):
    scripted.codes = {cls: [code]}
    with pytest.raises(BrokerError, match=words):
        act(connection)
    assert len(asked(broker, cls)) == 1


def test_undeleted_groups_are_reported_and_the_others_are_deleted(scripted, connection):
    scripted.codes = {DeleteGroupsRequest: [0, 68]}
    (why,) = groups.delete(connection, ["a", "b"])
    assert why.startswith("group 'b' was not deleted: NON_EMPTY_GROUP (68)")


def test_offsets_of_deleted_partitions_are_omitted(connection):
    places = [Place("orders", 0), Place("orders", 7), Place("gone", 0)]
    assert groups.offsets_at(connection, places, -1) == {Place("orders", 0): 12}
    assert groups.offsets_at(connection, places[1:], -1) == {}
