"""Kafka's own tools work here, and print the same as against Apache Kafka 4.3.

A node of Kafka and a broker of ours go through the same list of steps, each a tool of Kafka's jars
with its arguments, or records written by bytes that are equal. What a tool prints, on both its
outputs, and its exit code are compared line by line, after ports, topic ids, directories and
measurements have been replaced by their names. Lines that are on one side only must stand in
`DIFFERENCES` with a reason, and an entry that no step needs is an error.

A step takes about two seconds, nearly all of it the start of two JVMs; they run one after the
other, for the tools change the state that the next step sees.
"""

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from client.kafka.connection import Connection
from protocol.records import Record, build
from tests.interop.group_requests import MODERN_ID, NEW, State, enter, modern
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import CLUSTER_ID, KafkaNode
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.interop

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DIRS = f"{TOOLS}.LogDirsCommand"
OFFSETS = f"{TOOLS}.GetOffsetShell"
DELETE_RECORDS = f"{TOOLS}.DeleteRecordsCommand"
CLUSTER = f"{TOOLS}.ClusterTool"
QUORUM = f"{TOOLS}.MetadataQuorumCommand"
VERSIONS = f"{TOOLS}.BrokerApiVersionsCommand"
FEATURES = f"{TOOLS}.FeatureCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
ALL_GROUPS = f"{TOOLS}.GroupsCommand"
ELECTION = f"{TOOLS}.LeaderElectionCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
RESETTER = f"{TOOLS}.StreamsResetter"

TIMESTAMP_MS = 1_700_000_000_000
SETTINGS = {"num.partitions": "3", "offsets.topic.num.partitions": "2"}


class Step(NamedTuple):
    """One run of a tool; `file` is written first, and its path put in for {file}."""

    name: str
    tool: str
    arguments: str
    file: object = None


class Difference(NamedTuple):
    """Lines that one side alone is meant to print: patterns of whole lines, and why."""

    step: str  # pattern of steps' names
    kafkas: str | None
    ours: str | None
    reason: str


PRODUCE = "produce"
JOIN = "join"
RESET = "--reset-offsets --group g --topic a"
TOPIC_A = "--entity-type topics --entity-name a"
BROKER_1 = "--entity-type brokers --entity-name 1"
ALL_BROKERS = "--entity-type brokers --entity-default"
GROUP_G = "--entity-type groups --entity-name g"
MOVE = {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1]}]}
MOVE_AWAY = {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [2]}]}

