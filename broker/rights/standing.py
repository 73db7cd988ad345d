"""The rights of a request that waits: asked again when it goes on, if an ACL has changed.

A change of an ACL holds from its answer on. So a batch that is queued for a slow disk, or behind a
transaction that is being ended, is appended only if its client may still write then. Offsets that
wait, behind a transaction or for the thread that prepares many, are committed only if their client
may still read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from broker.error_mapping import BatchRefused
from broker.security.acl.acl_codes import AclOperation, ResourceType
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.runtime.request import Request
    from broker.security.acl.authorizer import Authorizer
    from broker.security.acl.reach import Reach
    from broker.services import Services
    from broker.topics import Topics
    from protocol.messages.produce import TopicProduceData
    from storage.log import Appended

NEVER_CHANGED: Final = -1  # the version of rights without an authorizer
Append = Callable[[memoryview, int], "Appended"]


class _Rights:
    """The rights of a client, and whether one may have changed since its request came."""

    __slots__ = ("_authorizer", "_host", "_principal", "_version")

    def __init__(self, request: Request, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._principal = request.info.principal
        self._host = request.info.peer_host
        self._version = authorizer.version

    @property
    def is_outdated(self) -> bool:
        return self._version != self._authorizer.version

    def may(self, operation: AclOperation, resource: ResourceType, name: str) -> bool:
        return self._authorizer.allows(self._principal, self._host, operation, resource, name)


class Standing(_Rights):
    """What a producer was allowed when its request came."""

    __slots__ = ("_transactional_id",)

    def __init__(
        self, request: Request, authorizer: Authorizer, transactional_id: str | None
    ) -> None:
        super().__init__(request, authorizer)
        self._transactional_id = transactional_id

    def refusal(self, asked: Iterable[TopicProduceData], topics: Topics) -> ErrorCode:
        """Return the code for a request that may no longer do all it asks for, else NONE."""
        if not self.is_outdated:
            return ErrorCode.NONE
        for one in asked:
            known = topics.by_id(one.topic_id)
            code = self._refusal(one.name if known is None else known.name)
            if code:
                return code
        return ErrorCode.NONE

    def checked(self, topic: str, append: Append) -> Append:
        """Return what appends a batch, or raises BatchRefused if the client may not any more."""

        def appended(batch: memoryview, now_ms: int) -> Appended:
            if self.is_outdated and (code := self._refusal(topic)):
                raise BatchRefused(code)
            return append(batch, now_ms)

        return appended

    def _refusal(self, topic: str) -> ErrorCode:
        name = self._transactional_id
        if name is not None and not self.may(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not self.may(AclOperation.WRITE, ResourceType.TOPIC, topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE


def standing_of(request: Request, services: Services) -> Standing | None:
    """Return what the producer of a request may do now; None: everything, always."""
    if services.authorizer is None:
        return None
    return Standing(request, services.authorizer, request.body.transactional_id)


class StandingCommit(_Rights):
    """What a client that commits offsets was allowed when its request came."""

    __slots__ = ("_group_id", "_transactional_id")

    def __init__(
        self,
        request: Request,
        authorizer: Authorizer,
        group_id: str,
        transactional_id: str | None = None,
    ) -> None:
        super().__init__(request, authorizer)
        self._group_id = group_id
        self._transactional_id = transactional_id

    def refusal(self, topics: Iterable[str]) -> ErrorCode:
        """Return the code for a commit that may no longer do all it asks for, else NONE."""
        if not self.is_outdated:
            return ErrorCode.NONE
        name = self._transactional_id
        if name is not None and not self.may(
            AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not self.may(AclOperation.READ, ResourceType.GROUP, self._group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if all(self.may(AclOperation.READ, ResourceType.TOPIC, topic) for topic in topics):
            return ErrorCode.NONE
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED


class Describable:
    """Tells which topics a client may describe. It asks at the first topic, and not before."""

    __slots__ = ("_authorizer", "_host", "_principal", "_reach", "_version")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._reach: Reach | None = None
        self._version = authorizer.version

    def __call__(self, name: str) -> bool:
        """Return whether the client may describe a topic."""
        reach = self._reach
        if reach is None or self._version != self._authorizer.version:
            reach = self._reach = self._authorizer.reach(
                self._principal, self._host, AclOperation.DESCRIBE, ResourceType.TOPIC
            )
            self._version = self._authorizer.version
        return reach.allows(name)


def describable(
    request: Request, authorizer: Authorizer | None
) -> tuple[Describable | None, int, int]:
    """Return what tells whether the client may describe a topic, and versions of rights.

    The first is that at which the client's own may have changed, the second that of all. None: it
    may describe all.
    """
    if authorizer is None:
        return None, NEVER_CHANGED, NEVER_CHANGED
    principal, host = request.info.principal, request.info.peer_host
    return (
        Describable(authorizer, principal, host),
        authorizer.changed_at(principal, ResourceType.TOPIC),
        authorizer.version,
    )
