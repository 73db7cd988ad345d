"""`barnabas serve --read-only`: a whole process serves a directory, and changes no byte of it.

The directories are two years old, and the settings would make a plain broker delete and compact
within milliseconds; a test proves it.
"""

import contextlib
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import data_directory, warm_process
from tests.support.broker_process import BARNABAS, ROOT, BrokerNotReady, BrokerProcess, free_port
from tests.support.data_directory import BATCHES, RECORDS_PER_BATCH
from tests.support.msgpack_client import MsgpackClient
from tests.support.raw_batches import batch
from tests.support.raw_client import METADATA, RawClient, array, int8, string

HURRIED = {
    "log.retention.ms": "1",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "1",
    "log.cleaner.backoff.ms": "1",
    "log.segment.delete.delay.ms": "0",
    "offsets.retention.check.interval.ms": "50",
    "producer.id.expiration.check.interval.ms": "50",
    "barnabas.recovery.point.interval.ms": "50",
}
SERVED_SECONDS = 2.0
END = BATCHES * RECORDS_PER_BATCH
STORAGE_ERROR = 56
TORN = b"\x00" * 7 + b"\xc8" + b"torn batch" * 9
LOST_BY_COPIES = (
    "meta.properties", ".kafka_cleanshutdown", ".lock", "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint", "t-0/leader-epoch-checkpoint", "t-0/partition.metadata",
)  # fmt: skip
NOBODY = 65534
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")


class ReadOnly(BrokerProcess):
    """A broker that serves its directory read-only; `before` is a command that runs it."""

    def __init__(self, data: Path, *before: str) -> None:
        super().__init__(data, dict(HURRIED))
        self.before = before
        self.msgpack_port = free_port()
        self.settings["listeners"] += f",MSGPACK://{self.host}:{self.msgpack_port}"

    def command(self) -> list[str]:
        return [*self.before, *super().command(), "--read-only"]

    def client(self) -> RawClient:
        return RawClient(self.host, self.port, timeout_s=60)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_directory.make(tmp_path_factory.mktemp("read-only") / "data")


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "data", symlinks=True))


