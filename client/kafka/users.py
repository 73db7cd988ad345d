"""The requests about users, as calls on a `Connection`; Kafka's brokers answer them, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from client.codes import code_text
from client.kafka.connection import BrokerError, Connection
from client.user_credentials import UserChanges, UserRow, mechanism_name
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

NO_SUCH_USER: Final = ErrorCode.RESOURCE_NOT_FOUND


def users(connection: Connection, names: Sequence[str] = ()) -> list[UserRow]:
    """Return the credentials of the users `names`, or of all; none for a user who does not exist.

    Raises BrokerError.
    """
    asked = [UserName(name=name) for name in dict.fromkeys(names)] or None
    answer: DescribeUserScramCredentialsResponse = connection.call(
        DescribeUserScramCredentialsRequest(users=asked), DescribeUserScramCredentialsResponse
    )
    if answer.error_code:
        raise BrokerError(
            f"the users were not listed: {code_text(answer.error_code, answer.error_message)}"
        )
    for result in answer.results:
        if result.error_code not in (0, NO_SUCH_USER):
            why = code_text(result.error_code, result.error_message)
            raise BrokerError(f"user {result.user!r} was not listed: {why}")
    return sorted(
        UserRow(result.user, info.mechanism, info.iterations)
        for result in answer.results
        for info in result.credential_infos
    )


def alter(connection: Connection, changes: UserChanges) -> None:
    """Remove and set credentials. Raises BrokerError with the first refusal.

    A request may name a user once, so there is one request for each mechanism. After a refusal
    those before it are changed; the error says so.
    """
    codes = {one.mechanism for one in changes.removals}
    changed: list[str] = []
    for code in sorted(codes | {one.mechanism for one in changes.credentials}):
        try:
            _alter_of(connection, changes, code)
        except BrokerError as error:
            if not changed:
                raise
            told = f"{str(error).rstrip('.')}. Changed before: {', '.join(changed)}"
            raise BrokerError(told) from error
        changed.append(mechanism_name(code))


def _alter_of(connection: Connection, changes: UserChanges, code: int) -> None:
    body = AlterUserScramCredentialsRequest(
        deletions=[one for one in changes.removals if one.mechanism == code],
        upsertions=[one for one in changes.credentials if one.mechanism == code],
    )
    answer: AlterUserScramCredentialsResponse = connection.call(
        body, AlterUserScramCredentialsResponse
    )
    for result in answer.results:
        if result.error_code:
            why = code_text(result.error_code, result.error_message)
            raise BrokerError(
                f"{mechanism_name(code)} of user {result.user!r} was not changed: {why}"
            )
