"""CreateAcls, API key 30, versions 1-3.

Behaviour
- Each ACL has an outcome of its own. The answer comes when all are durable; each is in force before
  that. One that exists is created again without effect: NONE.
- INVALID_REQUEST, with Kafka's text: an empty name, another cluster than `kafka-cluster`, an
  unknown code, a principal without a colon. For ANY and MATCH, which belong to filters, Kafka
  answers UNKNOWN_SERVER_ERROR without text for all; here the one is INVALID_REQUEST.
- Accepted, as in Kafka, although it never matches: a network or a name as host, an operation that
  the resource has not, `User:`, an impossible name. The broker warns of these.
- More than 10,000 new ACLs: POLICY_VIOLATION for each.
- An element of code 0 (UNKNOWN) closes the connection: Kafka treats it as malformed.
- Without an authorizer: SECURITY_DISABLED.

Version notes: 2 flexible, 3 the resource type user (KIP-48); Kafka accepts it in each.
"""

from __future__ import annotations

from broker.acls import Acls
from broker.authorized_operations import UNKNOWN_ELEMENT
from broker.metadata.topic_rules import TopicError, check_record_total
from broker.runtime.request import Request
from broker.runtime.turns import InTurns
from broker.security.acl.acl_codes import (
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.services import Services
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

CHECKED_PER_TURN = 1_000
FOR_FILTERS = "belongs to filters: an ACL needs one that it names"


async def handle(request: Request, services: Services) -> CreateAclsResponse | None:
    """Create each ACL that is valid."""
    body: CreateAclsRequest = request.body
    async for rule in InTurns(body.creations, CHECKED_PER_TURN):
        if UNKNOWN_ELEMENT in (
            rule.resource_type,
            rule.resource_pattern_type,
            rule.operation,
            rule.permission_type,
        ):
            request.connection.refuse(ProtocolError("CreateAcls with an UNKNOWN element"))
            return None
    if services.acls is None:
        return _refuse(body, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    try:
        return await _create(request, body, services.acls)
    except TopicError as error:
        return _refuse(body, error.code, error.message)


async def _create(request: Request, body: CreateAclsRequest, acls: Acls) -> CreateAclsResponse:
    response = CreateAclsResponse()
    new: dict[AclEntry, None] = {}
    async for rule in InTurns(body.creations, CHECKED_PER_TURN):
        check_record_total(len(new))
        entry = _entry(rule)
        reason = _refusal(entry)
        if reason is None:
            if entry not in acls:
                new[entry] = None
            response.results.append(AclCreationResult())
        else:
            code = ErrorCode.INVALID_REQUEST
            response.results.append(AclCreationResult(error_code=code, error_message=reason))
    await acls.create(new, request.info.principal)
    return response


def _entry(rule: AclCreation) -> AclEntry:
    return AclEntry(
        ResourceType(rule.resource_type),
        rule.resource_name,
        PatternType(rule.resource_pattern_type),
        rule.principal,
        rule.host,
        AclOperation(rule.operation),
        PermissionType(rule.permission_type),
    )


def _refusal(entry: AclEntry) -> str | None:
    """Return why an ACL cannot be created, in the order of Kafka's checks."""
    kind, name = entry.resource_type, entry.name
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not name:
        return "Invalid empty resource name"
    for word, code, names in (
        ("resourceType", kind, ("ANY",)),
        ("patternType", entry.pattern, ("ANY", "MATCH")),
        ("operation", entry.operation, ("ANY",)),
        ("permissionType", entry.permission, ("ANY",)),
    ):
        if code.name == "UNKNOWN":
            return f"Invalid {word} UNKNOWN"
        if code.name in names:
            return f"Invalid {word} {code.name}: it {FOR_FILTERS}"
    if ":" not in entry.principal:
        return (
            f"Could not parse principal from `{entry.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return None


def _refuse(body: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in body.creations]
    )


def error_response(request: Request, code: ErrorCode) -> CreateAclsResponse:
    """Return an answer with `code` for each rule in the request."""
    return _refuse(request.body, code, code.message)
