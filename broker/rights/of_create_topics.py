"""CreateTopics: a topic's configs are in the answer only for clients that may describe them.

This is the last of the API's clauses; CREATE comes first.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

from broker.rights.asking import DENIED, Asking, Need, Turns
from broker.rights.clauses import TOPIC
from broker.security.acl.acl_codes import AclOperation
from protocol.messages.create_topics import CreateTopicsResponse

CONFIGS_VERSION: Final = 5
UNKNOWN: Final = -1
NEED: Final = Need(TOPIC, AclOperation.DESCRIBE_CONFIGS)
LINES: Final = (
    (
        "TOPIC DESCRIBE_CONFIGS",
        "no configs in the answer, and TOPIC_AUTHORIZATION_FAILED in their place",
    ),
)


def ask(asking: Asking) -> Turns:
    """Have configs taken out of the answer."""
    yield from ()
    if asking.request.header.api_version >= CONFIGS_VERSION:
        asking.later.append(lambda answer: _without_configs(asking, answer))
    return None


def _without_configs(asking: Asking, answer: CreateTopicsResponse) -> Generator[int, None, Any]:
    for topic in answer.topics:
        if not topic.error_code and not asking.allows(NEED, topic.name):
            topic.topic_config_error_code = DENIED[TOPIC]
            topic.num_partitions = topic.replication_factor = UNKNOWN
            topic.configs = []
        yield 0
    return answer
