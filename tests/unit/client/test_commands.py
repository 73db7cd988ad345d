"""The commands as users type them, on a scripted broker and files: output and exit codes."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from client import cli
from protocol.messages.alter_configs import AlterConfigsResourceResponse
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support import data_directory
from tests.support.scripted_broker import ScriptedBroker

TOPICS = ("orders", "payments")
SETTINGS = {"retention.ms": ("1000", 1), "cleanup.policy": ("delete", 5)}


def metadata(request):
    names = TOPICS if request.topics is None else [topic.name for topic in request.topics]
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1, replica_nodes=[1], isr_nodes=[1]
        )
        for number in (1, 0)
    ]
    return MetadataResponse(
        cluster_id="cluster",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)],
        topics=[
            MetadataResponseTopic(
                name=name,
                error_code=0 if name in TOPICS else 3,
                partitions=partitions if name in TOPICS else [],
            )
            for name in names
        ],
    )


def list_offsets(request):
    def answer(topic, one):
        place = {-2: (2, -1), -1: (12, -1), 1000: (7, 1500)}.get(one.timestamp, (-1, -1))
        return ListOffsetsPartitionResponse(
            partition_index=one.partition_index, offset=place[0], timestamp=place[1]
        )

    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[answer(topic, one) for one in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def log_dirs(_request):
    topics = [
        DescribeLogDirsTopic(
            name=name,
            partitions=[
                DescribeLogDirsPartition(partition_index=n, partition_size=size, offset_lag=0)
                for n in (0, 1)
            ],
        )
        for name, size in zip(TOPICS, (1024, 4096), strict=True)
    ]
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir="/d", topics=topics)])


def configs(request):
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                error_code=0 if one.resource_type != 2 or one.resource_name in TOPICS else 3,
                configs=[
                    DescribeConfigsResourceResult(name=key, value=value, config_source=source)
                    for key, (value, source) in SETTINGS.items()
                ],
            )
            for one in request.resources
        ]
    )


def alter(request):
    responses = []
    for one in request.resources:
        code = 40 if any(config.value == "bad" for config in one.configs) else 0
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code,
                error_message="it is bad" if code else None,
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=responses)


def create(request):
    (topic,) = request.topics
    code = {"there": 36, "unknown_key": 40}.get(topic.name, 0)
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=topic.name, error_code=code, error_message=None,
                num_partitions=topic.num_partitions, replication_factor=1,
            )
        ]
    )  # fmt: skip


def add(request):
    (topic,) = request.topics
    result = CreatePartitionsTopicResult(name=topic.name, error_code=0 if topic.count > 2 else 37)
    return CreatePartitionsResponse(results=[result])


def delete(request):
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=topic.name, error_code=73 if topic.name == "payments" else 0)
            for topic in request.topics
        ]
    )


ANSWERS = {
    MetadataRequest: metadata,
    ListOffsetsRequest: list_offsets,
    DescribeLogDirsRequest: log_dirs,
    DescribeConfigsRequest: configs,
    IncrementalAlterConfigsRequest: alter,
    CreateTopicsRequest: create,
    CreatePartitionsRequest: add,
    DeleteTopicsRequest: delete,
}


@pytest.fixture
def broker():
    with ScriptedBroker(ANSWERS) as scripted:
        yield scripted


def invoke(*arguments, broker=None):
    environment = {"BARNABAS_BOOTSTRAP": broker.address} if broker else {}
    return CliRunner().invoke(cli.main, [str(one) for one in arguments], env=environment)


def asked(broker, cls):
    return [request for request in broker.requests if isinstance(request, cls)]


CASES = [
    ("topics list", 0, ["orders             2  2.0 KiB", "payments           2  8.0 KiB"]),
    ("topics list --no-sizes", 0, ["orders"]),
    ("topics describe orders", 0, ["Configs: retention.ms=1000", "12  1.0 KiB"]),
    ("topics describe orders --time 1000", 0, ["1970-01-01T00:00:01.500Z"]),
    ("topics describe orders --time 2000", 0, ["none so late"]),
    ("topics describe oders", 1, ["no topic 'oders'", "Did you mean orders?"]),
    ("topics describe zzz", 1, ["`barnabas topics list` lists"]),
    ("topics create new --partitions 3", 0, ["Created topic new with 3 partitions."]),
    ("topics create new --partitions 1 --dry-run", 0, ["Would create topic new with 1 partition."]),
    ("topics create there", 1, ["TOPIC_ALREADY_EXISTS (36)"]),
    ("topics create there --if-not-exists", 0, ["nothing was changed"]),
    ("topics create unknown_key --config retntion.ms=1", 1, ["Did you mean retention.ms"]),
    ("topics create new --config retention.ms", 2, ["is not KEY=VALUE"]),
    ("topics create new --partitions 0", 2, ["Invalid value"]),
    ("topics alter orders --partitions 3", 0, ["Extended topic orders from 2 to 3 partitions."]),
    ("topics alter orders --partitions 3 --dry-run", 0, ["Would extend"]),
    ("topics alter orders --partitions 1", 1, ["INVALID_PARTITIONS (37)"]),
    ("topics delete orders --dry-run", 0, ["Would delete orders, 2 partitions, about 20 records"]),
    ("topics delete orders", 2, ["pass --yes"]),
    ("topics delete orders --yes", 0, ["Deleted 1 topic."]),
    ("topics delete payments --yes", 1, ["TOPIC_DELETION_DISABLED (73)"]),
    ("config get --topic orders", 0, ["retention.ms  1000   topic"]),
    ("config get --topic orders --all", 0, ["cleanup.policy  delete  default"]),
    ("config get --topic orders clenup.policy", 1, ["Did you mean cleanup.policy?"]),
    ("config get --topic oders", 1, ["Did you mean orders?"]),
    ("config get", 2, ["Pass exactly one of --topic"]),
    ("config get --topic orders --all-brokers", 2, ["Pass exactly one of --topic"]),
    ("config get --broker 1", 0, ["No setting of broker 1 was set"]),
    ("config set --topic orders retention.ms=5", 0, ["retention.ms is 1000; it was 1000."]),
    ("config set --topic orders retention.ms=5 --dry-run", 0, ["would be 5"]),
    ("config set --topic orders retention.ms=bad", 1, ["INVALID_CONFIG (40): it is bad"]),
    ("config set --topic orders retntion.ms=5", 1, ["has no setting 'retntion.ms'"]),
    ("config set --all-brokers retntion.ms=5", 1, ["Did you mean retention.ms?"]),
    ("config unset --topic orders retention.ms --dry-run", 0, ["(its default)"]),
    (
        "config get --topic orders --topic payments",
        0,
        ["topic orders    retention.ms", "topic payments  retention.ms"],
    ),
    ("config get --topic orders --broker 1", 2, ["Pass exactly one of --topic"]),
    ("topics alter orders --partitions 2147483648", 2, ["is not in the range"]),
    ("topics alter orders --partitions 3 --partitions 4", 2, ["--partitions was given 2 times"]),
    ("config get --topic orders --timeout nan", 2, ["is not a number of seconds"]),
    ("dump absent", 2, ["absent: No such file or directory"]),
    ("groups reset-offsets g --to-offset 9223372036854775808", 2, ["is not in the range"]),
    ("groups reset-offsets g --to-time 9223372036854775808", 2, ["is too large"]),
    ("groups reset-offsets g --by-duration 999999999999999d", 2, ["is too large"]),
    (
        "consume orders --from yesterday",
        2,
        ["'yesterday' is not a time; expected beginning, end, an offset, 2026"],
    ),
    ("consume orders --from 9223372036854775808", 2, ["is not an offset"]),
    ("health", 0, ["Healthy: node 1 of cluster cluster"]),
    ("topics dlete", 2, ["delete"]),
    ("tpics list", 2, ["topics"]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_a_command_prints_and_exits(broker, command, code, words):
    result = invoke(*command.split(), broker=broker)
    assert result.exit_code == code, result.output
    assert [word for word in words if word not in result.output] == []
    assert "Traceback" not in result.output


def at_time(found):
    return found[0]["partitions"][0]["at_time"]


JSON = [
    ("topics list --by-size", lambda found: found[0]["topic"] == "payments"),
    ("topics describe orders --time 1000", lambda found: at_time(found) == [7, 1500]),
    ("topics create new", lambda found: found["created"]),
    ("topics create new --dry-run", lambda found: not found["created"]),
    ("topics create there --if-not-exists", lambda found: found["existed"]),
    ("topics alter orders --partitions 4", lambda found: found["before"] == 2),
    ("topics delete orders --dry-run", lambda found: found["topics"][0]["records"] == 20),
    ("topics delete orders --yes", lambda found: found["deleted"]),
    ("config get --topic orders --all", lambda found: len(found) == 2),
    ("config set --topic orders retention.ms=5", lambda found: found["changed"]),
    ("health", lambda found: found["healthy"] and found["brokers"] == [1]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "check"), JSON, ids=[case[0] for case in JSON])
def test_json_output(broker, command, check):
    result = invoke(*command.split(), "--json", broker=broker)
    assert result.exit_code == 0, result.output
    assert check(json.loads(result.stdout))


@pytest.mark.parametrize(
    ("command", "cls"),
    [
        ("topics delete orders --dry-run", DeleteTopicsRequest),
        ("topics delete orders", DeleteTopicsRequest),
        ("config set --topic orders retntion.ms=5", IncrementalAlterConfigsRequest),
    ],
)
def test_a_dry_run_or_a_misspelt_name_sends_no_change(broker, command, cls):
    invoke(*command.split(), broker=broker)
    assert asked(broker, cls) == []


@pytest.mark.parametrize(
    ("command", "cls"),
    [
        ("topics create new --dry-run", CreateTopicsRequest),
        ("topics alter orders --partitions 3 --dry-run", CreatePartitionsRequest),
        ("config set --topic orders retention.ms=5 --dry-run", IncrementalAlterConfigsRequest),
    ],
)
def test_a_dry_run_lets_the_broker_validate(broker, command, cls):
    invoke(*command.split(), broker=broker)
    (request,) = asked(broker, cls)
    assert request.validate_only


def test_settings_of_several_topics_are_changed_in_one_request(broker):
    topics = "--topic orders --topic payments --topic orders"
    result = invoke(*f"config set {topics} retention.ms=5".split(), broker=broker)
    assert result.exit_code == 0, result.output
    (request,) = asked(broker, IncrementalAlterConfigsRequest)
    assert [one.resource_name for one in request.resources] == ["orders", "payments"]
    assert [line.partition(":")[0] for line in result.output.splitlines()] == [
        "topic orders",
        "topic payments",
    ]


def test_an_unreachable_broker_is_reported_in_one_sentence():
    result = CliRunner().invoke(cli.main, ["health", "--bootstrap", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.output.startswith("no broker answers at 127.0.0.1:1")


def test_a_broker_that_lists_no_broker_is_not_healthy():
    with ScriptedBroker({MetadataRequest: lambda _request: MetadataResponse()}) as scripted:
        assert invoke("health", broker=scripted).exit_code == 1


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return data_directory.make(tmp_path_factory.mktemp("commands") / "data")


def test_dump_and_verify_exit_by_their_findings(original, tmp_path):
    data = shutil.copytree(original, tmp_path / "data")
    log = data / "t-0" / "00000000000000000000.log"
    assert invoke("verify", data).output.startswith("Sound: 3 partitions")
    assert invoke("verify", "--quiet", data).output == ""
    assert invoke("dump", log).exit_code == 0
    assert "offset: 0 position: 0 CreateTime:" in invoke("dump", "--short", log).output
    os.truncate(log, log.stat().st_size - 1)
    result = invoke("verify", data)
    assert result.exit_code == 1
    assert [
        word for word in ("DAMAGE", "found:", "means:", "do:") if word not in result.output
    ] == []
    report = json.loads(invoke("verify", "--json", data).output)
    assert (report["sound"], report["broker_pid"]) == (False, None)
    assert invoke("dump", log).exit_code == 1


def piped(data, **how):
    command = [sys.executable, "-m", "client.cli", "dump", str(data)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **how)


def test_a_closed_pipe_is_a_success(original):
    reading, writing = os.pipe()
    os.close(reading)
    dumping = piped(original / "t-0", stdout=writing)
    os.close(writing)
    assert (dumping.communicate()[1], dumping.returncode) == (b"", 0)


def test_an_unwritable_output_is_reported_in_one_sentence(original):
    with open("/dev/full", "wb") as full:
        dumping = piped(original / "t-0", stdout=full)
        complaint = dumping.communicate()[1].decode()
    assert complaint == "standard output: No space left on device\n"
    assert dumping.returncode == 1


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_an_unreadable_path_is_refused(command, tmp_path):
    for path in (tmp_path / "nowhere", tmp_path, tmp_path / "00000000000000000000.log"):
        result = invoke(command, path)
        assert result.exit_code == 2
        assert str(path) in result.output


def test_a_running_broker_is_reported(original, monkeypatch):
    for holder, said in ((77, "process 77"), (0, "in another container")):
        monkeypatch.setattr("storage.files.locks.lock_holder", lambda _path, it=holder: it)
        result = invoke("verify", original)
        assert result.exit_code == 0
        assert said in result.output


def test_health_imports_few_modules():
    """A container runs it every few seconds."""
    import subprocess
    import sys

    script = (
        "import sys; import client.cli, client.commands.health, client.kafka.connection;"
        "import protocol.messages.metadata;"
        "print(*sorted({'rich', 'uvloop', 'asyncio', 'difflib', 'broker', 'storage', 'cramjam',"
        " 'client.files'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
