"""ACLs beside Apache Kafka 4.3: the same answers, the same tool, and each other's directories.

One table of requests goes to a node of Kafka and to a broker of ours, both with an authorizer, on
the same state. `AclCommand` then does each of its jobs on both, and prints the same. A directory
with our ACLs, snapshots included, is given to Kafka, which adds and removes some, and back.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from client.cli import main
from client.kafka import acl_requests
from client.kafka.acl_requests import AclCodes
from client.kafka.connection import BrokerError, Connection
from config.authorizer_keys import STANDARD_AUTHORIZER
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.interop.both_brokers import both_brokers
from tests.interop.java_process import compiled
from tests.interop.oracle import kafka
from tests.interop.oracle.kafka import KafkaNode
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.interop

SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "500",
    "metadata.max.retention.bytes": "1",
    "barnabas.recovery.point.interval.ms": "100",
}
TOOL = "org.apache.kafka.tools.AclCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CLUSTER = {"resource_type": 4, "resource_name": "kafka-cluster"}
PATIENCE_S = 30

GOOD: list[dict[str, Any]] = [
    {},
    {},  # again
    {"resource_name": "*"},
    {"resource_name": "or", "resource_pattern_type": 4},
    {"resource_name": "*", "resource_pattern_type": 4},
    {"resource_name": "a b/c"},
    {"principal": "User:"},
    {"principal": "Group:staff"},
    {"principal": ":a"},
    {"principal": "User:CN=ü,O=Acme"},
    {"host": ""},
    {"host": "10.0.0.0/8"},
    {"host": "localhost"},
    {"operation": 2},
    {"operation": 9},
    {"permission_type": 2},
    {"resource_type": 3},
    {"resource_type": 5, "operation": 15},
    {"resource_type": 7, "operation": 13},
    CLUSTER,
    {**CLUSTER, "resource_pattern_type": 4},
]
BAD: list[dict[str, Any]] = [
    {"resource_name": ""},
    {"resource_type": 4},
    {"resource_type": 4, "resource_name": ""},
    {"resource_type": 99},
    {"resource_type": 99, "resource_name": ""},
    {"resource_type": 99, "principal": "x"},
    {"resource_pattern_type": 99},
    {"resource_pattern_type": 99, "operation": 99},
    {"operation": 99},
    {"operation": -1},
    {"operation": 99, "permission_type": 99},
    {"permission_type": 99},
    {"permission_type": 99, "principal": "x"},
    {"principal": "alice"},
    {"principal": ""},
]
FOR_FILTERS: list[dict[str, Any]] = [
    {"resource_type": 1},
    {"resource_pattern_type": 1},
    {"resource_pattern_type": 2},
    {"operation": 1},
    {"permission_type": 1},
]
UNKNOWN: list[dict[str, Any]] = [
    {"resource_type": 0},
    {"resource_pattern_type": 0},
    {"operation": 0},
    {"permission_type": 0},
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"resource_name_filter": "orders"},
    {"resource_name_filter": "orders", "pattern_type_filter": 2},
    {"resource_name_filter": "orders", "pattern_type_filter": 3},
    {"resource_name_filter": "or", "pattern_type_filter": 4},
    {"resource_name_filter": "or", "pattern_type_filter": 2},
    {"resource_name_filter": "*", "pattern_type_filter": 2},
    {"resource_name_filter": "*"},
    {"resource_name_filter": ""},
    {"pattern_type_filter": 2},
    {"pattern_type_filter": 4},
    {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 2},
    {"resource_type_filter": 3},
    {"principal_filter": "User:"},
    {"principal_filter": "User:*"},
    {"principal_filter": ""},
    {"host_filter": ""},
    {"host_filter": "*"},
    {"operation": 2},
    {"operation": 3},
    {"permission_type": 2},
]
UNKNOWN_FILTERS: list[dict[str, Any]] = [
    {"resource_type_filter": 99},
    {"pattern_type_filter": 99},
    {"operation": 99},
    {"permission_type": 99},
    {"operation": 99, "resource_type_filter": 99},
]


def rule(changed: dict[str, Any]) -> AclCreation:
    return AclCreation(
        **{
            "resource_type": 2, "resource_name": "orders", "resource_pattern_type": 3,
            "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3, **changed,
        }
    )  # fmt: skip


def wanted(changed: dict[str, Any]) -> dict[str, Any]:
    return {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
        "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
        **changed,
    }  # fmt: skip


def created(connection: Connection, *rules: dict[str, Any]) -> list[tuple[int, str | None]]:
    request = CreateAclsRequest(creations=[rule(one) for one in rules])
    answer = connection.call(request, CreateAclsResponse)
    return [(one.error_code, one.error_message) for one in answer.results]


def described(connection: Connection, changed: dict[str, Any]) -> Any:
    answer = connection.call(DescribeAclsRequest(**wanted(changed)), DescribeAclsResponse)
    return (
        answer.error_code,
        answer.error_message,
        sorted(
            (
                *(of.resource_type, of.resource_name, of.pattern_type),
                *(one.principal, one.host, one.operation, one.permission_type),
            )
            for of in answer.resources
            for one in of.acls
        ),
    )


def deleted(connection: Connection, *filters: dict[str, Any]) -> Any:
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**wanted(one)) for one in filters])
    answer = connection.call(request, DeleteAclsResponse)
    return [
        (
            result.error_code,
            result.error_message,
            sorted(
                (
                    *(one.error_code, one.error_message or ""),
                    *(one.resource_type, one.resource_name, one.pattern_type),
                    *(one.principal, one.host, one.operation, one.permission_type),
                )
                for one in result.matching_acls
            ),
        )
        for result in answer.filter_results
    ]


def settled(connection: Connection, count: int) -> None:
    """Wait until a broker shows `count` ACLs: Kafka follows its controller a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while len(acl_requests.describe(connection, AclCodes())) != count:
        assert time.monotonic() < deadline, acl_requests.describe(connection, AclCodes())
        time.sleep(0.05)


