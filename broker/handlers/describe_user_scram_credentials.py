"""DescribeUserScramCredentials, API key 50, version 0.

Behaviour
- Lists mechanisms and iterations of users, never keys or salts.
- All users if none is named, sorted by name. A missing user is RESOURCE_NOT_FOUND, one that is
  named twice DUPLICATE_RESOURCE; each with Kafka's text. Without an error the text is empty.

Version notes: none.
"""

from __future__ import annotations

from collections import Counter

from broker.metadata.scram_image import ScramImage
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

MISSING = "Attempt to describe a user credential that does not exist: "
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
ROW_BYTES = 32


def handle(request: Request, services: Services) -> Steps:
    """Describe the users that are named, or all."""
    body: DescribeUserScramCredentialsRequest = request.body
    image = services.users.image
    counts = Counter(one.name for one in body.users or ()) or dict.fromkeys(
        sorted(image.names()), 1
    )
    response = DescribeUserScramCredentialsResponse()
    for name, count in counts.items():
        response.results.append(_described(name, image) if count == 1 else _twice(name))
        yield len(name) + ROW_BYTES
    return response


def _described(name: str, image: ScramImage) -> DescribeUserScramCredentialsResult:
    credentials = image.of(name)
    if not credentials:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=MISSING + name
        )
    return DescribeUserScramCredentialsResult(
        user=name,
        credential_infos=[
            CredentialInfo(mechanism=code, iterations=credential.iterations)
            for code, credential in sorted(credentials.items())
        ],
    )


def _twice(name: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=TWICE + name
    )


def error_response(request: Request, code: ErrorCode) -> DescribeUserScramCredentialsResponse:
    """Return an answer with `code` for the request, and for each user that it names."""
    body: DescribeUserScramCredentialsRequest = request.body
    return DescribeUserScramCredentialsResponse(
        error_code=code,
        error_message=code.message,
        results=[
            DescribeUserScramCredentialsResult(
                user=one.name, error_code=code, error_message=code.message
            )
            for one in body.users or ()
        ],
    )