STEPS = (
    Step("topics: none", TOPICS, "--list"),
    Step("create", TOPICS, "--create --topic a --partitions 2 --replication-factor 1"),
    Step(
        "create with configs",
        TOPICS,
        "--create --topic b.c --partitions 1 --config retention.ms=3600000 "
        "--config segment.bytes=1048576 --config cleanup.policy=delete",
    ),
    Step("create with the broker's defaults", TOPICS, "--create --topic d"),
    Step("create by assignment", TOPICS, "--create --topic e --replica-assignment 1,1"),
    Step("create again", TOPICS, "--create --topic a --partitions 2"),
    Step("create if there is none", TOPICS, "--create --topic a --if-not-exists"),
    Step("create with three replicas", TOPICS, "--create --topic f --replication-factor 3"),
    Step("create an illegal name", TOPICS, "--create --topic a/b"),
    Step("create a colliding name", TOPICS, "--create --topic b_c"),
    Step("create with an unknown key", TOPICS, "--create --topic f --config no.such.key=1"),
    Step("create with a wrong value", TOPICS, "--create --topic f --config retention.ms=soon"),
    Step("topics: list", TOPICS, "--list"),
    Step("topics: describe all", TOPICS, "--describe"),
    Step("topics: describe one", TOPICS, "--describe --topic b.c"),
    Step("topics: describe none", TOPICS, "--describe --topic nope"),
    Step("topics: with overrides", TOPICS, "--describe --topics-with-overrides"),
    Step("topics: under-replicated", TOPICS, "--describe --under-replicated-partitions"),
    Step("topics: at min ISR", TOPICS, "--describe --at-min-isr-partitions"),
    Step("topics: unavailable", TOPICS, "--describe --unavailable-partitions"),
    Step("alter: more partitions", TOPICS, "--alter --topic a --partitions 3"),
    Step("alter: fewer partitions", TOPICS, "--alter --topic a --partitions 1"),
    Step("alter: no such topic", TOPICS, "--alter --topic nope --partitions 2"),
    Step("topics: describe after", TOPICS, "--describe --topic a"),
    Step(PRODUCE, PRODUCE, ""),
    Step("offsets: latest", OFFSETS, ""),
    Step("offsets: earliest", OFFSETS, "--topic a --time earliest"),
    Step("offsets: by time", OFFSETS, f"--topic a --time {TIMESTAMP_MS + 1}"),
    Step("offsets: max timestamp", OFFSETS, "--topic a --time max-timestamp"),
    Step("offsets: some partitions", OFFSETS, "--topic-partitions a:0,b.c:0-2"),
    Step("offsets: no such topic", OFFSETS, "--topic nope"),
    Step(
        "delete records",
        DELETE_RECORDS,
        "--offset-json-file {file}",
        {
            "version": 1,
            "partitions": [
                {"topic": "a", "partition": 0, "offset": 2},
                {"topic": "b.c", "partition": 0, "offset": -1},
            ],
        },
    ),
    Step(
        "delete records beyond the end",
        DELETE_RECORDS,
        "--offset-json-file {file}",
        {"version": 1, "partitions": [{"topic": "a", "partition": 1, "offset": 99}]},
    ),
    Step("offsets: earliest after", OFFSETS, "--time earliest"),
    Step("directories", DIRS, "--describe"),
    Step("directories: a topic", DIRS, "--describe --broker-list 1 --topic-list a"),
    Step("directories: no such broker", DIRS, "--describe --broker-list 7"),
    Step("configs: set", CONFIGS, f"--alter {TOPIC_A} --add-config retention.ms=7200000"),
    Step("configs: unknown key", CONFIGS, f"--alter {TOPIC_A} --add-config no.such.key=1"),
    Step("configs: wrong value", CONFIGS, f"--alter {TOPIC_A} --add-config retention.ms=soon"),
    Step("configs: describe", CONFIGS, f"--describe {TOPIC_A}"),
    Step("configs: describe all keys", CONFIGS, f"--describe --all {TOPIC_A}"),
    Step("configs: unset", CONFIGS, f"--alter {TOPIC_A} --delete-config retention.ms"),
    Step("configs: unset the unset", CONFIGS, f"--alter {TOPIC_A} --delete-config retention.ms"),
    Step("configs: topics", CONFIGS, "--describe --entity-type topics"),
    Step(
        "configs: set for all brokers",
        CONFIGS,
        f"--alter {ALL_BROKERS} --add-config log.retention.ms=86400000",
    ),
    Step(
        "configs: set for a broker",
        CONFIGS,
        f"--alter {BROKER_1} --add-config log.retention.bytes=123456789",
    ),
    Step("configs: read-only", CONFIGS, f"--alter {BROKER_1} --add-config num.partitions=x"),
    Step("configs: describe all brokers", CONFIGS, f"--describe {ALL_BROKERS}"),
    Step("configs: describe a broker", CONFIGS, f"--describe {BROKER_1}"),
    Step(
        "configs: unset for a broker",
        CONFIGS,
        f"--alter {BROKER_1} --delete-config log.retention.bytes",
    ),
    Step("cluster id", CLUSTER, "cluster-id"),
    Step("cluster: endpoints", CLUSTER, "list-endpoints"),
    Step("cluster: unregister", CLUSTER, "unregister --id 7"),
    Step("quorum: status", QUORUM, "describe --status"),
    Step("quorum: replication", QUORUM, "describe --replication"),
    Step("api versions", VERSIONS, ""),
    Step("features", FEATURES, "describe"),
    Step("features: too high", FEATURES, "upgrade --feature metadata.version=31"),
    Step("groups: none", GROUPS, "--list"),
    Step("groups: reset, dry", GROUPS, f"{RESET} --to-earliest --dry-run"),
    Step("groups: reset", GROUPS, f"{RESET} --to-earliest --execute"),
    Step("groups: list", GROUPS, "--list --state --type"),
    Step("groups: list by state", GROUPS, "--list --state stable"),
    Step("groups: describe", GROUPS, "--describe --group g"),
    Step("groups: state", GROUPS, "--describe --group g --state --verbose"),
    Step("groups: describe none", GROUPS, "--describe --group nope"),
    Step("groups: reset to the end", GROUPS, f"{RESET} --to-latest --execute"),
    Step("groups: reset by shifting", GROUPS, f"{RESET} --shift-by -1 --execute"),
    Step("groups: reset too far", GROUPS, f"{RESET}:0 --to-offset 99 --execute"),
    Step("groups: reset to a time", GROUPS, f"{RESET} --to-datetime 2023-11-14T22:13:20.001"),
    Step("groups: reset to the current", GROUPS, f"{RESET} --to-current"),
    Step("groups: reset by duration", GROUPS, f"{RESET} --by-duration P1D --dry-run"),
    Step("groups: forget a partition", GROUPS, "--delete-offsets --group g --topic a:0"),
    Step("groups: forget no topic", GROUPS, "--delete-offsets --group g --topic nope"),
    Step("groups: forget in no group", GROUPS, "--delete-offsets --group nope --topic a"),
    Step(JOIN, JOIN, ""),
    Step("groups: members", GROUPS, "--describe --all-groups --members --verbose"),
    Step("groups: describe with a member", GROUPS, "--describe --group classic"),
    Step("groups: describe with a consumer", GROUPS, "--describe --group modern"),
    Step("groups: states", GROUPS, "--describe --all-groups --state"),
    Step("groups: reset with a member", GROUPS, f"{RESET} --to-latest --execute --group classic"),
    Step("groups: delete with a member", GROUPS, "--delete --group classic"),
    Step("groups: of all kinds", ALL_GROUPS, "--list"),
    Step("groups: delete", GROUPS, "--delete --group g --group nope"),
    Step("groups: list at the end", GROUPS, "--list"),
    Step("election", ELECTION, "--election-type preferred --all-topic-partitions"),
    Step("election of none", ELECTION, "--election-type unclean --topic nope --partition 0"),
    Step(
        "reassign: propose",
        REASSIGN,
        "--generate --topics-to-move-json-file {file} --broker-list 1",
        {"version": 1, "topics": [{"topic": "a"}]},
    ),
    Step(
        "reassign with a throttle",
        REASSIGN,
        "--execute --throttle 1000 --reassignment-json-file {file}",
        MOVE,
    ),
    Step("reassign: throttle of a broker", CONFIGS, f"--describe {BROKER_1}"),
    Step("reassign: throttle of a topic", CONFIGS, f"--describe {TOPIC_A}"),
    Step("reassign: verify", REASSIGN, "--verify --reassignment-json-file {file}", MOVE),
    Step("reassign: no throttle is left", CONFIGS, f"--describe {BROKER_1}"),
    Step("reassign away", REASSIGN, "--execute --reassignment-json-file {file}", MOVE_AWAY),
    Step("reassign: list", REASSIGN, "--list"),
    Step("streams: reset, dry", RESETTER, "--application-id app --input-topics a --dry-run"),
    Step("streams: reset", RESETTER, "--application-id app --input-topics a --shift-by 1"),
    Step("streams: reset of no topic", RESETTER, "--application-id app --input-topics nope"),
    Step(
        "configs: set for a group",
        CONFIGS,
        f"--alter {GROUP_G} --add-config consumer.session.timeout.ms=50000",
    ),
    Step(
        "configs: too short for a group",
        CONFIGS,
        f"--alter {GROUP_G} --add-config consumer.session.timeout.ms=1",
    ),
    Step("configs: describe all of a group", CONFIGS, f"--describe --all {GROUP_G}"),
    Step("features: lower", FEATURES, "downgrade --feature transaction.version=1"),
    Step("features: raise", FEATURES, "upgrade --feature transaction.version=2"),
    Step("delete", TOPICS, "--delete --topic b.c"),
    Step("delete what is not there", TOPICS, "--delete --topic b.c"),
    Step("delete if it is there", TOPICS, "--delete --topic b.c --if-exists"),
    Step("topics: list at the end", TOPICS, "--list"),
)

