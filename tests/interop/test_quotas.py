"""Client quotas beside Apache Kafka 4.3: answers, throttle times, its tool, and its directory.

The same requests go to both brokers. Throttle times are compared with a bound of a tenth, and of
what a slow machine takes to send the requests. ConfigCommand does its jobs for users, clients and
addresses on ours. Kafka starts on a directory with our quotas, and Barnabas on what Kafka left.
"""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.kafka.connection import Connection
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.records import Record, build
from tests.interop.both_brokers import both_brokers
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

P, C = "producer_byte_rate", "connection_creation_rate"
ANONYMOUS = (("user", "ANONYMOUS"),)
CLIENT = "barnabas"  # of `Connection`
# All eight kinds of entities that a client may have, the first of them deciding.
KINDS: Any = (
    (("user", "ANONYMOUS"), ("client-id", CLIENT)),
    (("user", "ANONYMOUS"), ("client-id", None)),
    ANONYMOUS,
    (("user", None), ("client-id", CLIENT)),
    (("user", None), ("client-id", None)),
    (("user", None),),
    (("client-id", CLIENT),),
    (("client-id", None),),
)
ASKED: Any = [
    [(ANONYMOUS, {P: 1000.0})],
    [(ANONYMOUS, {P: 0.0})],
    [(ANONYMOUS, {P: 1.5})],
    [(ANONYMOUS, {P: 1e19})],
    [(ANONYMOUS, {"nope": 1.0})],
    [(ANONYMOUS, {"nope": None})],
    [(ANONYMOUS, {P: 5.0, "nope": 6.0})],
    [(ANONYMOUS, {"request_percentage": 0.01})],
    [(ANONYMOUS, {C: 1.0})],
    [((), {P: 1.0})],
    [((("user", ""),), {P: 1.0})],
    [((("foo", "x"),), {P: 1.0})],
    [((("user", "a"), ("ip", "1.2.3.4")), {P: 1.0})],
    [((("ip", "1.2.3.4"),), {C: 1.5})],
    [((("ip", "1.2.3.4"),), {C: 3e9})],
    [((("ip", "300.1.1.1"),), {C: 3.0})],
    [((("ip", "1.2"),), {C: 3.0})],
    [((("ip", "localhost"),), {C: 3.0}), ((("ip", None),), {C: 3.0})],
    [((("user", "z"),), {P: None})],
    [(ANONYMOUS, {P: 5.0}), (ANONYMOUS, {P: 5.0})],  # the last: docs/unsupported.md
]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Connection]]:
    with both_brokers(tmp_path_factory) as both:
        yield both


def alter(connection: Connection, changes: Any) -> list[Any]:
    entries = [
        QuotaAlteration(
            entity=[
                AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity
            ],
            ops=[
                QuotaOperation(key=key, value=value or 0.0, remove=value is None)
                for key, value in values.items()
            ],
        )
        for entity, values in changes
    ]
    request = AlterClientQuotasRequest(entries=entries)
    answer = connection.call(request, AlterClientQuotasResponse)
    return sorted(
        (
            sorted(((one.entity_type, one.entity_name or "") for one in entry.entity)),
            entry.error_code,
            entry.error_message,
        )
        for entry in answer.entries
    )


def described(connection: Connection) -> list[Any]:
    answer = connection.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    assert answer.error_code == 0
    return sorted(
        (
            sorted((one.entity_type, one.entity_name or "") for one in entry.entity),
            sorted((one.key, one.value) for one in entry.values),
        )
        for entry in answer.entries
    )


def clear(connection: Connection) -> None:
    answer = connection.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    changes = [
        (
            tuple((one.entity_type, one.entity_name) for one in entry.entity),
            {one.key: None for one in entry.values},
        )
        for entry in answer.entries
    ]
    if changes:
        alter(connection, changes)
    deadline = time.monotonic() + 10  # Kafka's broker follows its controller
    while described(connection):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def cleared(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "brokers" in request.fixturenames:
        for connection in request.getfixturevalue("brokers"):
            clear(connection)


def test_answers_and_what_is_recorded(brokers: list[Connection]) -> None:
    theirs, ours = brokers
    for changes in ASKED:
        assert alter(ours, changes) == alter(theirs, changes), changes
        if len({entity for entity, _ in changes}) == len(changes):  # twice: as documented
            assert described(ours) == described(theirs), changes


def create(connection: Connection, name: str, count: int = 1, **more: Any) -> tuple[int, int]:
    topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=9_000, **more)
    answer = connection.call(request, CreateTopicsResponse)
    return answer.topics[0].error_code, answer.throttle_time_ms