def test_requests_have_kafkas_answers(tmp_path_factory: pytest.TempPathFactory) -> None:
    with both_brokers(tmp_path_factory, SETTINGS) as (kafkas, ours):
        for one in BAD:
            assert created(ours, one) == created(kafkas, one), one
        for one in FOR_FILTERS:
            assert created(kafkas, one) == [(-1, None)]
            ((code, text),) = created(ours, one)
            assert (code, bool(text)) == (42, True), one
        answers = [created(connection, *GOOD) for connection in (kafkas, ours)]
        assert answers[0] == answers[1] == [(0, "")] * len(GOOD)
        settled(ours, len(GOOD) - 1)  # at once, but it costs nothing to ask
        settled(kafkas, len(GOOD) - 1)
        for one in [*FILTERS, *UNKNOWN_FILTERS]:
            assert described(ours, one) == described(kafkas, one), one
        several = [{"principal_filter": "nobody"}, *UNKNOWN_FILTERS, {"operation": 9}, {}]
        assert deleted(ours, *several) == deleted(kafkas, *several)
        settled(ours, 0)
        settled(kafkas, 0)
        for connection in (kafkas, ours):
            created(connection, *GOOD)
            settled(connection, len(GOOD) - 1)
        for one in reversed(FILTERS):
            assert deleted(ours, one) == deleted(kafkas, one), one
            settled(kafkas, len(acl_requests.describe(ours, AclCodes())))
        too_many = [{"resource_name": f"t{number}"} for number in range(10_001)]
        assert created(ours, *too_many) == created(kafkas, *too_many)


@pytest.mark.parametrize("changed", UNKNOWN)
def test_code_zero_closes_the_connection(
    tmp_path_factory: pytest.TempPathFactory, changed: dict[str, Any]
) -> None:
    broker = BrokerProcess(tmp_path_factory.mktemp("ours") / "data", SETTINGS)
    with broker, Connection(broker.address, PATIENCE_S) as connection, pytest.raises(BrokerError):
        created(connection, {}, changed)  # as Kafka, tried with the table above


STEPS = (
    "--list",
    "--add --allow-principal User:bob --operation Read --topic orders",
    "--add --allow-principal User:bob --operation Read --topic orders",
    "--add --allow-principal User:bob --allow-principal User:eve --operation Write --topic orders",
    "--add --allow-principal User:eve --operation Write --operation Describe --topic bills",
    "--add --deny-principal User:eve --deny-host 10.0.0.1 --operation All --topic *",
    "--add --allow-principal User:* --allow-host 10.0.0.1 --operation Read --group g",
    "--add --allow-principal User:bob --producer --topic pre --resource-pattern-type prefixed",
    "--add --allow-principal User:bob --producer --idempotent --transactional-id tx --topic p",
    "--add --allow-principal User:bob --consumer --topic c --group g",
    "--add --allow-principal User:bob --operation Alter --cluster",
    "--add --allow-principal User:bob --operation CreateTokens --user-principal User:x",
    "--add --allow-principal bob --operation Read --topic orders",
    "--list",
    "--list --topic orders",
    "--list --topic pre1 --resource-pattern-type match",
    "--list --topic pre --resource-pattern-type any",
    "--list --group g",
    "--list --cluster",
    "--list --principal User:bob --topic orders",
    "--list --principal User:eve",
    "--remove --force --allow-principal User:eve --operation Write --topic orders",
    "--remove --force --allow-principal User:bob --consumer --topic c --group g",
    "--remove --force --topic bills",
    "--remove --force --topic pre --resource-pattern-type prefixed",
    "--remove --force --cluster",
    "--remove --force --topic never",
    "--list",
)


def outputs(command: list[str], address: str) -> list[list[str]]:
    """Return what each step prints, without what depends on the broker and on chance."""
    lines = "".join(f"--bootstrap-server {address} {step}\n" for step in STEPS)
    done = subprocess.run(
        [*command, TOOL], input=lines.encode(), capture_output=True, timeout=600, check=False
    )
    found: list[list[str]] = [[]]
    for line in done.stdout.decode().splitlines():
        if line.startswith("exit code"):
            found[-1] = [*sorted(found[-1]), line]
            found.append([])
        elif not line.lstrip().startswith("at "):  # of a trace
            found[-1].append(line.strip())
    assert found.pop() == [], done.stderr.decode()
    return found


