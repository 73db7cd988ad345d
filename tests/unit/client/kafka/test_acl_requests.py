"""Requests about ACLs on a scripted broker: what is sent, and what refusals become."""

import pytest

from client.kafka.acl_requests import (
    AclCodes,
    authorizer_settings,
    create,
    delete,
    describe,
)
from client.kafka.connection import BrokerError, Connection
from protocol.messages.delete_acls import DeleteAclsFilterResult as Result
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.support.acl_entries import acl
from tests.support.scripted_acls import ScriptedAcls
from tests.support.scripted_broker import ScriptedBroker

ONE = AclCodes(*acl())


@pytest.fixture
def scripted():
    return ScriptedAcls()


@pytest.fixture
def connection(scripted):
    with ScriptedBroker(scripted.answers) as broker, Connection(broker.address, 10) as found:
        yield found


def test_an_acl_is_created_listed_and_deleted(connection, scripted):
    assert create(connection, [ONE]) == [""]
    assert scripted.entries == [acl()]
    assert describe(connection, AclCodes()) == [ONE]
    assert describe(connection, AclCodes(principal="User:bob")) == []
    assert delete(connection, [ONE]) == []
    assert scripted.entries == []


def test_refusals_stand_in_the_order_of_the_acls(connection):
    bad = ONE._replace(principal="alice")
    first, second = create(connection, [bad, ONE])
    assert "Could not parse principal" in first
    assert second == ""


def test_a_broker_without_authorizer_is_an_error(connection, scripted):
    scripted.is_enabled = False
    with pytest.raises(BrokerError, match="no authorizer"):
        create(connection, [ONE])
    with pytest.raises(BrokerError, match="no authorizer"):
        describe(connection, AclCodes())


def test_a_denied_list_is_an_error():
    answers = {DescribeAclsRequest: lambda _: DescribeAclsResponse(error_code=31)}
    with (
        ScriptedBroker(answers) as broker,
        Connection(broker.address, 10) as connection,
        pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"),
    ):
        describe(connection, AclCodes())


def test_refused_deletions_are_reasons():
    answers = {
        DeleteAclsRequest: lambda body: DeleteAclsResponse(
            filter_results=[Result(error_code=31) for _ in body.filters]
        )
    }
    with ScriptedBroker(answers) as broker, Connection(broker.address, 10) as connection:
        (reason,) = delete(connection, [ONE, ONE])
    assert "CLUSTER_AUTHORIZATION_FAILED" in reason


def test_the_settings_of_the_authorizer(connection, scripted):
    settings = authorizer_settings(connection)
    assert settings is not None
    assert (settings.super_users, settings.allows_without_acl) == ("User:boss", False)
    scripted.settings = {"super.users": None}
    assert authorizer_settings(connection) is None