# APIs that are not served, by reason; docs/unsupported.md says what clients see instead.
UNSERVED = {
    "share and streams groups are not served": (
        "ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge "
        "DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets "
        "StreamsGroupHeartbeat StreamsGroupDescribe"
    ),
    "there are no delegation tokens": (
        "CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken"
    ),
    "there is one log directory": "AlterReplicaLogDirs",
    "Kafka's brokers use it among themselves": (
        "AddRaftVoter RemoveRaftVoter InitializeShareGroupState ReadShareGroupState "
        "WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary"
    ),
}

DIFFERENCES = (
    Difference(
        "create with three replicas",
        r".*Unable to replicate the partition 3 time\(s\).* directories cordoned\.",
        r".*Unable to replicate the partition 3 time\(s\).*barnabas\.replication\.factor\.clamp=.*",
        "ours says what to do; nothing is ever cordoned here",
    ),
    Difference(
        "configs: wrong value",
        r".*Invalid value soon for configuration retention\.ms: Not a number of type LONG",
        r".*Invalid value soon for configuration retention\.ms: not a whole number of 64 bits .*",
        "ours says which values are allowed",
    ),
    Difference(
        "configs: describe all keys",
        None,
        r"  write\.caching=false sensitive=false synonyms=\{DEFAULT_CONFIG:write\.caching=false\}",
        "a key of ours",
    ),
    Difference(
        "quorum: status",
        r'CurrentVoters: +\[\{"id": 1, "endpoints": \["CONTROLLER://127\.0\.0\.1:\d+"\]\}\]',
        r'CurrentVoters: +\[\{"id": 1, "endpoints": \["PLAINTEXT://ADDRESS"\]\}\]',
        "there is no listener for controllers alone",
    ),
    *(
        Difference(
            "features",
            rf"Feature: {feature}\.version .*",
            None,
            "a feature is named when all the APIs that it promises are served",
        )
        for feature in ("kraft", "share", "streams")
    ),
    *(
        Difference(
            "api versions", rf"\t{name}\(\d+\): \d.*", rf"\t{name}\(\d+\): UNSUPPORTED,?", reason
        )
        for reason, names in UNSERVED.items()
        for name in names.split()
    ),
    *(
        Difference(
            "api versions",
            rf"\t{name}\(\d+\): UNSUPPORTED,",
            rf"\t{name}\(\d+\): 0 \[usable: 0\],",
            "Kafka takes clients' metrics only with a reporter's plugin; here no plugin is needed",
        )
        for name in ("GetTelemetrySubscriptions", "PushTelemetry")
    ),
)

