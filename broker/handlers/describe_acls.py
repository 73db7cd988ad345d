"""DescribeAcls, API key 29, versions 1-3.

Behaviour
- Returns the ACLs in force that match the filter, by resource (`broker.security.acl.acl_filter`).
  A code that is unknown here matches none.
- An element of code 0 (UNKNOWN) closes the connection: Kafka treats it as malformed.
- Without an authorizer: SECURITY_DISABLED.

Version notes: 2 flexible, 3 the resource type user (KIP-48); Kafka shows it in each.
"""

from __future__ import annotations

from broker.acls import Acls
from broker.authorized_operations import UNKNOWN_ELEMENT
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_filter import AclFilter
from broker.services import Services
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

ACL_BYTES = 12  # of an answer, beside the texts
SHOWN_PER_STEP = 100


def handle(request: Request, services: Services) -> DescribeAclsResponse | Steps | None:
    """Return the ACLs that match."""
    body: DescribeAclsRequest = request.body
    if UNKNOWN_ELEMENT in (
        body.resource_type_filter,
        body.pattern_type_filter,
        body.operation,
        body.permission_type,
    ):
        request.connection.refuse(ProtocolError("DescribeAcls with an UNKNOWN element"))
        return None
    if services.acls is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    wanted = AclFilter(
        ResourceType(body.resource_type_filter),
        body.resource_name_filter,
        PatternType(body.pattern_type_filter),
        body.principal_filter,
        body.host_filter,
        AclOperation(body.operation),
        PermissionType(body.permission_type),
    )
    return _matching(services.acls, wanted)


def _matching(acls: Acls, wanted: AclFilter) -> Steps:
    response = DescribeAclsResponse()
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    size = 0
    found = yield from acls.find(wanted)
    for number, entry in enumerate(found, 1):
        key = (entry.resource_type, entry.name, entry.pattern)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=entry.resource_type,
                resource_name=entry.name,
                pattern_type=entry.pattern,
            )
            response.resources.append(resource)
            size += len(entry.name)
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
        size += len(entry.principal) + len(entry.host) + ACL_BYTES
        if number % SHOWN_PER_STEP == 0:
            yield size
            size = 0
    return response


def error_response(request: Request, code: ErrorCode) -> DescribeAclsResponse:  # noqa: ARG001
    """Return an answer with `code` for the whole request."""
    return DescribeAclsResponse(error_code=code, error_message=code.message)
