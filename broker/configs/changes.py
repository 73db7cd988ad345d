"""Check a request to change configs: the new values of each resource, or the error.

Pure functions of the current values and the request. The checks run in Kafka 4.3's order
(ConfigAdminManager, then ConfigurationControlManager with ControllerConfigurationValidator),
because the order decides which of two errors a client sees. Each resource is checked separately:

    any      twice in the request; a key twice; a null to set       INVALID_REQUEST
    any      APPEND or SUBTRACT on a key that is no list             INVALID_CONFIG
    topic    no name; the name; keys and values; exists              42, 17, INVALID_CONFIG, 3
    broker   another node; fixed keys; values                        INVALID_REQUEST
    group, client metrics: their own tables (config/resources.py)

Unknown keys of a broker are accepted, as in Kafka, which assumes a plugin's; their values are never
shown. Keys without effect are checked by their kind. Code -1 for an unknown operation is Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC, ClusterImage
from broker.metadata.topic_config import checked_topic_config, usable_topic_config
from broker.metadata.topic_rules import TopicError, check_name
from broker.runtime.turns import InTurns
from broker.telemetry.metric_subscriptions import check_expressions
from config.broker import BrokerConfig
from config.broker_names import BrokerName, broker_name
from config.errors import ConfigError
from config.listener_keys import LIMITS, LISTENER_PREFIX, split_prefix
from config.load import Loaded
from config.resources import ResourceConfigError, check_client_metrics, check_group
from config.tls_settings import TlsSettings
from config.topic import TopicConfig, topic_keys
from config.values import Kind, parse, text_of
from protocol.errors import ErrorCode

# ConfigResource.Type and AlterConfigOp.OpType in Kafka; on the wire: never renumber.
CLIENT_METRICS: Final = 16
GROUP: Final = 32
RESOURCE_TYPES: Final = (CONFIG_TOPIC, CONFIG_BROKER, CLIENT_METRICS, GROUP)
SET, DELETE, APPEND, SUBTRACT = range(4)
LIST_OPERATIONS: Final = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

RESOURCES_PER_TURN: Final = 5_000

MIN_ISR: Final = "min.insync.replicas"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"


class Operation(NamedTuple):
    """One key of a request and its operation. DELETE needs no value."""

    name: str
    operation: int
    value: str | None


class Resource(NamedTuple):
    """A resource by type and name, and the operations on it."""

    kind: int
    name: str
    operations: Sequence[Operation]
    replaces: bool = False  # AlterConfigs: keys that are not named are removed


class Change(NamedTuple):
    """Kept, changed and removed keys. The kept values were accepted when they were written."""

    kept: Mapping[str, str]
    changed: Mapping[str, str]
    gone: frozenset[str]


class State(NamedTuple):
    """The state that changes are checked against."""

    image: ClusterImage
    node_id: int
    topic_defaults: TopicConfig
    loaded: Loaded


async def duplicates(resources: Sequence[Resource]) -> set[tuple[int, str]]:
    """Return the resources that a request names more than once, in turns of the loop."""
    seen: set[tuple[int, str]] = set()
    twice: set[tuple[int, str]] = set()
    async for resource in InTurns(resources, RESOURCES_PER_TURN):
        key = (resource.kind, resource.name)
        (twice if key in seen else seen).add(key)
    return twice


def check_named_once(resource: Resource, twice: Container[tuple[int, str]]) -> None:
    """Raise TopicError if a resource is among those named `twice`."""
    if (resource.kind, resource.name) in twice:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def changes_of(resource: Resource, state: State) -> dict[str, str | None]:
    """Return the keys that change, with their new values; None removes one. Raises TopicError."""
    _check_form(resource)
    if resource.kind not in RESOURCE_TYPES:
        raise TopicError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.kind}")
    if resource.kind == CONFIG_BROKER:
        _check_broker_name(resource.name, state.node_id)
    change = _change_of(resource, state)
    _CHECKS[resource.kind](resource, change, state)
    return dict.fromkeys(sorted(change.gone)) | dict(change.changed)


def _change_of(resource: Resource, state: State) -> Change:
    before = configs_of(state.image, resource.kind, resource.name)
    after = {} if resource.replaces else dict(before)
    for operation in resource.operations:
        _operate(resource.kind, after, operation)
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    kept = {name: text for name, text in after.items() if name not in changed}
    return Change(kept, changed, frozenset(name for name in before if name not in after))


def tls_after(resource: Resource, state: State) -> dict[str, TlsSettings]:
    """Return the TLS of the listeners after a change of the broker's. Raises TopicError."""
    _check_form(resource)
    return config_after(resource, _change_of(resource, state), state).tls


