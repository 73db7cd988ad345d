"""DescribeAcls, API key 29, versions 1-3.

Behaviour
- There are no ACLs: SECURITY_DISABLED, as in Kafka without an authorizer.
- A filter with an element of code 0 (UNKNOWN) closes the connection, as in Kafka, which treats it
  as a malformed request.

Version notes: 2 flexible, 3 the resource type user (KIP-48).
"""

from __future__ import annotations

from broker.authorized_operations import UNKNOWN_ELEMENT
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(request: Request, services: Services) -> DescribeAclsResponse | None:  # noqa: ARG001
    """Refuse the request."""
    body: DescribeAclsRequest = request.body
    if UNKNOWN_ELEMENT in (
        body.resource_type_filter,
        body.pattern_type_filter,
        body.operation,
        body.permission_type,
    ):
        request.connection.refuse(ProtocolError("DescribeAcls with an UNKNOWN element"))
        return None
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )


def error_response(request: Request, code: ErrorCode) -> DescribeAclsResponse:  # noqa: ARG001
    """Return an answer with `code` for the whole request."""
    return DescribeAclsResponse(error_code=code, error_message=code.message)
