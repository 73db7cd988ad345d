"""The requests about users, and what becomes of refusals."""

import pytest

from client.kafka.connection import BrokerError, Connection
from client.kafka.users import alter, users
from client.user_credentials import UserChanges, UserRow
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tests.support.scripted_broker import ScriptedBroker
from tests.unit.broker.metadata.test_scram_plans import remove, upsert


def described(request):
    if request.users == []:
        return DescribeUserScramCredentialsResponse(error_code=42, error_message="empty")
    names = ["bob", "alice"] if request.users is None else [one.name for one in request.users]
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=name,
                error_code={"missing": 91, "odd": -1}.get(name, 0),
                credential_infos=[]
                if name in ("missing", "odd")
                else [CredentialInfo(mechanism=code, iterations=4096) for code in (2, 1)],
            )
            for name in names
        ]
    )


def altered(request):
    names = [one.name for one in (*request.deletions, *request.upsertions)]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=31 if name == "mallory" else 0, error_message=None
            )
            for name in names
        ]
    )


ANSWERS = {
    DescribeUserScramCredentialsRequest: described,
    AlterUserScramCredentialsRequest: altered,
}


@pytest.fixture
def broker():
    with ScriptedBroker(ANSWERS) as scripted:
        yield scripted


def test_users_are_sorted(broker):
    with Connection(broker.address, 10) as connection:
        assert users(connection) == [
            UserRow(user, code, 4096) for user in ("alice", "bob") for code in (1, 2)
        ]
        assert users(connection, ["missing", "bob", "bob"]) == [
            UserRow("bob", 1, 4096),
            UserRow("bob", 2, 4096),
        ]


def test_a_user_who_cannot_be_listed(broker):
    with (
        Connection(broker.address, 10) as connection,
        pytest.raises(BrokerError, match="user 'odd' was not listed: UNKNOWN_SERVER_ERROR"),
    ):
        users(connection, ["odd"])


def test_a_user_has_one_change_in_a_request(broker):
    changes = UserChanges([remove("a", 1), remove("a", 2), remove("b", 2)], [upsert("c", 2)])
    with Connection(broker.address, 10) as connection:
        alter(connection, changes)
    sent = [one for one in broker.requests if isinstance(one, AlterUserScramCredentialsRequest)]
    assert [
        ([d.name for d in one.deletions], [u.name for u in one.upsertions]) for one in sent
    ] == [
        (["a"], []),
        (["a", "b"], ["c"]),
    ]


def test_a_refused_change(broker):
    with (
        Connection(broker.address, 10) as connection,
        pytest.raises(
            BrokerError, match="SCRAM-SHA-256 of user 'mallory' was not changed: CLUSTER"
        ),
    ):
        alter(connection, UserChanges([], [upsert("mallory")]))


def test_a_refusal_behind_a_change_says_what_is_changed():
    """Each mechanism has its request, so the user may have two passwords now."""

    def altered(request):
        (one,) = request.upsertions
        code = 31 if one.mechanism == 2 else 0
        result = AlterUserScramCredentialsResult(user=one.name, error_code=code)
        return AlterUserScramCredentialsResponse(results=[result])

    with (
        ScriptedBroker({AlterUserScramCredentialsRequest: altered}) as scripted,
        Connection(scripted.address, 10) as connection,
        pytest.raises(BrokerError, match=r"512 of user 'a' was.*\. Changed before: SCRAM-SHA-256$"),
    ):
        alter(connection, UserChanges([], [upsert("a", 1), upsert("a", 2)]))
