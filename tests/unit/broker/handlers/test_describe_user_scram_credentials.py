"""DescribeUserScramCredentials: which users are listed, and that no keys are."""

from broker.handlers.describe_user_scram_credentials import error_response
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from tests.support.broker_rig import Rig
from tests.unit.broker.handlers.test_alter_user_scram_credentials import alter
from tests.unit.broker.metadata.test_scram_plans import upsert

Row = tuple[str, int, str | None, list[tuple[int, int]]]


async def describe(rig: Rig, names: list[str] | None) -> list[Row]:
    users = None if names is None else [UserName(name=name) for name in names]
    answer = await rig.call(DescribeUserScramCredentialsRequest(users=users), 0)
    assert (answer.error_code, answer.error_message) == (0, "")
    return [
        (
            row.user,
            row.error_code,
            row.error_message,
            [(info.mechanism, info.iterations) for info in row.credential_infos],
        )
        for row in answer.results
    ]


async def test_all_users_are_listed_by_name(rig: Rig) -> None:
    assert await describe(rig, None) == []
    await alter(rig, upsert("zoe", 2, 8192), upsert("alice"))
    await alter(rig, upsert("zoe", 1))
    expected: list[Row] = [
        ("alice", 0, "", [(1, 4096)]),
        ("zoe", 0, "", [(1, 4096), (2, 8192)]),
    ]
    assert await describe(rig, None) == expected
    assert await describe(rig, []) == expected


async def test_users_that_are_named(rig: Rig) -> None:
    await alter(rig, upsert("alice"), upsert("bob"))
    missing = "Attempt to describe a user credential that does not exist: "
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: bob"
    assert await describe(rig, ["bob", "carol", "alice", "bob", ""]) == [
        ("bob", 92, twice, []),
        ("carol", 91, missing + "carol", []),
        ("alice", 0, "", [(1, 4096)]),
        ("", 91, missing, []),
    ]


async def test_a_refusal_answers_also_a_request_for_all(rig: Rig) -> None:
    """Kafka never answers it."""
    for names, rows in ((None, []), (["a", "b"], [("a", 31), ("b", 31)])):
        users = None if names is None else [UserName(name=name) for name in names]
        body = DescribeUserScramCredentialsRequest(users=users)
        request = rig.connection.request(body, api_key=50, version=0)
        answer = error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        assert answer.error_code == 31
        assert [(row.user, row.error_code) for row in answer.results] == rows
