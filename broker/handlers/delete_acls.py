"""DeleteAcls, API key 31, versions 1-3.

Behaviour
- Each filter has an outcome of its own: the ACLs that it matched, all of which are deleted. An ACL
  that two filters match stands under both. The answer comes when the deletion is durable; the ACLs
  have lost their effect before that.
- A code that is unknown here is INVALID_REQUEST for its filter. More than 10,000 ACLs in one
  request: INVALID_REQUEST for each filter, and nothing is deleted.
- An element of code 0 (UNKNOWN) closes the connection: Kafka treats it as malformed.
- Without an authorizer: SECURITY_DISABLED.
- All are deleted in one batch of records, as in Kafka: a power cut before the answer leaves all of
  them or none.

Version notes: 2 flexible, 3 the resource type user (KIP-48); Kafka accepts it in each.
"""

from __future__ import annotations

import asyncio

from broker.acls import Acls
from broker.authorized_operations import UNKNOWN_ELEMENT
from broker.metadata.topic_rules import RECORDS_PER_REQUEST_MAX, TopicError
from broker.runtime.request import Request
from broker.runtime.steps import ANSWER_BYTES_MAX, AnswerTooLarge
from broker.runtime.turns import InTurns
from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.acl_filter import AclFilter
from broker.services import Services
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

CHECKED_PER_TURN = 1_000
FILTERS_PER_TURN = 50
ROW_BYTES = 16  # of an answer, beside the texts
TOO_MANY = f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation."


async def handle(request: Request, services: Services) -> DeleteAclsResponse | None:
    """Delete the ACLs that the filters match."""
    body: DeleteAclsRequest = request.body
    async for one in InTurns(body.filters, CHECKED_PER_TURN):
        if UNKNOWN_ELEMENT in (
            one.resource_type_filter,
            one.pattern_type_filter,
            one.operation,
            one.permission_type,
        ):
            request.connection.refuse(ProtocolError("DeleteAcls with an UNKNOWN element"))
            return None
    if services.acls is None:
        return _refuse(body, ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    try:
        return await _delete(request, body, services.acls)
    except TopicError as error:
        return _refuse(body, error.code, error.message)


async def _delete(request: Request, body: DeleteAclsRequest, acls: Acls) -> DeleteAclsResponse:
    response = DeleteAclsResponse()
    gone: dict[AclEntry, None] = {}
    size = 0
    async for one in InTurns(body.filters, FILTERS_PER_TURN):
        wanted = _filter(one)
        reason = _refusal(wanted)
        if reason is not None:
            code = ErrorCode.INVALID_REQUEST
            result = DeleteAclsFilterResult(error_code=code, error_message=reason)
        else:
            found = await _found(acls, wanted)
            gone.update(dict.fromkeys(found))
            if len(gone) > RECORDS_PER_REQUEST_MAX:
                return _refuse(body, ErrorCode.INVALID_REQUEST, TOO_MANY)
            size += sum(_size(entry) for entry in found)
            if size > ANSWER_BYTES_MAX:
                raise AnswerTooLarge
            result = DeleteAclsFilterResult(error_message=None, matching_acls=_rows(found))
        response.filter_results.append(result)
    await acls.delete(gone, request.info.principal)
    return response


async def _found(acls: Acls, wanted: AclFilter) -> list[AclEntry]:
    steps = acls.find(wanted)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: list[AclEntry] = end.value
            return found
        await asyncio.sleep(0)


def _filter(one: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        ResourceType(one.resource_type_filter),
        one.resource_name_filter,
        PatternType(one.pattern_type_filter),
        one.principal_filter,
        one.host_filter,
        AclOperation(one.operation),
        PermissionType(one.permission_type),
    )


def _refusal(wanted: AclFilter) -> str | None:
    """Return why a filter is refused: Kafka's AclControlManager.validateFilter."""
    if ResourceType.UNKNOWN is wanted.resource_type or PatternType.UNKNOWN is wanted.pattern:
        return "Unknown patternFilter."
    if AclOperation.UNKNOWN is wanted.operation or PermissionType.UNKNOWN is wanted.permission:
        return "Unknown entryFilter."
    return None


def _size(entry: AclEntry) -> int:
    return len(entry.name) + len(entry.principal) + len(entry.host) + ROW_BYTES


def _rows(entries: list[AclEntry]) -> list[DeleteAclsMatchingAcl]:
    return [
        DeleteAclsMatchingAcl(
            error_message=None,
            resource_type=entry.resource_type,
            resource_name=entry.name,
            pattern_type=entry.pattern,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        for entry in entries
    ]


def _refuse(body: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=message) for _ in body.filters
        ]
    )


def error_response(request: Request, code: ErrorCode) -> DeleteAclsResponse:
    """Return an answer with `code` for each filter in the request."""
    return _refuse(request.body, code, code.message)