def produce(address: str, topic: str, size: int, acks: int = 1) -> tuple[int, float]:
    """Produce on a new connection; return the throttle time, and how long the next answer takes."""
    batch = build([Record(0, int(time.time() * 1000), None, random.randbytes(size))])
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    with Connection(address, 60) as connection:
        request = ProduceRequest(acks=acks, timeout_ms=9_000, topic_data=[data])
        answer = connection.call(request, ProduceResponse, version_max=9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        began = time.monotonic()
        if answer.throttle_time_ms < 3_000:
            connection.call(MetadataRequest(topics=[]), MetadataResponse)
        return answer.throttle_time_ms, time.monotonic() - began


def test_topics_that_are_created_by_asking_for_them(brokers: list[Connection]) -> None:
    """Kafka creates them later; above the quota of changes both do not."""
    found = []
    for connection in brokers:
        alter(connection, [(ANONYMOUS, {"controller_mutation_rate": 0.01})])
        time.sleep(0.5)
        told = []
        for number in range(3):
            wanted = [MetadataRequestTopic(name=f"asked-{number}")]
            with Connection(connection.address, 60) as own:
                for _ in range(2):
                    answer = own.call(MetadataRequest(topics=wanted), MetadataResponse)
                    time.sleep(0.5)
            told.append((answer.topics[0].error_code, answer.throttle_time_ms))
        found.append(told)
    assert found == [[(0, 0), (3, 0), (3, 0)]] * 2


def test_throttle_times(brokers: list[Connection]) -> None:
    found = []
    for connection in brokers:
        assert create(connection, "throttled") == (0, 0)
        time.sleep(1)  # until Kafka leads it
        alter(connection, [(ANONYMOUS, {P: 10_000.0})])
        time.sleep(0.5)
        took = [produce(connection.address, "throttled", 50_000) for _ in range(4)]
        assert took[0][0] == 0
        for throttle_ms, waited in took:
            if throttle_ms < 3_000:  # the next request of the connection waits for it
                assert throttle_ms / 1000 - 0.05 <= waited < throttle_ms / 1000 + 2
        found.append([throttle_ms for throttle_ms, _ in took])
    for theirs, ours in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=0.1, abs=150), found


