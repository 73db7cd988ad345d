"""AlterUserScramCredentials: what is answered, recorded, survives and is logged."""

import asyncio
import logging
from pathlib import Path
from typing import Any

from broker.handlers.alter_user_scram_credentials import error_response
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from tests.support.broker_rig import Rig
from tests.unit.broker.metadata.test_scram_plans import remove, upsert


async def alter(rig: Rig, *changes: Any) -> list[tuple[str, int, str | None]]:
    body = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
        upsertions=[one for one in changes if not isinstance(one, ScramCredentialDeletion)],
    )
    answer = await rig.call(body, 0)
    return [(row.user, row.error_code, row.error_message) for row in answer.results]


async def test_a_credential_holds_from_the_answer_on(rig: Rig) -> None:
    assert await alter(rig, upsert("alice"), upsert("bob", 2)) == [
        ("alice", 0, None),
        ("bob", 0, None),
    ]
    credential = rig.services.users.scram("SCRAM-SHA-256", "alice")
    assert credential is not None
    assert (credential.salt, credential.iterations) == (b"salt", 4096)
    assert await alter(rig, remove("alice"), remove("carol")) == [
        ("alice", 0, None),
        ("carol", 91, "Attempt to delete a user credential that does not exist"),
    ]
    assert rig.services.users.scram("SCRAM-SHA-256", "alice") is None
    assert rig.services.users.scram("SCRAM-SHA-512", "bob") is not None


async def test_a_request_without_changes_writes_nothing(rig: Rig) -> None:
    end_offset = rig.services.controller.metadata_log.end_offset
    assert await alter(rig) == []
    assert (await alter(rig, upsert("", 1)))[0][1] == 93
    assert rig.services.controller.metadata_log.end_offset == end_offset


async def test_the_answer_waits_until_the_change_is_durable(rig: Rig) -> None:
    await alter(rig, upsert("alice"))
    assert rig.services.controller.metadata_log.is_durable


async def test_users_survive_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    await alter(rig, upsert("alice"), upsert("bob"))
    await alter(rig, remove("bob"), upsert("alice", 2))
    await rig.close()
    again = Rig(tmp_path)
    assert again.services.users.image.names() == ["alice"]
    assert sorted(again.services.users.image.of("alice")) == [1, 2]
    await again.close()


async def test_many_changes_are_one_batch(rig: Rig) -> None:
    many = [upsert(f"user{number}") for number in range(1_000)]
    log = rig.services.controller.metadata_log
    end_offset = log.end_offset
    assert {code for _, code, _ in await alter(rig, *many)} == {0}
    assert log.end_offset == end_offset + 1_000
    assert len(rig.services.users.image) == 1_000


async def test_removals_that_cross_are_recorded_once(rig: Rig) -> None:
    """The second finds its users gone when it comes back from the thread."""
    names = [f"user{number}" for number in range(500)]
    await alter(rig, *map(upsert, names))
    first, second = await asyncio.gather(
        alter(rig, *map(remove, names)), alter(rig, *map(remove, names))
    )
    codes = sorted(code for _, code, _ in first + second)
    assert codes == [0] * 500 + [91] * 500
    assert len(rig.services.users.image) == 0


async def test_changes_are_logged_without_secrets(rig: Rig, caplog: Any) -> None:
    caplog.set_level(logging.INFO, logger="barnabas.security")
    await alter(rig, upsert("alice", salt=b"MARKED", salted=b"MARKED"))
    await alter(rig, remove("alice"))
    assert caplog.messages == [
        "User:ANONYMOUS set 1 SCRAM credentials: alice",
        "User:ANONYMOUS removed 1 SCRAM credentials: alice",
    ]


async def test_many_names_are_not_all_logged(rig: Rig, caplog: Any) -> None:
    caplog.set_level(logging.INFO, logger="barnabas.security")
    await alter(rig, *(upsert(f"user{number}") for number in range(300)))
    assert caplog.messages[0].startswith("User:ANONYMOUS set 300 SCRAM credentials: user0, user1,")
    assert caplog.messages[0].endswith("user9, …")


async def test_an_error_names_each_user_once(rig: Rig) -> None:
    body = AlterUserScramCredentialsRequest(
        deletions=[remove("a"), remove("b")], upsertions=[upsert("a")]
    )
    request = rig.connection.request(body, api_key=51, version=0)
    answer = error_response(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert [(row.user, row.error_code) for row in answer.results] == [("a", 31), ("b", 31)]