# What differs from run to run on either side, and its replacement.
NAMES = (
    (re.compile(r"(?<=TopicId: )[\w-]{22}"), "ID"),
    (re.compile(r"(?<=topic with id )[\w-]{22}"), "ID"),
    (re.compile(r"\bbarnabas-[\w-]{36}"), "MEMBER"),
    (re.compile(r'(?<="logDir":")[^"]+'), "DIR"),
    (re.compile(r'(?<="totalBytes":)\d+|(?<="usableBytes":)\d+'), "BYTES"),
    (re.compile(r"(?<=HighWatermark:)\s+\d+|(?<=\sEpoch: )\d+"), " OFFSET"),
    (
        re.compile(r"(?<=\tAAAAAAAAAAAAAAAAAAAAAA\t)\d+\s+(\d+)\s+\d+\s+\d+\s+"),
        r"OFFSET \1 TIME TIME ",
    ),
)


class Sides:
    """Both brokers, and the output of the tools against each."""

    def __init__(self, node: KafkaNode, broker: BrokerProcess, place: Path) -> None:
        self.addresses = {"kafkas": node.address, "ours": broker.address}
        self._data = {"kafkas": node.data, "ours": broker.data}
        self._place = place

    def run(self, step: Step, side: str) -> list[str]:
        """Run a step against one of them; return the printed lines and the exit code."""
        address = self.addresses[side]
        file = self._place / "arguments.json"
        if step.file is not None:
            file.write_text(json.dumps(step.file))
        arguments = step.arguments.format(file=file).split()
        done = kafka.tool(step.tool, *with_address(step.tool, arguments, address))
        text = done.stdout.decode() + done.stderr.decode()
        assert "not a recognized option" not in text, f"{step.name}: {text}"
        assert "usage: " not in text, f"{step.name}: {text}"
        lines = list(self._named(text, side))
        if step.tool == DELETE_RECORDS:
            lines.sort()  # it queries all partitions at once and prints the answers as they arrive
        return [*lines, f"exit code {done.returncode}"]

    def _named(self, text: str, side: str) -> Iterator[str]:
        text = text.replace(self.addresses[side], "ADDRESS").replace(str(self._data[side]), "DIR")
        text = text.replace(self.addresses[side].split(":")[1], "PORT")
        for pattern, name in NAMES:
            text = pattern.sub(name, text)
        return (in_order(line.rstrip()) for line in text.splitlines())