def state_of(directory: Path) -> dict[str, tuple[int, str]]:
    """Return each name below a directory, with its modification time and a hash of its bytes."""
    found = {}
    for path in sorted(directory.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(content).hexdigest()
        found[str(path.relative_to(directory))] = path.stat().st_mtime_ns, digest
    return found


@contextlib.contextmanager
def served(data: Path, *before: str) -> Iterator[ReadOnly]:
    """Serve a directory, and compare it with its state before."""
    was = state_of(data)
    with ReadOnly(data, *before) as broker:
        yield broker
        assert state_of(data) == was
        assert broker.stop() == 0
    assert state_of(data) == was
    assert "Read-only file system" not in broker.output(), "something tried to write"


def walk(records: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield position, base offset and the offset after the last record of each batch."""
    position = 0
    while position < len(records):
        base_offset, length = struct.unpack_from(">qi", records, position)
        (last_delta,) = struct.unpack_from(">i", records, position + 23)
        yield position, base_offset, base_offset + last_delta + 1
        position += 12 + length


def offsets(broker: ReadOnly, start: int = 0, partition: int = 0) -> list[int]:
    """Read to the end as a consumer does; return the base offsets of the batches."""
    found: list[int] = []
    with broker.client() as client:
        end, offset = client.end_offset("t", partition), start
        while offset < end:
            fetched = client.fetch("t", offset, partition)
            assert fetched.error == 0
            read = list(walk(fetched.records))
            found += [base_offset for _, base_offset, _ in read]
            offset = read[-1][2]
    return found


ALL = list(range(0, END, RECORDS_PER_BATCH))


def test_it_deletes_compacts_and_writes_nothing(data: Path) -> None:
    with served(data) as broker:
        time.sleep(SERVED_SECONDS)
        assert offsets(broker) == ALL
        assert "served read-only" in broker.output()


def test_a_plain_broker_would_have_deleted_it(data: Path) -> None:
    was = state_of(data)
    with BrokerProcess(data, HURRIED):
        time.sleep(SERVED_SECONDS)
    left = [name for name in state_of(data) if name.startswith("t-0/") and name.endswith(".log")]
    assert len(left) < len([name for name in was if name.startswith("t-0/0") and ".log" in name])


def test_a_torn_tail_is_named_and_not_served(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    last = max((data / "t-0").glob("*.log"))
    last.write_bytes(last.read_bytes() + TORN)
    with served(data) as broker:
        assert offsets(broker) == ALL
        assert f"{last} at byte offset" in broker.output()
        assert f"t-0 is served up to offset {END}" in broker.output()


def test_a_flipped_bit_costs_its_batch_and_is_answered(data: Path) -> None:
    first = min((data / "t-0").glob("*.log"))
    content = bytearray(first.read_bytes())
    position, offset, _ = list(walk(content))[2]
    content[position + 16] ^= 0x40  # the magic, which no checksum covers
    first.write_bytes(content)
    with served(data) as broker, broker.client() as client:
        assert client.fetch("t", offset).error == STORAGE_ERROR
        beyond = int(sorted((data / "t-0").glob("*.log"))[1].stem)
        assert offsets(broker, beyond) == [one for one in ALL if one >= beyond]
        assert offsets(broker, partition=1) == [0]


def test_a_copy_without_any_side_file_is_served_whole(data: Path) -> None:
    for name in LOST_BY_COPIES:
        (data / name).unlink(missing_ok=True)
    for pattern in ("*.index", "*.timeindex", "*.snapshot", "*.producers"):
        for path in (data / "t-0").glob(pattern):
            path.unlink()
    with served(data) as broker:
        assert offsets(broker) == ALL
        assert "meta.properties: missing; served as node 1" in broker.output()


def test_an_interrupted_compaction_is_seen_as_it_would_be_finished(data: Path) -> None:
    first, second, third = sorted((data / "t-0").glob("*.log"))[:3]
    shutil.copy(first, f"{first}.swap")  # complete, and its source still exists
    second.rename(f"{second}.swap")  # its source is missing
    shutil.copy(third, f"{third}.cleaned")  # not finished
    with served(data) as broker:
        assert offsets(broker) == ALL


def test_a_missing_partition_is_offline_and_the_others_are_served(data: Path) -> None:
    shutil.rmtree(data / "t-0")
    with served(data) as broker, broker.client() as client:
        assert client.fetch("t", 0).error == STORAGE_ERROR
        assert offsets(broker, partition=1) == [0]
        assert "t-0: cannot be opened" in broker.output()


@pytest.mark.parametrize("lost", [1, 40])
def test_a_torn_end_of_the_metadata_log_is_left_out(data: Path, lost: int) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    path = data / "__cluster_metadata-0/00000000000000000000.log"
    content = path.read_bytes()
    end = list(walk(content))[-1][2]
    path.write_bytes(content + batch([b"never written whole"], base_offset=end)[:-lost])
    with served(data) as broker:
        assert offsets(broker) == ALL


@needs_root
def test_a_read_only_mount_is_served(data: Path, tmp_path: Path) -> None:
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    with served(data, "unshare", "--mount", "sh", "-c", mount, str(data)) as broker:
        assert offsets(broker) == ALL
        health = [*BARNABAS, "health", "--bootstrap", broker.address]
        assert subprocess.run(health, cwd=ROOT, check=False, timeout=60).returncode == 0


def test_a_directory_that_may_only_be_read_is_served(original: Path) -> None:
    """By its mode. Root may write everywhere, so the broker runs as `nobody`."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(shutil.copytree(original, Path(folder) / "data"))
        for path in (Path(folder), data, *data.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        who = f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"
        Path(folder).chmod(0o755)
        with served(data, *(("setpriv", *who) if os.getuid() == 0 else ())) as broker:
            assert offsets(broker) == ALL
        for path in (data, *data.rglob("*")):
            path.chmod(0o755)


def test_a_live_brokers_directory_is_refused(data: Path) -> None:
    with BrokerProcess(data) as live:
        beside = ReadOnly(data)
        beside.output_path = data.parent / "beside.output"
        with pytest.raises(BrokerNotReady, match=rf"Failed to acquire lock.*pid {live.pid}"):
            beside.start()


def test_readers_may_share_a_directory_but_not_with_a_broker(data: Path) -> None:
    with served(data):
        other = ReadOnly(data)
        other.output_path = data.parent / "other.output"
        with other:
            assert offsets(other) == ALL
        live = BrokerProcess(data)
        live.output_path = data.parent / "live.output"
        with pytest.raises(BrokerNotReady, match="Failed to acquire lock"):
            live.start()


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokerNotReady, match="says which topics"):
        ReadOnly(tmp_path / "nowhere").start()
    assert not (tmp_path / "nowhere").exists()


def test_writes_are_refused_for_good(data: Path) -> None:
    with served(data) as broker:
        with broker.client() as client:
            refused = client.produce("t", batch([b"x"]))
            assert (refused.error, refused.message) == (
                29,
                "This broker serves its directory read-only.",
            )
            assert client.create_topic("new") == 44
            asked = array(string("new")) + int8(1)
            assert b"new" in client.call(METADATA, 4, asked).data
            assert client.fetch("new", 0).error == 3
        with MsgpackClient(broker.msgpack_port) as client:
            topic_id = client.topic_id("t")
            answer = client.produce(topic_id, [{"value": b"x"}])
            assert answer["error_code"] == 29
            assert client.fetch(topic_id, 0)["error_code"] == 0


@pytest.mark.parametrize(
    ("arguments", "port", "said"),
    [
        (["produce", "t"], "msgpack_port", "CLUSTER_AUTHORIZATION_FAILED"),
        (["produce", "t", "--acks", "1"], "msgpack_port", "TOPIC_AUTHORIZATION_FAILED"),
        (["consume", "t", "--group", "g"], "msgpack_port", "GROUP_AUTHORIZATION_FAILED"),
        (["topics", "create", "new"], "port", "read-only"),
        (["topics", "delete", "t", "--yes"], "port", "read-only"),
        (["config", "set", "--topic", "t", "retention.ms=1"], "port", "read-only"),
    ],
)
def test_our_commands_give_the_reason(
    readers: ReadOnly, arguments: list[str], port: str, said: str
) -> None:
    address = f"{readers.host}:{getattr(readers, port)}"
    done = warm_process.run([*BARNABAS, *arguments, "--bootstrap", address], given=b"x\n")
    assert done.returncode == 1
    assert said in done.stderr.decode()


@pytest.fixture(scope="module")
def readers(original: Path) -> Iterator[ReadOnly]:
    with served(original) as broker:
        yield broker


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-P", "-t", "t"], "Topic authorization failed"),
        (["-P", "-t", "t", "-X", "enable.idempotence=true"], "Cluster authorization failed"),
        (["-G", "g", "t"], "Group authorization failed"),
    ],
)
@pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat")
def test_kcat_gives_up(readers: ReadOnly, options: list[str], said: str) -> None:
    done = subprocess.run(
        ["kcat", "-b", readers.address, *options],
        input="x\n", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert said in done.stderr
