"""The requests of the command line about ACLs, as calls on a `Connection`.

Codes and texts are passed as the messages have them. A refusal becomes a `BrokerError`; that a
broker has no authorizer is said with the keys that give it one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from client.codes import code_text
from client.kafka.connection import BrokerError, Connection
from protocol.errors import ErrorCode
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

SUPER_USERS: Final = "super.users"
WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"
ANY: Final = 1  # in each of Kafka's enumerations for ACLs
NO_AUTHORIZER: Final = (
    "the broker has no authorizer, so every client may do everything. Set"
    " authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer and super.users"
    " in its configuration, and restart it."
)


class AclCodes(NamedTuple):
    """An ACL as messages have it; in a filter, None and ANY match everything."""

    resource_type: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY


def create(connection: Connection, acls: Sequence[AclCodes]) -> list[str]:
    """Create ACLs; return "" or the reason for its refusal for each. Raises BrokerError."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.name or "",
                resource_pattern_type=acl.pattern,
                principal=acl.principal or "",
                host=acl.host or "",
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )
    answer: CreateAclsResponse = connection.call(request, CreateAclsResponse)
    return [_reason(one.error_code, one.error_message) for one in answer.results]


def describe(connection: Connection, wanted: AclCodes) -> list[AclCodes]:
    """Return the ACLs that `wanted` matches, sorted. Raises BrokerError."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer: DescribeAclsResponse = connection.call(request, DescribeAclsResponse)
    if answer.error_code:
        reason = _reason(answer.error_code, answer.error_message)
        raise BrokerError(f"the ACLs were not listed: {reason}")
    found = [
        AclCodes(
            of.resource_type,
            of.resource_name,
            of.pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for of in answer.resources
        for one in of.acls
    ]
    return sorted(found)


def delete(connection: Connection, acls: Sequence[AclCodes]) -> list[str]:
    """Delete the ACLs that each of `acls` matches; return the reasons for refusals."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=acl.resource_type,
                resource_name_filter=acl.name,
                pattern_type_filter=acl.pattern,
                principal_filter=acl.principal,
                host_filter=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )
    answer: DeleteAclsResponse = connection.call(request, DeleteAclsResponse)
    outcomes = [(one.error_code, one.error_message) for one in answer.filter_results] + [
        (one.error_code, one.error_message)
        for result in answer.filter_results
        for one in result.matching_acls
    ]
    reasons = [_reason(code, text) for code, text in outcomes if code]
    return list(dict.fromkeys(reasons))


def _reason(code: int, text: str | None) -> str:
    if not code:
        return ""
    if code == ErrorCode.SECURITY_DISABLED:
        raise BrokerError(NO_AUTHORIZER)
    return code_text(code, text)


class AuthorizerSettings(NamedTuple):
    """The settings of the broker's authorizer."""

    super_users: str
    allows_without_acl: bool


def authorizer_settings(connection: Connection) -> AuthorizerSettings | None:
    """Return the settings of the authorizer, or None if the broker does not show them."""
    from client.kafka import configs

    answer = connection.call(DescribeClusterRequest(), DescribeClusterResponse)
    if answer.error_code or not answer.brokers:
        return None
    node = configs.Resource(configs.BROKER, str(answer.brokers[0].broker_id))
    try:
        settings = configs.describe(connection, [node], [SUPER_USERS, WITHOUT_ACL])[node]
    except BrokerError:
        return None  # it takes a right of its own to see them
    values = {setting.name: setting.value for setting in settings}
    super_users, without_acl = values.get(SUPER_USERS), values.get(WITHOUT_ACL)
    if super_users is None or without_acl is None:
        return None
    return AuthorizerSettings(super_users, without_acl == "true")
