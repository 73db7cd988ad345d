"""Settings of topics and brokers over the wire: describe, set, unset.

A `Resource` is Kafka's ConfigResource: a topic by name, one broker by id, or, with an empty name,
the defaults of all brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from client.codes import code_text
from client.kafka.admin import cluster, topic_error
from client.kafka.connection import BrokerError, Connection
from client.suggest import did_you_mean
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)

Setting: TypeAlias = DescribeConfigsResourceResult

TOPIC: Final = 2  # Kafka's ConfigResource.Type
BROKER: Final = 4
GROUP: Final = 32
SET: Final = 0  # AlterConfigOp.OpType
DELETE: Final = 1
# Kafka's ConfigEntry.ConfigSource, by its id on the wire (DescribeConfigsResponse.ConfigSource).
SOURCES: Final = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "broker, at start",  # file, environment or --set: the protocol does not say which
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
OVERRIDES: Final = {TOPIC: (1,), BROKER: (2, 3, 4), GROUP: (8,)}
_ALL_BROKERS: Final = 3
_IDENTITY: Final = (
    "node.id",
    "broker.id",
)  # every broker has them, whether somebody chose them or not
_BOOTSTRAPPED: Final = (
    "min.insync.replicas",
    "1",
)  # recorded in every new directory, as Kafka does


class Resource(NamedTuple):
    """A topic, a group, a broker, or all brokers."""

    kind: int
    name: str

    def __str__(self) -> str:
        """Return its kind and name."""
        if self.kind == TOPIC:
            return f"topic {self.name}"
        if self.kind == GROUP:
            return f"group {self.name}"
        return f"broker {self.name}" if self.name else "all brokers"


def was_set(resource: Resource, setting: Setting) -> bool:
    """Whether somebody set it: on the topic, or on the broker, at its start or later."""
    if setting.config_source not in OVERRIDES[resource.kind] or setting.name in _IDENTITY:
        return False
    given = setting.name, setting.value
    return setting.config_source != _ALL_BROKERS or given != _BOOTSTRAPPED


def describe(
    connection: Connection,
    resources: Sequence[Resource],
    keys: Sequence[str] | None = None,
    *,
    documented: bool = False,
) -> dict[Resource, list[Setting]]:
    """Return the settings of resources, all of them or those with `keys`. Raises BrokerError."""
    asked = [
        DescribeConfigsResource(
            resource_type=one.kind,
            resource_name=one.name,
            configuration_keys=None if keys is None else list(keys),
        )
        for one in resources
    ]
    answer = connection.call(
        DescribeConfigsRequest(
            resources=asked, include_synonyms=True, include_documentation=documented
        ),
        DescribeConfigsResponse,
    )
    found = {}
    for result in answer.results:
        resource = Resource(result.resource_type, result.resource_name)
        _check(connection, resource, result.error_code, result.error_message)
        found[resource] = result.configs
    return found


def topic_overrides(connection: Connection, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the topics' own settings; nothing if the broker does not serve them."""
    if not names or not connection.serves(DescribeConfigsRequest):
        return {}
    found = describe(connection, [Resource(TOPIC, name) for name in names])
    return {
        resource.name: {
            one.name: one.value or "" for one in settings if one.config_source in OVERRIDES[TOPIC]
        }
        for resource, settings in found.items()
    }


def alter(
    connection: Connection,
    resources: Iterable[Resource],
    changes: Mapping[str, str | None],
    *,
    validate_only: bool,
) -> None:
    """Set settings of each resource; None removes one. Raises BrokerError for a refused resource.

    The broker decides about each resource separately: the others are changed nevertheless.
    """
    from protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    configs = [
        AlterableConfig(name=key, value=value, config_operation=DELETE if value is None else SET)
        for key, value in changes.items()
    ]
    asked = [
        AlterConfigsResource(
            resource_type=resource.kind, resource_name=resource.name, configs=configs
        )
        for resource in resources
    ]
    answer = connection.call(
        IncrementalAlterConfigsRequest(resources=asked, validate_only=validate_only),
        IncrementalAlterConfigsResponse,
    )
    for result in answer.responses:
        resource = Resource(result.resource_type, result.resource_name)
        _check(connection, resource, result.error_code, result.error_message)


def _check(connection: Connection, resource: Resource, code: int, message: str | None) -> None:
    if not code:
        return
    if resource.kind == TOPIC and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise topic_error(connection, resource.name, code, message)
    raise BrokerError(f"{resource}: {code_text(code, message)}")


def check_keys(
    connection: Connection, keys: Iterable[str], known: Iterable[Setting], resource: Resource
) -> None:
    """Raise BrokerError, with a suggestion, for a key that the resource does not have."""
    names = {one.name for one in known}
    if resource == Resource(BROKER, ""):  # shows only what is set: ask a broker for all keys
        one_broker = Resource(BROKER, str(cluster(connection).brokers[0].node_id))
        names = {one.name for one in describe(connection, [one_broker])[one_broker]}
    if not names:
        return
    for key in keys:
        if key not in names:
            hint = did_you_mean(key, names)
            raise BrokerError(
                f"{resource} has no setting {key!r}. "
                + (hint or "`barnabas config get --all` lists them.")
            )