def test_kafkas_tool_does_each_of_its_jobs(tmp_path: Path) -> None:
    kafka.libs()
    command = compiled("Tool", tmp_path)
    node = KafkaNode(tmp_path / "kafka", settings=SETTINGS)
    node.start()
    try:
        kafkas = outputs(command, node.address)
    finally:
        node.stop()
    with BrokerProcess(tmp_path / "ours", SETTINGS) as broker:
        ours = outputs(command, broker.address)
    for step, expected, found in zip(STEPS, kafkas, ours, strict=True):
        assert found == expected, step
    assert sum(one[-1] == "exit code 0" for one in ours) == len(STEPS) - 1  # one has no User:
    assert any("principal=User:bob" in line for line in ours[-1])


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    kafka.libs()
    (tmp_path / "kafka").mkdir()
    yield tmp_path / "kafka" / "data"
    shutil.rmtree(tmp_path / "kafka" / "data")


def acls_of(broker: Any) -> list[AclCodes]:
    with Connection(broker.address, PATIENCE_S) as connection:
        return acl_requests.describe(connection, AclCodes())


def change(broker: Any, *, add: str, remove: str | None = None) -> None:
    with Connection(broker.address, PATIENCE_S) as connection:
        assert created(connection, {"resource_name": add}) == [(0, "")]
        if remove is not None:
            ((code, _, gone),) = deleted(connection, {"resource_name_filter": remove})
            assert (code, len(gone)) == (0, 1)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_each_starts_on_the_others_directory(data: Path, ending: str) -> None:
    with BrokerProcess(data, {**SETTINGS, **SNAPSHOTS}) as ours:
        for number in range(20):
            change(ours, add=f"t{number}", remove=f"t{number - 1}" if number % 3 == 2 else None)
            if number % 5 == 4:
                time.sleep(1.1)  # snapshots are written once a second
        left = acls_of(ours)
        getattr(ours, ending)()
    logs = data / "__cluster_metadata-0"
    snapshots = sorted(logs.glob("*.checkpoint"))
    assert snapshots, "no snapshot was written"
    done = kafka.tool(DUMP, "--cluster-metadata-decoder", "--files", ",".join(map(str, snapshots)))
    assert b"ACCESS_CONTROL_ENTRY_RECORD" in done.stdout, done.stdout
    node = KafkaNode(data.parent, settings=SETTINGS)
    node.start()
    try:
        with Connection(node.address, PATIENCE_S) as connection:
            settled(connection, len(left))
        assert acls_of(node) == left
        change(node, add="kafkas", remove="t0")
    finally:
        getattr(node, ending)()
    expected = sorted(
        {*left, left[0]._replace(name="kafkas")} - {one for one in left if one.name == "t0"}
    )
    with BrokerProcess(data, SETTINGS) as again:
        assert acls_of(again) == expected
        change(again, add="t0", remove="kafkas")
        assert acls_of(again) == left


def test_what_is_changed_survives_a_kill(tmp_path: Path) -> None:
    """No answer of a change is lost: each is read back by a broker that was killed just then."""
    data = tmp_path / "data"
    for number in range(5):
        with BrokerProcess(data, SETTINGS) as broker:
            assert len(acls_of(broker)) == min(number, 2)
            change(broker, add=f"t{number}", remove=f"t{number - 2}" if number >= 2 else None)
            broker.kill()


def test_our_command_works_on_both(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`barnabas acls` prints the same; only what Kafka hides is missing from its explanation."""
    lines = (
        "allow alice read,write topic orders.* --host 10.0.0.1",
        "allow bob --consumer --topic t --group g",
        "deny * delete cluster",
        "list",
        "list topic orders.eu",
        "check alice read topic orders.eu --host 10.0.0.1",
        "check alice read topic orders.eu",
        "check bob read group g",
        "remove bob --yes",
        "remove nobody --yes",
        "list --json",
    )
    printed: list[list[tuple[int, str]]] = []
    with both_brokers(tmp_path_factory, SETTINGS) as connections:
        for connection in connections:
            found = []
            for line in lines:
                if not line.startswith(("allow", "deny")):
                    time.sleep(0.5)  # Kafka follows its controller a moment later
                result = CliRunner().invoke(
                    main, ["acls", *line.split()], env={"BARNABAS_BOOTSTRAP": connection.address}
                )
                hidden = "The broker does not show super.users"
                output = "".join(
                    one for one in result.output.splitlines(keepends=True) if hidden not in one
                )
                found.append((result.exit_code, output))
            printed.append(found)
    kafkas, ours = printed
    for line, one, other in zip(lines, kafkas, ours, strict=True):
        assert other == one, line
    assert [code for code, _ in ours] == [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0]
