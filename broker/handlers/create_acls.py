"""CreateAcls, API key 30, versions 1-3.

Behaviour
- There are no ACLs: every rule is SECURITY_DISABLED, as in Kafka without an authorizer.
- A rule with an element of code 0 (UNKNOWN) closes the connection, as in Kafka, which treats it as
  a malformed request.

Version notes: 2 flexible, 3 the resource type user (KIP-48).
"""

from __future__ import annotations

from broker.authorized_operations import UNKNOWN_ELEMENT
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(request: Request, services: Services) -> CreateAclsResponse | None:  # noqa: ARG001
    """Refuse every rule."""
    body: CreateAclsRequest = request.body
    for rule in body.creations:
        if UNKNOWN_ELEMENT in (
            rule.resource_type,
            rule.resource_pattern_type,
            rule.operation,
            rule.permission_type,
        ):
            request.connection.refuse(ProtocolError("CreateAcls with an UNKNOWN element"))
            return None
    return _refuse(body, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def _refuse(body: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in body.creations]
    )


def error_response(request: Request, code: ErrorCode) -> CreateAclsResponse:
    """Return an answer with `code` for each rule in the request."""
    return _refuse(request.body, code, code.message)
