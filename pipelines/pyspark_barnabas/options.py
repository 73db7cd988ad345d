"""The options of Spark's own Kafka source and sink, read into values.

Names, defaults, precedence and the rules between them are Spark's (its Structured Streaming +
Kafka Integration Guide and KafkaSourceProvider). Options that begin with `kafka.` are the Java
client's. What happens to an option:

    it has a meaning here           it is read
    it asks for TLS or SASL         read (`pyspark_barnabas.security_options`), or refused: never
                                    ignored, as a plain connection would deceive the user
    Spark's source refuses it       refused in the same way
    it tunes the Java client        accepted with a warning (`pyspark_barnabas.known_options`)
    nobody knows it                 refused

`batchBytesMax` (how large one compressed batch may be when decompressed), `batchHeadersMax`, and
`deduplicate`, `exactlyOnce` and `decisionTopic` (of the streaming sink) exist only here. Nothing
here asks a broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark_barnabas.columns import BATCH_BYTES_MAX, BATCH_HEADERS_MAX
from pyspark_barnabas.security_options import security_options
from pyspark_barnabas.settings import Settings
from pyspark_barnabas.wire.brokers import ClusterOptions
from pyspark_barnabas.wire.compression import NAMES
from pyspark_barnabas.wire.errors import BadOption
from pyspark_barnabas.wire.protocol import EARLIEST, LATEST, TopicPartition

_STRATEGIES: Final = ("assign", "subscribe", "subscribepattern")
_NO_FILES: Final = (
    "files are read and written through a broker, and `barnabas serve --read-only` serves a data "
    "directory as it is"
)
# What Spark's KafkaSourceProvider refuses, with what to do instead; and the paths that Spark adds
# for load(PATH) and save(PATH).
_REFUSED: Final = {
    "path": _NO_FILES,
    "paths": _NO_FILES,
    "kafka.auto.offset.reset": "use startingOffsets",
    "kafka.key.deserializer": "keys are read as bytes; cast them with DataFrame operations",
    "kafka.value.deserializer": "values are read as bytes; cast them with DataFrame operations",
    "kafka.key.serializer": "keys are written as bytes or strings; convert them first",
    "kafka.value.serializer": "values are written as bytes or strings; convert them first",
    "kafka.enable.auto.commit": "Spark keeps the offsets; nothing is committed to a group",
    "kafka.interceptor.classes": "there is no Java client to intercept",
    "kafka.partitioner.class": "there is no Java client; use the column partition, or keys, which "
    "select partitions as the Java client's default does",
}
_TRIGGER_DELAY: Final = "15m"  # Spark's default
# A key in a stream's offset map, beside the topics; no topic can have that name.
TOPIC_IDS: Final = "@topicIds"


def cluster_options(settings: Settings, *, is_sink: bool) -> ClusterOptions:
    """Read the options of the connection. Raises BadOption."""
    for name in settings.names():
        if name in _REFUSED:
            raise BadOption(f"{name} is not supported: {_REFUSED[name]}")
    timeout_name = "kafka.delivery.timeout.ms" if is_sink else "kafka.default.api.timeout.ms"
    timeout_ms = 120_000 if is_sink else 60_000
    servers = settings.get("kafka.bootstrap.servers")
    if not settings.names():
        raise BadOption(_NO_OPTIONS)
    if not servers or not servers.strip():
        raise BadOption("kafka.bootstrap.servers is missing: give host:port of one or more brokers")
    return ClusterOptions(
        bootstrap=tuple(_address(part.strip()) for part in servers.split(",") if part.strip()),
        client_id=settings.get("kafka.client.id") or "pyspark-barnabas",
        request_timeout_ms=settings.number("kafka.request.timeout.ms", 30_000),
        timeout_ms=settings.number(timeout_name, timeout_ms),
        timeout_name=timeout_name,
        topic_names="topic" if is_sink else "assign, subscribe",
        security=security_options(settings),
    )


_NO_OPTIONS: Final = (
    "no option is given. Spark keeps none of the OPTIONS of CREATE TABLE … USING barnabas: give "
    "them in each query, SELECT … FROM table WITH ('kafka.bootstrap.servers' = …, 'subscribe' "
    "= …), or create a view, CREATE TEMPORARY VIEW … USING barnabas OPTIONS (…)"
)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition("://")[2].rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadOption(f"kafka.bootstrap.servers holds {text!r}, expected host:port")
    return host.strip("[]"), int(port)


@dataclass(frozen=True)
class Subscription:
    """Which partitions: exactly `assigned`, all of `topics`, or of topics matching `pattern`."""

    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True)
class Place:
    """Where to start or end; `kind` says which fields count.

    everywhere    EARLIEST or LATEST for all partitions, in `everywhere`
    offsets       one for each partition, in `each`
    time          the same for all, in `everywhere`, milliseconds since 1970
    times         one for each partition, in `each`, milliseconds since 1970
    """

    kind: str
    everywhere: int = 0
    each: tuple[tuple[TopicPartition, int], ...] = ()
    latest_when_none: bool = False  # for times: if no record is that late, the end and not an error
    name: str = ""  # the option, for errors


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of a source."""

    cluster: ClusterOptions
    subscription: Subscription
    starting: Place
    ending: Place
    fail_on_data_loss: bool
    isolation: int  # 0 read_uncommitted, 1 read_committed
    partitions_min: int | None
    records_per_partition_max: int | None
    batch_bytes_max: int
    batch_headers_max: int
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_ms_max: int  # how long fewer offsets than the minimum may wait
    fetch_bytes: int
    fetch_wait_ms: int


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Read the options of a source. Raises BadOption, which names the option and the remedy."""
    settings = Settings(options)
    settings.require_known()
    cluster = cluster_options(settings, is_sink=False)
    if streaming:
        settings.refuse(
            "endingOffsets",
            "endingOffsetsByTimestamp",
            "endingTimestamp",
            reason="a stream has no end; use Trigger.AvailableNow to stop at the current one",
        )
    # As in Spark's source, a batch query ignores them.
    most = settings.integer("maxOffsetsPerTrigger", None) if streaming else None
    least = settings.integer("minOffsetsPerTrigger", None) if streaming else None
    delay_ms = settings.duration_ms("maxTriggerDelay", _TRIGGER_DELAY) if streaming else 0
    if most is not None and least is not None and least > most:
        raise BadOption(f"minOffsetsPerTrigger is {least}, above maxOffsetsPerTrigger, {most}")
    starting = _place(settings, "starting", LATEST if streaming else EARLIEST)
    ending = _place(settings, "ending", LATEST)
    if not streaming:
        _check_batch_places(starting, ending)
    level = settings.choice(
        "kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted"
    )
    return SourceOptions(
        cluster=cluster,
        subscription=_subscription(settings),
        starting=starting,
        ending=ending,
        fail_on_data_loss=settings.boolean("failOnDataLoss", default=True),
        isolation=int(level == "read_committed"),
        partitions_min=settings.integer("minPartitions", None),
        records_per_partition_max=settings.integer("maxRecordsPerPartition", None),
        batch_bytes_max=settings.number("batchBytesMax", BATCH_BYTES_MAX),
        batch_headers_max=settings.number("batchHeadersMax", BATCH_HEADERS_MAX),
        offsets_per_trigger_max=most,
        offsets_per_trigger_min=least,
        trigger_delay_ms_max=delay_ms,
        fetch_bytes=settings.number("kafka.max.partition.fetch.bytes", 4 * 1024 * 1024),
        fetch_wait_ms=settings.number("kafka.fetch.max.wait.ms", 500, 0),
    )


def include_headers(options: Mapping[str, str]) -> bool:
    """Whether the column `headers` is requested."""
    return Settings(options).boolean("includeHeaders", default=False)


def _subscription(settings: Settings) -> Subscription:
    given = [name for name in _STRATEGIES if settings.get(name) is not None]
    if len(given) != 1:
        raise BadOption(
            f"{' and '.join(given) if given else 'no topic'} given, expected exactly one of the "
            "options subscribe, subscribePattern and assign"
        )
    text = str(settings.get(given[0])).strip()
    if given[0] == "assign":
        assigned = _assigned(settings.json("assign"))
        if not assigned:
            raise BadOption('assign names no partition, expected JSON such as {"topic": [0, 1]}')
        return Subscription(assigned=assigned)
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise BadOption("subscribe names no topic, expected names separated by commas")
        return Subscription(topics=topics)
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"subscribePattern {text!r} is no regular expression: {error}") from None
    if not text:
        raise BadOption("subscribePattern is empty")
    return Subscription(pattern=text)


def _assigned(value: Any) -> tuple[TopicPartition, ...]:
    try:
        found = [(str(topic), index) for topic, indexes in value.items() for index in indexes]
    except (AttributeError, TypeError):
        found = []
    if not all(type(index) is int for _, index in found):  # not the characters of "12", nor 0.5
        found = []
    return tuple(sorted(set(found)))


def _place(settings: Settings, side: str, default: int) -> Place:
    """Read where to start or end: a common time beats times by partition, and these offsets."""
    time_name, times_name = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    offsets_name = f"{side}Offsets"
    no_later = (
        side == "ending"
        or settings.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        == "latest"
    )
    time = settings.integer(time_name, None, 0)
    if time is not None:
        return Place("time", time, latest_when_none=no_later, name=time_name)
    if settings.get(times_name) is not None:
        each = _each(settings.json(times_name), times_name, 0)
        return Place("times", each=each, latest_when_none=no_later, name=times_name)
    text = str(settings.get(offsets_name, "")).strip().lower()
    if text in ("earliest", "latest"):
        everywhere = EARLIEST if text == "earliest" else LATEST
        return Place("everywhere", everywhere, name=offsets_name)
    if not text:
        return Place("everywhere", default, name=offsets_name)
    each = _each(settings.json(offsets_name), offsets_name, EARLIEST)
    return Place("offsets", each=each, name=offsets_name)


def _each(value: Any, name: str, lowest: int) -> tuple[tuple[TopicPartition, int], ...]:
    form = f'{name} is not of the form {{"topic": {{"0": 23, "1": -2}}}}'
    try:
        found = {
            (str(topic), int(index)): number
            for topic, numbers in value.items()
            if topic != TOPIC_IDS  # allowed, so that offsets of a stream's progress can be used
            for index, number in numbers.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise BadOption(form) from None
    if not all(type(number) is int for number in found.values()):
        raise BadOption(form)
    low = {at: number for at, number in found.items() if number < lowest}
    if low:
        raise BadOption(f"{name} holds {min(low.values())}, expected at least {lowest}")
    return tuple(sorted(found.items()))


def _check_batch_places(starting: Place, ending: Place) -> None:
    if starting == Place("everywhere", LATEST, name=starting.name) or any(
        starting.kind == "offsets" and number == LATEST for _, number in starting.each
    ):
        raise BadOption("startingOffsets cannot be latest (-1) in a batch query: it reads nothing")
    if ending == Place("everywhere", EARLIEST, name=ending.name) or any(
        ending.kind == "offsets" and number == EARLIEST for _, number in ending.each
    ):
        raise BadOption("endingOffsets cannot be earliest (-2) in a batch query: it reads nothing")


@dataclass(frozen=True)
class SinkOptions:
    """The options of a sink."""

    cluster: ClusterOptions
    topic: str | None
    codec: int
    acks: int
    batch_bytes: int
    deduplicate: bool  # whether a rerun micro-batch looks for what it wrote before
    exactly_once: bool  # whether a micro-batch is written in transactions
    transaction_timeout_ms: int
    decision_topic: str


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink. Raises BadOption, which names the option and the remedy."""
    settings = Settings(options)
    settings.require_known()
    cluster = cluster_options(settings, is_sink=True)
    acks = settings.choice("kafka.acks", ("all", "-1", "0", "1"), "all")
    if acks not in ("all", "-1"):
        raise BadOption(
            f"kafka.acks is {acks}, but the sink is an idempotent producer, which needs "
            "kafka.acks=all"
        )
    if settings.boolean("kafka.partitioner.ignore.keys", default=False):
        raise BadOption("kafka.partitioner.ignore.keys is true, but equal keys share a partition")
    settings.refuse(
        "kafka.transactional.id",
        reason="each task is its own producer; exactlyOnce computes ids from the query's",
    )
    exactly_once = settings.boolean("exactlyOnce", default=False)
    if exactly_once:
        settings.refuse("deduplicate", reason="with exactlyOnce there is nothing to deduplicate")
    else:
        for name in ("kafka.transaction.timeout.ms", "decisionTopic"):
            settings.refuse(name, reason="it belongs to exactlyOnce=true, which is not given")
    return SinkOptions(
        cluster=cluster,
        topic=settings.get("topic"),
        codec=NAMES.index(settings.choice("kafka.compression.type", NAMES, "none")),
        acks=-1,
        batch_bytes=settings.number("kafka.batch.size", 256 * 1024),
        deduplicate=settings.boolean("deduplicate", default=True),
        exactly_once=exactly_once,
        transaction_timeout_ms=settings.number("kafka.transaction.timeout.ms", 900_000),
        decision_topic=settings.get("decisionTopic") or "barnabas-sink-decisions",
    )