def configs_of(image: ClusterImage, kind: int, name: str) -> Mapping[str, str]:
    """Return the values set on a resource itself."""
    if kind == CONFIG_TOPIC and name in image.topics:
        return image.topics[name].configs
    if kind == CONFIG_BROKER:
        return image.broker_configs.get(name, {})
    return image.other_configs.get((kind, name), {})


def is_list(kind: int, name: str) -> bool:
    """Whether a key of a resource takes APPEND and SUBTRACT."""
    if kind == CONFIG_TOPIC:
        return name in topic_keys() and topic_keys()[name].kind is Kind.LIST
    if kind == CONFIG_BROKER:
        known = broker_name(name)
        return known is not None and known.kind is Kind.LIST
    return False  # as in Kafka, whose table of list keys covers topics and brokers


# -- the form of a request -------------------------------------------------------------------------


def _check_form(resource: Resource) -> None:
    names = [operation.name for operation in resource.operations]
    if len(set(names)) < len(names):
        raise TopicError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        operation.name
        for operation in resource.operations
        if operation.operation != DELETE and operation.value is None
    ]
    if nulls:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}"
        )


def _operate(kind: int, values: dict[str, str], operation: Operation) -> None:
    name, code, text = operation
    if code == DELETE:
        values.pop(name, None)
        return
    assert text is not None, "refused above"
    if code == SET:
        values[name] = text
        return
    if code not in LIST_OPERATIONS:
        raise TopicError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Unknown operation {code} on {name}: 0 sets, 1 deletes, 2 appends, 3 subtracts",
        )
    if not is_list(kind, name):
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {LIST_OPERATIONS[code]} to key {name} because its type is not LIST.",
        )
    held = values.get(name, _default(kind, name))
    parts = held.split(",") if held else []
    values[name] = ",".join(_combined(parts, code, text.split(",")))


def _combined(parts: list[str], code: int, given: list[str]) -> list[str]:
    """Return a list with the given parts that it lacks, or with one less of each given one."""
    if code == APPEND:
        known = set(parts)
        return parts + [part for part in dict.fromkeys(given) if part not in known]
    less = Counter(given)
    left: list[str] = []
    for part in parts:
        if less[part] > 0:
            less[part] -= 1
        else:
            left.append(part)
    return left


def _default(kind: int, name: str) -> str:
    if kind == CONFIG_TOPIC:
        return text_of(topic_keys()[name].default) or ""
    known = broker_name(name)
    return (known.default if known else None) or ""


# -- one kind of resource --------------------------------------------------------------------------


def _check_topic(resource: Resource, change: Change, state: State) -> None:
    if not resource.name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(resource.name)
    config, _ = usable_topic_config(state.topic_defaults, change.kept)
    checked_topic_config(config, change.changed)
    if resource.name not in state.image.topics:
        raise TopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
        )


def broker_number(name: str) -> int:
    """Return the id of a broker that a resource is named after, as Java reads it.

    Raises ValueError.
    """
    if name != name.strip():
        raise ValueError(name)
    number = parse(Kind.INT, name)
    assert isinstance(number, int), "of its kind"
    return number


def _check_broker_name(name: str, node_id: int) -> None:
    """Only this broker, or "" for all of them."""
    if not name:
        return
    try:
        number = broker_number(name)
    except ValueError:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        ) from None
    if number != node_id:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}, but received {name}",
        )


def _check_broker(resource: Resource, change: Change, state: State) -> None:
    fixed = [name for name in change.changed if _is_fixed(resource, name)]
    if fixed:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]",
        )
    for name, text in change.changed.items():
        known = broker_name(name)
        if known is not None:
            _check_broker_value(known, text)
    _check_broker_whole(resource, change, state)
    _check_eligible_leaders(resource, change, state.image)


