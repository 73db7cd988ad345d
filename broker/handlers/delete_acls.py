"""DeleteAcls, API key 31, versions 1-3.

Behaviour
- There are no ACLs: every filter is SECURITY_DISABLED, as in Kafka without an authorizer.
- A filter with an element of code 0 (UNKNOWN) closes the connection, as in Kafka, which treats it
  as a malformed request.

Version notes: 2 flexible, 3 the resource type user (KIP-48).
"""

from __future__ import annotations

from broker.authorized_operations import UNKNOWN_ELEMENT
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(request: Request, services: Services) -> DeleteAclsResponse | None:  # noqa: ARG001
    """Refuse every filter."""
    body: DeleteAclsRequest = request.body
    for one in body.filters:
        if UNKNOWN_ELEMENT in (
            one.resource_type_filter,
            one.pattern_type_filter,
            one.operation,
            one.permission_type,
        ):
            request.connection.refuse(ProtocolError("DeleteAcls with an UNKNOWN element"))
            return None
    return _refuse(body, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def _refuse(body: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message) for _ in body.filters
        ]
    )


def error_response(request: Request, code: ErrorCode) -> DeleteAclsResponse:
    """Return an answer with `code` for each filter in the request."""
    return _refuse(request.body, code, code.message)
