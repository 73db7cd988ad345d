"""DescribeTransactions: topics that the client may not describe are left out of a transaction.

This is the last of the API's clauses; DESCRIBE on the transactional ids comes first.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from broker.rights.asking import Asking, Need, Turns
from broker.rights.clauses import TOPIC
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.describe_transactions import DescribeTransactionsResponse

NEED: Final = Need(TOPIC, AclOperation.DESCRIBE)
LINES: Final = (
    (
        "TOPIC DESCRIBE",
        "the topic is left out of the transaction",
    ),
)


def ask(asking: Asking) -> Turns:
    """Have the topics filtered."""
    yield from ()
    asking.later.append(lambda answer: _filtered(asking, answer))
    return None


def _filtered(asking: Asking, answer: DescribeTransactionsResponse) -> Generator[int, None, Any]:
    for described in answer.transaction_states:
        kept = []
        for topic in described.topics:
            if asking.allows(NEED, topic.topic):
                kept.append(topic)
            yield 0
        described.topics = kept
    return answer