def fetch(address: str, topic: str) -> tuple[int, bool]:
    """Fetch one batch on a new connection; return the throttle time, and if nothing came."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    with Connection(address, 60) as connection:
        answer = connection.call(request, FetchResponse, version_max=12)
    served = answer.responses[0].partitions if answer.responses else []
    return answer.throttle_time_ms, not any(one.records for one in served)


def test_throttle_times_of_fetches(brokers: list[Connection]) -> None:
    found = []
    for connection in brokers:
        create(connection, "fetched")
        time.sleep(1)  # until Kafka leads it
        for _ in range(4):
            assert produce(connection.address, "fetched", 40_000)[0] == 0
        alter(connection, [(ANONYMOUS, {"consumer_byte_rate": 10_000.0})])
        time.sleep(0.5)
        begun, rows = time.monotonic(), []
        for _ in range(5):
            throttle_ms, is_empty = fetch(connection.address, "fetched")
            # The time that passes on a busy machine is no longer waited for.
            passed_ms = (time.monotonic() - begun) * 1000 if throttle_ms else 0
            rows.append((throttle_ms + passed_ms, is_empty))
        found.append(rows)
    for theirs, ours in zip(*found, strict=True):
        assert ours[1] == theirs[1], found
        assert ours[0] == pytest.approx(theirs[0], rel=0.1, abs=150), found
    assert any(is_empty for _, is_empty in found[1])


def test_throttle_times_of_requests(brokers: list[Connection]) -> None:
    """A quota of next to no time: one window is the longest throttle of both."""
    found = []
    for connection in brokers:
        alter(connection, [(ANONYMOUS, {"request_percentage": 0.0001})])
        time.sleep(0.5)
        times = []
        for _ in range(3):
            with Connection(connection.address, 60) as one:
                times.append(
                    one.call(MetadataRequest(topics=[]), MetadataResponse).throttle_time_ms
                )
        found.append(times)
        alter(connection, [(ANONYMOUS, {"request_percentage": None})])
    assert max(found[0]) == max(found[1]) == 1000, found


def test_a_muted_connection_holds_up_no_other(brokers: list[Connection]) -> None:
    """While many are muted for seconds, requests of the same user on others are answered."""
    ours = brokers[1]
    create(ours, "muted")
    alter(ours, [(ANONYMOUS, {P: 100.0})])
    muted = [Connection(ours.address, 60) for _ in range(20)]
    batch = build([Record(0, int(time.time() * 1000), None, random.randbytes(20_000))])
    data = TopicProduceData(
        name="muted", partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(acks=1, timeout_ms=9_000, topic_data=[data])
    for connection in muted:
        connection.open()
        answer = connection.call(request, ProduceResponse, version_max=9)
        assert answer.responses[0].partition_responses[0].error_code == 0  # done, then throttled
    assert answer.throttle_time_ms > 5_000
    with Connection(ours.address, 4) as free:  # not muted, and in time
        for _ in range(50):
            assert free.call(MetadataRequest(topics=[]), MetadataResponse).throttle_time_ms == 0
    for connection in muted:
        connection.close()


def test_the_first_of_all_eight_kinds_decides(brokers: list[Connection]) -> None:
    """Each kind in turn has a limit that throttles much; those before it have been removed."""
    for connection in brokers:
        create(connection, "ranked")
    time.sleep(1)
    for connection in brokers:
        alter(connection, [(entity, {P: 1e9}) for entity in KINDS])
    for number, entity in enumerate(KINDS):
        throttled = []
        for connection in brokers:
            for later in KINDS[number + 1 :]:
                alter(connection, [(later, {P: 1e9})])
            alter(connection, [(entity, {P: 100.0})])
            time.sleep(0.3)
            throttled.append(produce(connection.address, "ranked", 50_000)[0] > 10_000)
            alter(connection, [(entity, {P: None})])
        assert throttled == [True, True], entity
        if number + 1 < len(KINDS):
            for connection in brokers:
                time.sleep(0.3)
                assert produce(connection.address, "ranked", 10)[0] == 0


def test_changes_to_topics(brokers: list[Connection]) -> None:
    found = []
    for connection in brokers:
        alter(connection, [(ANONYMOUS, {"controller_mutation_rate": 1.0})])
        time.sleep(0.5)
        rows = []
        for number, count in enumerate((15, 3, 1)):
            with Connection(connection.address, 60) as one:
                rows.append(create(one, f"changed-{number}", count))
        found.append(rows)
        alter(connection, [(ANONYMOUS, {"controller_mutation_rate": None})])
    assert [[code for code, _ in rows] for rows in found] == [[0, 89, 89]] * 2
    for theirs, ours in zip(*found, strict=True):
        assert ours[1] == pytest.approx(theirs[1], rel=0.1, abs=400)


def command(address: str, *arguments: str) -> str:
    done = kafka.tool("kafka.admin.ConfigCommand", "--bootstrap-server", address, *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("entity", "change", "key"),
    [
        (["--entity-type", "users", "--entity-name", "alice"], f"{P}=1024", P),
        (["--entity-type", "users", "--entity-default"], "request_percentage=12.5", "request_per"),
        (["--entity-type", "clients", "--entity-name", "app"], "consumer_byte_rate=7", "consumer_"),
        (
            ["--entity-type", "users", "--entity-name", "a b", "--entity-type", "clients",
             "--entity-default"],
            f"{P}=5", P,
        ),
        (["--entity-type", "ips", "--entity-name", "10.0.0.1"], f"{C}=5", C),
    ],
)  # fmt: skip
def test_config_command(
    brokers: list[Connection], entity: list[str], change: str, key: str
) -> None:
    ours = brokers[1]
    command(ours.address, "--alter", *entity, "--add-config", change)
    shown = command(ours.address, "--describe", *entity)
    assert key in shown
    name = change.partition("=")[0]
    command(ours.address, "--alter", *entity, "--delete-config", name)
    assert described(ours) == []


def test_quotas_move_with_the_directory(tmp_path: Path) -> None:
    libs()
    settings = {"metadata.log.max.record.bytes.between.snapshots": "500"}
    limits: Any = [(entity, {P: 10_000.0 + number}) for number, entity in enumerate(KINDS)]
    with BrokerProcess(tmp_path / "ours", settings) as ours, Connection(ours.address, 20) as asked:
        alter(asked, [*limits, ((("ip", "10.0.0.1"),), {C: 5.0})])
        alter(asked, [(KINDS[0], {P: None, "request_percentage": 200.0})])
        expected = described(asked)
        ours.kill()  # what is answered survives it
    theirs = KafkaNode(tmp_path / "theirs")
    shutil.copytree(tmp_path / "ours", theirs.data)
    theirs.start()
    try:
        with Connection(theirs.address, 20) as asked:
            assert described(asked) == expected
            alter(asked, [((("user", "later"),), {P: 77.0})])
            expected = described(asked)
        theirs.stop()
    finally:
        if theirs.running:
            theirs.kill()
    with BrokerProcess(theirs.data, settings) as ours, Connection(ours.address, 20) as asked:
        assert described(asked) == expected
