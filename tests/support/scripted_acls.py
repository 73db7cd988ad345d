"""A scripted broker's ACLs: created, listed and deleted by the rules of filters."""

from broker.acls import entry_of
from broker.handlers.create_acls import _refusal
from broker.security.acl.acl_codes import AclOperation, PatternType, PermissionType, ResourceType
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.acl_filter import AclFilter
from protocol.acl_records import AccessControlEntryRecord
from protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def _filter(one):
    return AclFilter(
        ResourceType(one.resource_type_filter),
        one.resource_name_filter,
        PatternType(one.pattern_type_filter),
        one.principal_filter,
        one.host_filter,
        AclOperation(one.operation),
        PermissionType(one.permission_type),
    )


class ScriptedAcls:
    """`answers` for a ScriptedBroker; `entries` are its ACLs, and `settings` its authorizer's."""

    def __init__(self):
        self.entries: list[AclEntry] = []
        self.is_enabled = True
        self.settings = {"super.users": "User:boss", "allow.everyone.if.no.acl.found": "false"}

    @property
    def answers(self):
        return {
            CreateAclsRequest: self._create,
            DescribeAclsRequest: self._describe,
            DeleteAclsRequest: self._delete,
            DescribeClusterRequest: self._cluster,
            DescribeConfigsRequest: self._configs,
        }

    def _create(self, body):
        response = CreateAclsResponse()
        for rule in body.creations:
            if not self.is_enabled:
                response.results.append(AclCreationResult(error_code=54))
                continue
            entry = entry_of(
                AccessControlEntryRecord(
                    id=bytes(16),
                    resource_type=rule.resource_type,
                    resource_name=rule.resource_name,
                    pattern_type=rule.resource_pattern_type,
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission_type,
                )
            )
            reason = _refusal(entry)
            if reason:
                response.results.append(AclCreationResult(error_code=42, error_message=reason))
                continue
            response.results.append(AclCreationResult())
            if entry not in self.entries:
                self.entries.append(entry)
        return response

    def _describe(self, body):
        if not self.is_enabled:
            return DescribeAclsResponse(error_code=54)
        return DescribeAclsResponse(
            resources=[
                DescribeAclsResource(
                    resource_type=entry.resource_type,
                    resource_name=entry.name,
                    pattern_type=entry.pattern,
                    acls=[
                        AclDescription(
                            principal=entry.principal,
                            host=entry.host,
                            operation=entry.operation,
                            permission_type=entry.permission,
                        )
                    ],
                )
                for entry in self.entries
                if _filter(body).matches(entry)
            ]
        )

    def _delete(self, body):
        response = DeleteAclsResponse()
        for one in body.filters:
            gone = [entry for entry in self.entries if _filter(one).matches(entry)]
            self.entries = [entry for entry in self.entries if entry not in gone]
            rows = [
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
                for entry in gone
            ]
            response.filter_results.append(
                DeleteAclsFilterResult(error_message=None, matching_acls=rows)
            )
        return response

    def _cluster(self, body):
        return DescribeClusterResponse(
            cluster_id="c",
            controller_id=1,
            brokers=[DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=9092)],
        )

    def _configs(self, body):
        (asked,) = body.resources
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=0,
                    error_message="",
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[
                        DescribeConfigsResourceResult(
                            name=name, value=value, read_only=True, is_sensitive=value is None
                        )
                        for name, value in self.settings.items()
                    ],
                )
            ]
        )
