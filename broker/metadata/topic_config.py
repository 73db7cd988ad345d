"""The configs of a topic: strict when a client sets them, lenient when they are loaded.

`checked_topic_config` validates a request with Kafka 4.3's texts and code (INVALID_CONFIG).
`usable_topic_config` reads values from the metadata log. Kafka, or a newer version of this broker,
may have accepted a value that we do not know; one such value must not keep a topic from being
served, so it is returned to be reported. `TopicConfigs` holds the broker's own defaults, which may
change at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.metadata.image import TopicInfo
from broker.metadata.topic_rules import TopicError
from config.errors import ConfigError
from config.topic import TopicConfig, topic_keys
from protocol.errors import ErrorCode


def checked_topic_config(
    defaults: TopicConfig, configs: Mapping[str, str | None]
) -> dict[str, str]:
    """Return `configs` in the form to store, or raise TopicError for the first bad one."""
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
    """Return `defaults` overridden by the usable `configs`, and why the others are not."""
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


class TopicConfigs:
    """The configurations of topics: `defaults`, those of the broker now, under their own values."""

    __slots__ = ("defaults",)

    def __init__(self, defaults: TopicConfig) -> None:
        self.defaults = defaults

    def of(self, topic: TopicInfo) -> TopicConfig:
        """Return the configuration of a topic.

        A value that cannot be used (Kafka may have accepted it) leaves the default in place.
        """
        return usable_topic_config(self.defaults, topic.configs)[0]

    def unusable(self, topic: TopicInfo) -> list[str]:
        """Return why values of a topic cannot be used."""
        return usable_topic_config(self.defaults, topic.configs)[1]

    def checked(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        """Return the values that a new topic gets, or raise TopicError."""
        return checked_topic_config(self.defaults, configs)
