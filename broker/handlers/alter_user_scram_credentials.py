"""AlterUserScramCredentials, API key 51, version 0.

Behaviour
- Sets and removes credentials; `broker.metadata.scram_plans` has the rules and Kafka's texts.
- The changes of a request are made together, but one user's error keeps no other user's change.
- Each user has one row in the answer, in the order of the request.
- A change holds for new logins before the answer, and the answer waits until it is durable.

Version notes: none.
"""

from __future__ import annotations

from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

ROW_BYTES = 32


async def handle(request: Request, services: Services) -> Steps:
    """Make the changes that are allowed, and wait until they are durable."""
    body: AlterUserScramCredentialsRequest = request.body
    outcomes = await services.users.alter(
        body.deletions, body.upsertions, by=request.info.principal
    )

    def answer() -> Steps:
        response = AlterUserScramCredentialsResponse()
        for user, error in outcomes.items():
            result = AlterUserScramCredentialsResult(user=user, error_message=None)
            if error is not None:
                result.error_code, result.error_message = error
            response.results.append(result)
            yield len(user) + ROW_BYTES
        return response

    return answer()


def error_response(request: Request, code: ErrorCode) -> AlterUserScramCredentialsResponse:
    """Return an answer with `code` for each user of the request."""
    body: AlterUserScramCredentialsRequest = request.body
    names = dict.fromkeys([one.name for one in body.deletions])
    names |= dict.fromkeys([one.name for one in body.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=code, error_message=code.message)
            for name in names
        ]
    )
