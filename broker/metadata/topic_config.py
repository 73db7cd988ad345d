"""A topic's own configs: strict when a client sets them, lenient when they are found.

`checked_topic_config` answers a request in Kafka 4.3's words and code (INVALID_CONFIG).
`usable_topic_config` is for values that stand in the metadata log: Kafka, or a newer version of
this broker, may have accepted what we do not know, and one such value must not keep a topic
from being served. What could not be used is returned, to be reported.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.metadata.topic_rules import TopicError
from config.errors import ConfigError
from config.topic import TopicConfig, topic_keys
from protocol.errors import ErrorCode


def checked_topic_config(
    defaults: TopicConfig, configs: Mapping[str, str | None]
) -> dict[str, str]:
    """Return `configs` as they are to be kept, or raise TopicError for the first bad one."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    texts = {name: value for name, value in configs.items() if value is not None}
    for name in texts:
        if name not in topic_keys():
            raise TopicError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    try:
        defaults.with_overrides(texts)
    except ConfigError as error:
        allowed = f" (allowed: {error.allowed})" if error.allowed else ""
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"Invalid value {error.value} for configuration {error.key}: {error.reason}{allowed}",
        ) from error
    return texts


def usable_topic_config(
    defaults: TopicConfig, configs: Mapping[str, str]
) -> tuple[TopicConfig, list[str]]:
    """Return `defaults` under those of `configs` that can be used, and why others cannot."""
    try:
        return defaults.with_overrides(configs), []
    except ConfigError:
        pass
    usable: dict[str, str] = {}
    refused: list[str] = []
    for name, value in configs.items():
        try:
            defaults.with_overrides({**usable, name: value})
        except ConfigError as error:
            refused.append(str(error))
        else:
            usable[name] = value
    return defaults.with_overrides(usable), refused
