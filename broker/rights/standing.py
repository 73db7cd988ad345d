"""The rights of a request that waits: asked again when it goes on, if an ACL has changed.

A change of an ACL holds from its answer on. So a batch that is queued for a slow disk, or behind a
transaction that is being ended, is appended only if its client may still write then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker.error_mapping import BatchRefused
from broker.security.acl.acl_codes import AclOperation, ResourceType
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from broker.runtime.request import Request
    from broker.security.acl.authorizer import Authorizer
    from broker.topics import Topics
    from protocol.messages.produce import TopicProduceData
    from storage.log import Appended

Append = Callable[[memoryview, int], "Appended"]


class Standing:
    """What a producer was allowed when its request came."""

    __slots__ = ("_authorizer", "_host", "_principal", "_transactional_id", "_version")

    def __init__(
        self, request: Request, authorizer: Authorizer, transactional_id: str | None
    ) -> None:
        self._authorizer = authorizer
        self._principal = request.info.principal
        self._host = request.info.peer_host
        self._transactional_id = transactional_id
        self._version = authorizer.version

    def refusal(self, asked: Iterable[TopicProduceData], topics: Topics) -> ErrorCode:
        """Return the code for a request that may no longer do all it asks for, else NONE."""
        if self._version == self._authorizer.version:
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
            if self._version != self._authorizer.version and (code := self._refusal(topic)):
                raise BatchRefused(code)
            return append(batch, now_ms)

        return appended

    def _refusal(self, topic: str) -> ErrorCode:
        name = self._transactional_id
        if name is not None and not self._may_write(ResourceType.TRANSACTIONAL_ID, name):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not self._may_write(ResourceType.TOPIC, topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    def _may_write(self, resource: ResourceType, name: str) -> bool:
        return self._authorizer.allows(
            self._principal, self._host, AclOperation.WRITE, resource, name
        )


def describable(request: Request, authorizer: Authorizer | None) -> Callable[[str], bool] | None:
    """Return what tells whether the client may describe a topic; None: it may describe all."""
    if authorizer is None:
        return None
    principal, host = request.info.principal, request.info.peer_host
    return lambda name: authorizer.allows(
        principal, host, AclOperation.DESCRIBE, ResourceType.TOPIC, name
    )
