"""One request's questions to the authorizer, and what becomes of its answer.

A right is *refused* with an error that the client sees, and an audit line; or what it concerns is
*left out* of an answer, without a line. Without a right, a missing and an existing thing are
answered alike: rights are asked before anything is looked up.

Lists are as long as a client likes. So everything that walks over one is a generator, which yields
after a bounded piece of work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.security.acl.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.runtime.request import Request
    from broker.security.acl.authorizer import Authorizer
    from broker.services import Services

NAMES_PER_TURN: Final = 500  # of a list, about a millisecond of decisions

DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Need(NamedTuple):
    """An operation on a resource of one type."""

    resource: ResourceType
    operation: AclOperation

    def __str__(self) -> str:
        """Return it as the documentation names it."""
        return f"{self.resource.name} {self.operation.name}"


class Refused(NamedTuple):
    """The answer to a request that does not reach its handler; None if none is sent."""

    answer: Any


Turns = Generator[None, None, Refused | None]  # yields where other requests may have the loop
Later = Callable[[Any], Generator[int, None, Any]]  # completes an answer, in steps
MakeRefusal = Callable[[Any, ErrorCode], Any]


class _Part:
    """A part of a request, for the function that makes the answer to a refused one."""

    __slots__ = ("body", "connection", "header", "info")

    def __init__(self, request: Request, body: Any) -> None:
        self.body = body
        self.header = request.header
        self.connection = request.connection
        self.info = request.info


class Asking:
    """What one request asks. `later` completes the handler's answer, the last entry first."""

    __slots__ = ("_api", "_authorizer", "_make_refusal", "later", "request", "services", "version")

    def __init__(
        self,
        request: Request,
        services: Services,
        authorizer: Authorizer,
        api: str,
        make_refusal: MakeRefusal,
    ) -> None:
        self.request = request
        self.services = services
        self._authorizer = authorizer
        self._api = api
        self._make_refusal = make_refusal
        self.version = authorizer.version
        self.later: list[Later] = []

    @property
    def is_outdated(self) -> bool:
        """Whether an ACL has changed since the request began to ask."""
        return self.version != self._authorizer.version

    def allows(self, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do what `need` names with the resource `name`."""
        info = self.request.info
        return self._authorizer.allows(
            info.principal, info.peer_host, need.operation, need.resource, name
        )

    def allows_some(self, needs: Sequence[Need], name: str) -> bool:
        """Return whether one of `needs` is met; those of the cluster have no name."""
        return any(
            self.allows(need, CLUSTER_NAME if need.resource is ResourceType.CLUSTER else name)
            for need in needs
        )

    def allows_any(self, need: Need) -> bool:
        """Return whether the client may do it with any resource of the type."""
        info = self.request.info
        return self._authorizer.allows_any(
            info.principal, info.peer_host, need.operation, need.resource
        )

    def operations(self, resource: ResourceType, name: str) -> int:
        """Return the bits of the operations that the client may do."""
        info = self.request.info
        return self._authorizer.allowed_operations(info.principal, info.peer_host, resource, name)

    def log(self, need: Need, name: str = CLUSTER_NAME) -> None:
        """Write the audit line for a right that the client is told it lacks."""
        info = self.request.info
        self._authorizer.log_denied(
            info.principal, info.peer_host, need.operation, need.resource, name, self._api
        )

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic; None if no topic has the id."""
        topic = self.services.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def refuse(self, code: ErrorCode) -> Refused:
        """Refuse the whole request."""
        return Refused(self._make_refusal(self.request, code))

    def narrow(self, **fields: Any) -> None:
        """Have the handler see a request with other values in some fields."""
        self.request.body = replace(self.request.body, **fields)

    def answer_to(self, code: ErrorCode, **fields: Any) -> Any:
        """Return the answer with `code` to a request with other values in some fields."""
        return self._make_refusal(_Part(self.request, replace(self.request.body, **fields)), code)