def _is_fixed(resource: Resource, name: str) -> bool:
    """Whether a key is fixed; TLS of a listener changes for one broker only, as in Kafka."""
    known = broker_name(name)
    if not name.startswith(LISTENER_PREFIX):
        return known is not None and not known.is_dynamic
    parts = split_prefix(name)
    is_limit = parts is not None and parts.key in LIMITS
    return known is None or not known.is_dynamic or not (resource.name or is_limit)


def _check_broker_whole(resource: Resource, change: Change, state: State) -> None:
    """Check the new values against each other and against the valid values that stay."""
    after = config_after(resource, change, state)
    _check_cleaner_threads(state.loaded.config.log_cleaner_threads, after.log_cleaner_threads)


def config_after(resource: Resource, change: Change, state: State) -> BrokerConfig:
    """Return the broker's configuration with a change. Raises TopicError."""
    others = state.image.broker_configs.get("" if resource.name else str(state.node_id), {})
    kept = {**others, **change.kept} if resource.name else {**change.kept, **others}
    # Usable before, not without what changes: client.auth=required needs a truststore that changes.
    own = state.image.broker_configs.get(str(state.node_id), {})
    recorded = {**state.image.broker_configs.get("", {}), **own}
    usable = state.loaded.with_usable_dynamic(recorded)[0].dynamic
    texts = {name: text for name, text in kept.items() if name in usable}
    for name, text in change.changed.items():
        known = broker_name(name)
        if known is not None and known.key is not None:
            texts[name] = text
    try:
        return state.loaded.with_dynamic(texts).config
    except ConfigError as error:
        raise _refused_value(error) from error


def _check_cleaner_threads(now: int, wanted: int) -> None:
    """Kafka's rule for changes of log.cleaner.threads at run time."""
    if wanted < now // 2:
        reason = f"reduced to less than half the current value {now}"
    elif wanted > now * 2:
        reason = f"increased to more than double the current value {now}"
    else:
        return
    raise TopicError(ErrorCode.INVALID_REQUEST, f"Log cleaner threads cannot be {reason}")


def _check_broker_value(known: BrokerName, text: str) -> None:
    name = known.name
    try:
        known.check(text)
    except ConfigError as error:
        raise _refused_value(error) from error
    except ValueError as error:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, f"Invalid value {text} for configuration {name}: {error}"
        ) from error


def _refused_value(error: ConfigError) -> TopicError:
    allowed = f" (allowed: {error.allowed})" if error.allowed else ""
    return TopicError(
        ErrorCode.INVALID_REQUEST,
        f"Invalid value {error.value} for configuration {error.key}: {error.reason}{allowed}",
    )


def _check_eligible_leaders(resource: Resource, change: Change, image: ClusterImage) -> None:
    """Refuse the changes to min.insync.replicas that Kafka refuses under ELR (KIP-966)."""
    if not image.feature_levels.get(ELIGIBLE_LEADER_REPLICAS):
        return
    if resource.name and (MIN_ISR in change.changed or MIN_ISR in change.gone):
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled.",
        )
    if not resource.name and MIN_ISR in change.gone:
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
        )


def _check_group(resource: Resource, change: Change, _state: State) -> None:
    if not resource.name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    try:
        check_group(change.changed)
    except ResourceConfigError as error:
        raise TopicError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_client_metrics(resource: Resource, change: Change, _state: State) -> None:
    if not resource.name:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    try:
        check_client_metrics(change.changed)
        check_expressions(change.changed.get("match", ""))
    except ResourceConfigError as error:
        code = ErrorCode.INVALID_REQUEST if error.is_bound else ErrorCode.INVALID_CONFIG
        raise TopicError(code, str(error)) from error


_Check = Callable[[Resource, Change, State], None]
_CHECKS: Final[dict[int, _Check]] = {
    CONFIG_TOPIC: _check_topic,
    CONFIG_BROKER: _check_broker,
    CLIENT_METRICS: _check_client_metrics,
    GROUP: _check_group,
}
