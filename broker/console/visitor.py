"""Whoever uses the console: a principal, the host it comes from, and its rights.

With an authorizer, each view and action asks it, as it is asked for clients. Without one, whoever
has been let in may do everything, except where the console is read-only.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.console.answers import ConsoleError
from broker.rights.asking import Need
from broker.rights.clauses import CLUSTER, GROUP, TOPIC
from broker.runtime.request import ANONYMOUS
from broker.security.acl.acl_codes import CLUSTER_NAME, AclOperation
from broker.services import Services

SEES_CLUSTER = Need(CLUSTER, AclOperation.DESCRIBE)
SEES_TOPIC = Need(TOPIC, AclOperation.DESCRIBE)
SEES_TOPIC_CONFIGS = Need(TOPIC, AclOperation.DESCRIBE_CONFIGS)
SEES_GROUP = Need(GROUP, AclOperation.DESCRIBE)


class Visitor(NamedTuple):
    """One visitor; `is_guest` says that it has not logged in, since nobody must."""

    services: Services
    host: str
    principal: str = ANONYMOUS
    may_write: bool = True
    is_guest: bool = True

    def may(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Return whether the visitor may do what `need` names."""
        authorizer = self.services.authorizer
        return authorizer is None or authorizer.allows(
            self.principal, self.host, need.operation, need.resource, name
        )

    def must(self, need: Need, name: str = CLUSTER_NAME) -> None:
        """Refuse a visitor that may not, with Kafka's line in the audit log."""
        authorizer = self.services.authorizer
        if authorizer is None or self.may(need, name):
            return
        authorizer.log_denied(
            self.principal, self.host, need.operation, need.resource, name, "Console"
        )
        raise ConsoleError(
            403,
            f"{need.resource.name}_AUTHORIZATION_FAILED",
            f"{self.principal} has no right to {need.operation.name} {need.resource.name} {name}:"
            " allow it with kafka-acls or barnabas acls",
        )
