"""A client whose requests are well formed and wrong, or rarely asked; it knows what they must get.

Each `Question` names the error codes that its answer may hold; any other is an objection, unless it
says that the outcome is uncertain. The fumbler has a topic, a group and a subscription of its own,
under its name, so that it changes nothing of the others; whatever it asks of the broker's configs
is refused or only checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from protocol.errors import ErrorCode
from protocol.kafka.schema import Array, Struct, read_layout
from tests.simulation.clients.caller import Caller, codes_of
from tests.simulation.clients.wire import HANDLER_OF
from tests.simulation.context import Context
from tests.simulation.judges.offsets import UNCERTAIN
from tests.simulation.plan import ClientPlan

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32  # ConfigResource.Type in Kafka
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3  # AlterConfigOp
NO_SUCH: Final = "fumbled"
SOME_ID: Final = bytes(15) + b"\x09"
HANDLERS: Final = {row.name: row for row in HANDLER_OF.values()}
E: Final = ErrorCode


class Question(NamedTuple):
    """A request as a map of its fields, the versions that ask this, and the codes it may get."""

    api: str
    body: dict[str, Any]
    codes: tuple[int, ...]
    lowest: int = 0
    highest: int = 99


def made(wire_type: Any, value: Any) -> Any:
    """Return the message of a layout from maps and lists; what a version lacks is left out."""
    match wire_type:
        case Struct() if value is not None:
            fields = {one.name: one.type for one in (*wire_type.fields, *wire_type.tagged)}
            return wire_type.cls(
                **{name: made(fields[name], value[name]) for name in value if name in fields}
            )
        case Array() if value is not None:
            return [made(wire_type.element, one) for one in value]
    return value


# -- Questions ------------------------------------------------------------------------------------


def _altered(kind: int, name: str, key: str, value: str | None, operation: int) -> dict[str, Any]:
    config = {"name": key, "config_operation": operation, "value": value}
    return {"resource_type": kind, "resource_name": name, "configs": [config]}


def _alter(
    kind: int,
    name: str,
    key: str,
    value: str | None,
    *codes: int,
    operation: int = SET,
    **more: Any,
) -> Question:
    resource = _altered(kind, name, key, value, operation)
    body = {"resources": [resource], "validate_only": False, **more}
    return Question("incremental_alter_configs", body, codes or (0,))


def _describe(kind: int, name: str, *codes: int) -> Question:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    body = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    return Question("describe_configs", body, codes or (0,))


def _configs(own: str) -> list[Question]:
    twice = [_altered(TOPIC, own, "retention.ms", "-1", SET)] * 2
    full = [{"resource_type": TOPIC, "resource_name": own, "configs": []}] * 2
    policy = "cleanup.policy"
    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    min_isr = "min.insync.replicas"
    checked = {"validate_only": True}
    return [
        Question("incremental_alter_configs", {"resources": twice}, (E.INVALID_REQUEST,)),
        Question("alter_configs", {"resources": full}, (E.INVALID_REQUEST,)),
        _alter(TOPIC, own, policy, "compact", 0, missing, operation=APPEND),
        _alter(TOPIC, own, policy, "compact,burn", 0, missing, operation=SUBTRACT),
        _alter(TOPIC, own, "retention.ms", "1", E.INVALID_CONFIG, operation=APPEND),
        _alter(TOPIC, own, policy, "burn", E.INVALID_CONFIG, operation=APPEND),
        _alter(TOPIC, own, policy, "compact", -1, operation=9),
        _alter(TOPIC, "", policy, "compact", E.INVALID_REQUEST),
        _alter(TOPIC, "no topic", policy, "compact", E.INVALID_TOPIC_EXCEPTION),
        _alter(99, own, policy, "compact", E.INVALID_REQUEST),
        _alter(BROKER, "", "log.cleanup.policy", "compact", operation=APPEND, **checked),
        _alter(BROKER, "", "no.such.key", "1", E.INVALID_CONFIG, operation=SUBTRACT, **checked),
        _alter(BROKER, "1", "log.cleaner.threads", "60", E.INVALID_REQUEST),
        _alter(BROKER, "1", "log.cleaner.backoff.ms", "soon", E.INVALID_REQUEST),
        _alter(BROKER, "1", "max.connections.per.ip.overrides", "x", E.INVALID_REQUEST),
        _alter(BROKER, "1", min_isr, "1", 0, E.INVALID_CONFIG, **checked),
        _alter(BROKER, "", min_isr, None, 0, E.INVALID_CONFIG, operation=DELETE, **checked),
        _alter(GROUP, own, "consumer.session.timeout.ms", "50000"),
        _alter(GROUP, own, "consumer.session.timeout.ms", None, operation=DELETE),
        _alter(GROUP, own, "consumer.session.timeout.ms", "1", E.INVALID_CONFIG),
        _alter(CLIENT_METRICS, own, "interval.ms", "1000"),
        _alter(CLIENT_METRICS, own, "interval.ms", None, operation=DELETE),
        _alter(CLIENT_METRICS, own, "match", "x=[", E.INVALID_CONFIG, E.INVALID_REQUEST),
        _describe(TOPIC, own, 0, missing),
        _describe(TOPIC, NO_SUCH, missing),
        _describe(TOPIC, "no topic", E.INVALID_TOPIC_EXCEPTION),
        _describe(GROUP, own),
        _describe(GROUP, "", E.INVALID_REQUEST),
        _describe(CLIENT_METRICS, own),
        _describe(CLIENT_METRICS, "", E.INVALID_REQUEST),
        _describe(BROKER, "x", E.INVALID_REQUEST),
        _describe(99, own, E.INVALID_REQUEST),
    ]  # fmt: skip


def _new(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **more}


def _create(topic: dict[str, Any], *codes: int) -> Question:
    body = {"topics": [topic], "timeout_ms": 5_000, "validate_only": False}
    return Question("create_topics", body, codes)


def _topics(own: str) -> list[Question]:
    assigned = {"num_partitions": -1, "replication_factor": -1}
    gap = [{"partition_index": number, "broker_ids": [1]} for number in (0, 2)]
    twice = [{"partition_index": 0, "broker_ids": [1]}] * 2
    foreign = [{"partition_index": 0, "broker_ids": [7]}]
    named, known = {"name": NO_SUCH}, {"name": own}
    by_id = {"name": None, "topic_id": SOME_ID}
    bad, missing = E.INVALID_REPLICA_ASSIGNMENT, E.UNKNOWN_TOPIC_OR_PARTITION
    more = {"name": own, "count": 7}
    either = (0, E.TOPIC_ALREADY_EXISTS, E.INVALID_TOPIC_EXCEPTION)  # their names collide

    def delete(topics: list[dict[str, Any]], *codes: int, lowest: int = 6) -> Question:
        names = [topic["name"] for topic in topics]
        body = {"topics": topics, "topic_names": names, "timeout_ms": 5_000}
        return Question("delete_topics", body, codes, lowest)

    def grow(topics: list[dict[str, Any]], *codes: int) -> Question:
        body = {"topics": topics, "timeout_ms": 5_000, "validate_only": True}
        return Question("create_partitions", body, codes)

    return [
        _create(_new(own), 0, E.TOPIC_ALREADY_EXISTS),
        _create(_new(own.replace("-", "_")), *either),
        _create(_new(own.replace("-", ".")), *either),
        _create(_new(NO_SUCH, **assigned, assignments=gap), bad),
        _create(_new(NO_SUCH, **assigned, assignments=twice), bad),
        _create(_new(NO_SUCH, **assigned, assignments=foreign), bad),
        _create(_new(NO_SUCH, assignments=foreign), E.INVALID_REQUEST),
        _create(_new(NO_SUCH, num_partitions=10_001), E.POLICY_VIOLATION),
        _create(_new(NO_SUCH, replication_factor=0), E.INVALID_REPLICATION_FACTOR),
        _create(_new("__cluster_metadata"), E.INVALID_REQUEST),
        delete([named, named], E.INVALID_REQUEST),
        delete([named], missing, lowest=0),
        delete([by_id, by_id], E.INVALID_REQUEST),
        delete([by_id], E.UNKNOWN_TOPIC_ID),
        delete([{"name": NO_SUCH, "topic_id": SOME_ID}], E.INVALID_REQUEST),
        grow([{**more, "assignments": [{"broker_ids": [1]}]}], bad, missing),
        grow([more | {"assignments": [{"broker_ids": [1]}] * 6}], 0, missing),
        grow([more | {"assignments": [{"broker_ids": [3]}] * 6}], bad, missing),
        grow([{**more, "count": 20_000}], -1, missing, E.INVALID_PARTITIONS),
        grow([more, more], E.INVALID_REQUEST),
        grow([{"name": NO_SUCH, "count": 3}], missing),
        grow([known | {"count": 1}], E.INVALID_PARTITIONS, missing),
    ]  # fmt: skip


def _logs(own: str) -> list[Question]:
    internal = "__consumer_offsets"
    gone = (0, E.UNKNOWN_TOPIC_OR_PARTITION)
    beyond = E.OFFSET_OUT_OF_RANGE

    def offsets(timestamp: int, *codes: int, epoch: int = -1, index: int = 0) -> Question:
        asked = {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}
        topic = {"name": own, "partitions": [asked]}
        body = {"replica_id": -1, "topics": [topic], "timeout_ms": 5_000}
        return Question("list_offsets", body, codes, 4)

    def epochs(asked: int, current: int, *codes: int) -> Question:
        one = {"partition": 0, "leader_epoch": asked, "current_leader_epoch": current}
        body = {"replica_id": -1, "topics": [{"topic": own, "partitions": [one]}]}
        return Question("offset_for_leader_epoch", body, codes, 3)

    def trim(name: str, offset: int, *codes: int) -> Question:
        topic = {"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}
        return Question("delete_records", {"topics": [topic], "timeout_ms": 5_000}, codes)

    def fetch(asked: dict[str, Any], *codes: int, lowest: int = 4, replica: int = -1) -> Question:
        one = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100, **asked}
        body = {
            "replica_id": replica,
            "replica_state": {"replica_id": replica},
            "max_wait_ms": 1,
            "min_bytes": 1,
            "topics": [{"topic": own, "topic_id": SOME_ID, "partitions": [one, one]}],
        }
        return Question("fetch", body, (*codes, E.UNKNOWN_TOPIC_ID), lowest)

    def produce(name: str, acks: int, *codes: int) -> Question:
        topic = {
            "name": name,
            "topic_id": SOME_ID,
            "partition_data": [{"index": 0, "records": b""}],
        }
        body = {"transactional_id": None, "acks": acks, "timeout_ms": 1_000, "topic_data": [topic]}
        return Question("produce", body, codes, highest=12)

    return [
        offsets(-7, E.UNSUPPORTED_VERSION),
        offsets(-1, E.UNKNOWN_LEADER_EPOCH, *gone[1:], epoch=1_000_000),
        offsets(-1, E.FENCED_LEADER_EPOCH, *gone, epoch=0),
        offsets(-1, E.UNKNOWN_TOPIC_OR_PARTITION, index=77),
        epochs(0, 1_000_000, E.UNKNOWN_LEADER_EPOCH, *gone[1:]),
        epochs(0, 0, E.FENCED_LEADER_EPOCH, *gone),
        trim(internal, 0, E.INVALID_TOPIC_EXCEPTION, *gone[1:]),
        trim(own, -5, beyond, *gone[1:]),
        trim(own, -1, E.POLICY_VIOLATION, *gone),
        fetch({}, *gone),
        fetch({"last_fetched_epoch": 1_000_000}, beyond, *gone[1:], lowest=12),
        fetch({"last_fetched_epoch": 0, "fetch_offset": 9}, *gone, beyond, lowest=12),
        fetch({}, E.NOT_LEADER_OR_FOLLOWER, replica=3),
        produce(internal, 1, E.INVALID_TOPIC_EXCEPTION, *gone[1:]),
        produce(own, 5, E.INVALID_REQUIRED_ACKS),
        produce(own, 1, E.INVALID_RECORD, E.CORRUPT_MESSAGE, *gone),
    ]  # fmt: skip


def _cluster(own: str) -> list[Question]:
    def move(index: int, replicas: list[int] | None, *codes: int, **more: Any) -> Question:
        one = {"partition_index": index, "replicas": replicas}
        body = {"timeout_ms": 5_000, "topics": [{"name": own, "partitions": [one]}], **more}
        return Question("alter_partition_reassignments", body, codes)

    def feature(name: str, level: int, kind: int, *codes: int, check: bool = True) -> Question:
        update = {"feature": name, "max_version_level": level, "upgrade_type": kind}
        body = {"feature_updates": [update], "validate_only": check}
        return Question("update_features", body, codes, 1)

    def init(transactional_id: str | None, producer: int, epoch: int, *codes: int) -> Question:
        body = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": 1_000,
            "producer_id": producer,
            "producer_epoch": epoch,
        }
        return Question("init_producer_id", body, codes, 3)

    def elect(kind: int, timeout_ms: int, *codes: int) -> Question:
        asked = [{"topic": own, "partitions": [0, 77]}]
        body = {"election_type": kind, "topic_partitions": asked, "timeout_ms": timeout_ms}
        return Question("elect_leaders", body, codes, 1)

    def find(kind: int, *codes: int) -> Question:
        body = {"key": own, "key_type": kind, "coordinator_keys": [own]}
        return Question("find_coordinator", body, codes, 1)

    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    elr = "eligible.leader.replicas.version"
    no_group = (0, E.GROUP_ID_NOT_FOUND)
    unnamed = {"client_software_name": "-", "client_software_version": ""}
    failed = (E.FEATURE_UPDATE_FAILED, E.INVALID_UPDATE_VERSION)
    operations = {"include_authorized_operations": True}
    return [
        move(0, [1, 1], E.INVALID_REPLICA_ASSIGNMENT, missing),
        move(0, [2], E.INVALID_REPLICA_ASSIGNMENT, missing),
        move(0, None, E.NO_REASSIGNMENT_IN_PROGRESS, missing),
        move(77, [1], missing),
        move(0, [1], E.REQUEST_TIMED_OUT, timeout_ms=0),
        feature("group.version", -1, 1, *failed),
        feature("group.version", 1, 9, *failed),
        feature("share.version", 1, 1, *failed),
        feature(elr, 1, 2, 0, *failed),
        feature(elr, 0, 1, 0, *failed),
        feature(elr, 1, 1, 0, check=False),
        feature(elr, 0, 2, 0, check=False),
        feature("metadata.version", 7, 3, *failed),
        feature("fumbled.version", 0, 1, *failed),
        init("", -1, -1, E.INVALID_REQUEST),
        init(own, -1, -1, 0, E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS),
        init(None, 5, -1, E.INVALID_REQUEST),
        init(None, 5, 3, 0),
        elect(7, 5_000, E.INVALID_REQUEST, 0, missing, E.ELECTION_NOT_NEEDED),
        elect(1, 5_000, missing, E.ELECTION_NOT_NEEDED),
        elect(0, 0, E.REQUEST_TIMED_OUT),
        find(1, 0),
        find(9, E.INVALID_REQUEST),
        Question("describe_cluster", {"include_cluster_authorized_operations": True}, (0,)),
        Question("describe_groups", {"groups": [own], **operations}, no_group, 3),
        Question("consumer_group_describe", {"group_ids": [own], **operations}, no_group),
        Question("api_versions", unnamed, (E.INVALID_REQUEST,), 3),
        Question("unregister_broker", {"broker_id": 1}, (E.INVALID_REQUEST,)),
        Question("sasl_handshake", {"mechanism": "PLAIN"}, (E.ILLEGAL_SASL_STATE,)),
        Question("sasl_authenticate", {"auth_bytes": b"\0a\0b"}, (E.ILLEGAL_SASL_STATE,)),
    ]  # fmt: skip


def _users(own: str) -> list[Question]:
    users = [{"name": own}, {"name": own}, {"name": f"{own}-no"}]
    credentials = [{"name": f"{own}-{code}", "mechanism": code} for code in range(4)]
    user = {"name": own, "mechanism": 1, "iterations": 4_096, "salt": b"s", "salted_password": b"p"}
    errors = (0, E.RESOURCE_NOT_FOUND, E.DUPLICATE_RESOURCE, E.UNSUPPORTED_SASL_MECHANISM)
    unacceptable = (E.UNACCEPTABLE_CREDENTIAL,)
    return [
        Question("describe_user_scram_credentials", {"users": users}, errors),
        Question("alter_user_scram_credentials", {"deletions": credentials}, errors),
        Question("alter_user_scram_credentials", {"upsertions": [user]}, (0,)),
        Question(
            "alter_user_scram_credentials",
            {"upsertions": [user | {"iterations": 9}]},
            unacceptable,
        ),
    ]


SUBJECTS: Final[tuple[Callable[[str], list[Question]], ...]] = (
    _configs,
    _topics,
    _logs,
    _cluster,
    _users,
)


# -- Asking ---------------------------------------------------------------------------------------


async def step(caller: Caller) -> None:
    """Ask one question."""
    own = caller.name.replace(" ", "-")
    question = caller.rng.choice(caller.rng.choice(SUBJECTS)(own))
    handler = HANDLERS[question.api]
    lowest = max(question.lowest, handler.min_version)
    highest = min(question.highest, handler.max_version)
    if caller.is_msgpack:
        if highest < handler.max_version:
            return
        lowest = highest
    version = caller.rng.randint(lowest, highest)
    body = made(read_layout(handler.request, version), question.body)
    answer = await caller.ask(body, version, what=question.api)
    if answer is None:
        return
    wrong = {*codes_of(answer)} - UNCERTAIN - {*question.codes}
    if 0 in wrong and any(codes_of(answer)):
        wrong.discard(0)  # of what is around the part that is refused
    if wrong:
        said = f"{question.api} {version} {question.body}"
        caller.record.fail(caller.name, f"{said}: codes {sorted(wrong)}, not {question.codes}")


async def run(context: Context, plan: ClientPlan) -> None:
    """Ask questions."""
    caller = Caller(context, plan)
    for _ in caller.steps:
        await step(caller)
        await caller.pause()
    caller.wire.close()
