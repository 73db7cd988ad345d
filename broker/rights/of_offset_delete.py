"""OffsetDelete: READ on each topic, after DELETE on the group.

The API's own error has no place for topics, so their refusals are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.rights.asking import Asking, Need, Turns
from broker.rights.clauses import TOPIC, Each
from broker.security.acl.acl_codes import AclOperation
from protocol.errors import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

LINES: Final = (
    (
        "TOPIC READ",
        "TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
    ),
)


class _EachDeleted(Each):
    __slots__ = ()

    def answer_to(self, asking: Asking, code: ErrorCode, items: Sequence[Any]) -> Any:  # noqa: ARG002
        """Return an answer that refuses `items`."""
        return OffsetDeleteResponse(
            topics=[
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetDeleteResponsePartition(
                            partition_index=one.partition_index, error_code=code
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in items
            ]
        )


EACH_TOPIC: Final = _EachDeleted(
    (Need(TOPIC, AclOperation.READ),), "topics", "topics", calls_empty=True
)


def ask(asking: Asking) -> Turns:
    """Refuse topics."""
    return (yield from EACH_TOPIC.ask(asking))