def with_address(tool: str, arguments: list[str], address: str) -> list[str]:
    """Return the arguments with the broker's address, where the tool expects it."""
    if tool == CLUSTER:
        return [*arguments, "--bootstrap-server", address]
    return ["--bootstrap-server", address, *arguments]


def in_order(line: str) -> str:
    """Return the line with lists sorted that Kafka's brokers and tools keep in hash maps."""
    if line.startswith('{"brokers":'):
        told = json.loads(line.replace(":BYTES", ":0"))
        for directory in (one for broker in told["brokers"] for one in broker["logDirs"]):
            directory["partitions"].sort(key=lambda partition: partition["partition"])
        return json.dumps(told)
    head, mark, configs = line.partition("\tConfigs: ")
    return head + mark + ",".join(sorted(configs.split(",")))


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    kafka.libs()
    place = tmp_path_factory.mktemp("tools")
    node = KafkaNode(place / "kafka", settings=SETTINGS)
    broker = BrokerProcess(place / "ours", {**SETTINGS, "barnabas.cluster.id": CLUSTER_ID})
    try:
        node.start()
        broker.start()
        yield Sides(node, broker, place)
    finally:
        node.kill()
        if broker.running:
            broker.kill()


def produce(address: str) -> None:
    """Three batches of one record and one of four, the same bytes on both sides."""
    host, port = address.split(":")
    with RawClient(host, int(port)) as client:
        for topic, partition, counts in (("a", 0, (1, 1, 1)), ("b.c", 0, (4,))):
            for number, count in enumerate(counts):
                records = [
                    Record(place, TIMESTAMP_MS + number, None, b"v" * 100) for place in range(count)
                ]
                produced = client.produce(topic, bytes(build(records)), partition)
                assert produced.error == 0, produced


def join(address: str) -> None:
    """A member of a classic group and one of a consumer group, both with all of topic a."""
    with Connection(address, 10) as connection:
        state = State(connection, {})
        enter(state, "classic", topic="a", partitions=(0, 1, 2))
        code, words = modern("modern", MODERN_ID, 0, **{**NEW, "subscribed_topic_names": ["a"]})(
            state
        )
        assert code == 0, words


OURSELVES = {PRODUCE: produce, JOIN: join}

Used = set[tuple[Difference, str]]


def unmatched(step: Step, kafkas: list[str], ours: list[str], used: Used) -> list[str]:
    """Return lines of one side only that no allowed difference covers, as a diff prints them."""
    left = []
    for line in difflib.ndiff(kafkas, ours):
        side = {"- ": "kafkas", "+ ": "ours"}.get(line[:2])
        if side is None:
            continue
        allowing = [
            one
            for one in DIFFERENCES
            if re.fullmatch(one.step, step.name)
            and (pattern := getattr(one, side)) is not None
            and re.fullmatch(pattern, line[2:])
        ]
        used.update((one, side) for one in allowing)
        if not allowing:
            left.append(line)
    return left


def test_each_tool_prints_the_same(sides: Sides) -> None:
    used: Used = set()
    wrong = {}
    for step in STEPS:
        if step.tool in OURSELVES:
            for address in sides.addresses.values():
                OURSELVES[step.tool](address)
            continue
        kafkas, ours = (sides.run(step, side) for side in ("kafkas", "ours"))
        if left := unmatched(step, kafkas, ours, used):
            wrong[step.name] = left
    report = "\n".join(f"{name}:\n  " + "\n  ".join(lines) for name, lines in wrong.items())
    assert not wrong, f"- Kafka's lines, + ours:\n{report}"
    meant = {
        (one, side) for one in DIFFERENCES for side in ("kafkas", "ours") if getattr(one, side)
    }
    assert meant - used == set(), "differences that are none"
