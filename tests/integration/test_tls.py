"""Listeners with TLS on a running broker: clients, hostile handshakes, truncation, renewal.

A plain client is connected to the same broker all the time, and must not notice.
"""

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import warm_process
from tests.support.broker_process import BARNABAS, ROOT, BrokerProcess, free_port
from tests.support.certificates import Authority, Issued
from tests.support.raw_batches import batch, values_of
from tests.support.raw_client import (
    DELETE_TOPICS,
    EARLIEST,
    FETCH,
    FETCH_VERSION,
    LIST_OFFSETS,
    PRODUCE,
    PRODUCE_VERSION,
    Closed,
    RawClient,
    array,
    fetch_body,
    frame,
    header,
    int32,
    int64,
    list_offsets_body,
    listed_offset,
    produce_body,
    string,
    topic_to_create,
)
from tests.support.raw_quotas import limit_produced
from tests.support.tls_client import TlsClient

TOPIC = "t"
BIG = b"x" * 900_000
PATIENCE_S = 60.0


class TlsBroker(BrokerProcess):
    """A broker with a plain listener, one with TLS, one that wants certificates, and msgpack's."""

    def __init__(self, directory: Path, authority: Authority, **settings: str) -> None:
        self.authority = authority
        self.tls_port, self.mutual_port, self.msgpack_port = (free_port() for _ in range(3))
        self.certificate = authority.issue("broker")
        super().__init__(
            directory / "data",
            {
                "listener.security.protocol.map": "PLAIN:PLAINTEXT,TLS:SSL,MUTUAL:SSL",
                "ssl.certificate": self.certificate.chain_file,
                "ssl.key": self.certificate.key_file,
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.truststore.location": authority.file,
                "log.retention.check.interval.ms": "20",
                **settings,
            },
        )
        self.settings["listeners"] = (
            f"PLAIN://127.0.0.1:{self.port},TLS://127.0.0.1:{self.tls_port},"
            f"MUTUAL://127.0.0.1:{self.mutual_port},MSGPACK_SSL://127.0.0.1:{self.msgpack_port}"
        )

    def context(self, issued: Issued | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.file)
        if issued is not None:
            context.load_cert_chain(issued.chain_file, issued.key_file)
        return context

    def tls(self, issued: Issued | None = None, port: int = 0) -> TlsClient:
        return TlsClient("127.0.0.1", port or self.tls_port, self.context(issued))

    def until_said(self, words: str, since: int = 0) -> str:
        """Wait for a line of the log, and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for line in self.output()[since:].splitlines():
                if words in line:
                    return line
            time.sleep(0.02)
        raise AssertionError(f"no line with {words!r}:\n{self.output()[since:]}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    directory = tmp_path_factory.mktemp("tls")
    broker = TlsBroker(directory, Authority(directory / "certificates"))
    with broker:
        with RawClient(broker.host, broker.port) as client:
            assert client.create_topic(TOPIC) == 0
        yield broker


@pytest.fixture(autouse=True)
def plain(broker: TlsBroker) -> Iterator[None]:
    """A plain client before, and the same connection after each test."""
    with RawClient(broker.host, broker.port) as client:
        yield
        assert client.produce(TOPIC, batch([b"plain"])).error == 0


# -- clients ---------------------------------------------------------------------------------------


def test_a_client_produces_and_fetches_what_it_produced(broker: TlsBroker) -> None:
    with broker.tls() as client:
        produced = client.produce(TOPIC, batch([b"one", BIG]))
        assert produced.error == 0
        found = client.fetch(TOPIC, produced.base_offset, size_max=4 << 20)
        assert values_of(found.records)[:2] == [b"one", BIG]


def test_a_large_answer_reaches_a_client_that_reads_slowly(broker: TlsBroker) -> None:
    with broker.tls() as client:
        assert client.create_topic("large") == 0
        for _ in range(8):
            assert client.produce("large", batch([BIG])).error == 0
        found = client.fetch("large", 0, size_max=64 << 20)
        assert values_of(found.records) == [BIG] * 8


def test_a_large_answer_that_nobody_reads_keeps_no_other_client_waiting(broker: TlsBroker) -> None:
    stuck = [broker.tls() for _ in range(4)]
    try:
        for client in stuck:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(3):
                client.send_request(FETCH, FETCH_VERSION, fetch_body("large", 0, 0, 8 << 20))
        with broker.tls() as other:
            assert other.produce(TOPIC, batch([b"other"])).error == 0
    finally:
        for client in stuck:
            client.close()


@pytest.mark.parametrize("orderly", [True, False])
def test_what_is_produced_without_an_answer_before_an_orderly_end_is_kept(
    broker: TlsBroker, orderly: bool
) -> None:
    topic = f"ended-{orderly}".lower()
    with RawClient(broker.host, broker.port) as watcher:
        assert watcher.create_topic(topic) == 0
        client = broker.tls()
        for _ in range(50):
            body = produce_body(topic, batch([b"last"]), acks=0)
            client.send_request(PRODUCE, PRODUCE_VERSION, body)
        if orderly:
            with suppress(OSError, ssl.SSLError):
                client.socket.unwrap()
        else:
            client.socket.shutdown(socket.SHUT_WR)
        client.close()
        until_end(watcher, topic, 50)


def test_what_a_throttled_client_sent_before_its_end_is_kept(broker: TlsBroker) -> None:
    topic, name = "ended-throttled", "throttled"
    with RawClient(broker.host, broker.port) as watcher:
        assert watcher.create_topic(topic) == 0
        limit_produced(watcher, name, bytes_per_second=1.0)
        client = broker.tls()
        for acks, values in ((1, [BIG]), *[(0, [b"last"])] * 50):
            body = produce_body(topic, batch(values), acks=acks)
            client.send(frame(header(PRODUCE, PRODUCE_VERSION, client_id=name) + body))
            if acks:
                client.receive_frame()  # it is throttled from here on
        with suppress(OSError, ssl.SSLError):
            client.socket.settimeout(0.1)  # its end is not answered while it is not read
            client.socket.unwrap()
        client.close()
        until_end(watcher, topic, 51)


def until_end(watcher: RawClient, topic: str, offset: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while watcher.end_offset(topic) < offset:
        assert time.monotonic() < deadline, watcher.end_offset(topic)
        time.sleep(0.02)


def test_mutual_tls(broker: TlsBroker) -> None:
    alice = broker.authority.issue("alice")
    with broker.tls(alice, broker.mutual_port) as client:
        assert client.produce(TOPIC, batch([b"alice"])).error == 0
    since = len(broker.output())
    with (
        broker.tls(port=broker.mutual_port) as client,
        pytest.raises(OSError, match=r"(?i)certificate.required"),
    ):
        client.api_versions()
    assert "ssl.client.auth=required" in broker.until_said("MUTUAL", since)


def test_the_whole_command_line_works_over_tls(broker: TlsBroker, tmp_path: Path) -> None:
    alice = broker.authority.issue("cli")
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.location={broker.authority.file}\n"
        f"ssl.keystore.location={alice.store_file}\n"
    )

    def run(*words: str, port: int, given: bytes = b"", config: Path | None = file) -> str:
        options = ["--bootstrap", f"127.0.0.1:{port}"]
        options += ["--command-config", str(config)] if config else []
        done = warm_process.run([*BARNABAS, *words, *options], given=given)
        return (done.stdout + done.stderr).decode()

    assert "Created" in run("topics", "create", "cli", port=broker.mutual_port)
    assert "cli" in run("topics", "list", port=broker.tls_port)
    assert "Healthy" in run("health", port=broker.tls_port)
    run("produce", "cli", port=broker.msgpack_port, given=b"a\nb\n")
    assert run("consume", "cli", port=broker.msgpack_port) == "a\nb\n"
    assert "cli" in run("topics", "describe", "cli", port=broker.mutual_port)
    assert "Is it a TLS listener" in run("health", port=broker.tls_port, config=None)
    assert "does not speak TLS" in run("health", port=broker.port)
    stranger = Authority(tmp_path / "stranger")
    other = tmp_path / "other.properties"
    other.write_text(f"security.protocol=SSL\nssl.ca.location={stranger.file}\n")
    for words, port in (("health", broker.tls_port), ("consume cli", broker.msgpack_port)):
        refused = run(*words.split(), port=port, config=other)
        assert "is not accepted" in refused
        assert "ssl.truststore.location" in refused


# -- hostile handshakes ----------------------------------------------------------------------------


def hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_a_thousand_hostile_handshakes_hold_up_nobody(broker: TlsBroker) -> None:
    whole = hello()
    kinds = [b"", b"\x16", whole[:20], whole, b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x10rubbish....."]
    hostile = []
    try:
        for number in range(1_000):
            hostile.append(socket.create_connection((broker.host, broker.tls_port)))
            with suppress(OSError):
                hostile[-1].send(kinds[number % len(kinds)])
        with broker.tls() as client, RawClient(broker.host, broker.port) as plain:
            assert client.produce(TOPIC, batch([b"good"])).error == 0
            assert plain.produce(TOPIC, batch([b"good"])).error == 0
    finally:
        for sock in hostile:
            sock.close()


@pytest.mark.parametrize(
    ("sent", "alert", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"\x15\x03\x03\0\2\2\x50", "it speaks HTTP"),
        (b"\0\0\0\x10\0\x12\0\0\0\0\0\1", b"\x15\x03\x03\0\2\2\x50", "security.protocol=PLAINTEXT"),
        (b"\x16\x03\x01\xff\xff", b"\x15\x03\x03\0\2\2\x0a", "65535 bytes"),
    ],
)
def test_what_is_no_tls_gets_an_alert_and_one_line_that_says_so(
    broker: TlsBroker, sent: bytes, alert: bytes, words: str
) -> None:
    time.sleep(1.1)  # the lines of the tests before have used up this second
    since = len(broker.output())
    with socket.create_connection((broker.host, broker.tls_port), PATIENCE_S) as client:
        client.send(sent)
        assert client.recv(100) == alert
    assert words in broker.until_said("SSL handshake failed", since)


def test_tls_on_a_plain_listener_is_named(broker: TlsBroker) -> None:
    since = len(broker.output())
    with pytest.raises((ssl.SSLError, OSError)):
        TlsClient(broker.host, broker.port, broker.context())
    assert "this looks like TLS" in broker.until_said("closing connection", since)


def test_old_versions_and_strangers_are_refused_with_the_reason(broker: TlsBroker) -> None:
    time.sleep(1.1)
    since = len(broker.output())
    old = broker.context()
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        TlsClient(broker.host, broker.tls_port, old)
    assert "ssl.enabled.protocols" in broker.until_said("SSL handshake failed", since)
    since = len(broker.output())
    with pytest.raises(ssl.SSLCertVerificationError):
        TlsClient(broker.host, broker.tls_port, ssl.create_default_context())
    assert "refuses the broker's certificate" in broker.until_said("SSL handshake failed", since)


def test_renegotiation_is_refused(broker: TlsBroker) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl on the PATH")
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.tls_port}", "-tls1_2"],
        input=b"R\n",
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = done.stdout + done.stderr
    assert b"RENEGOTIATING" in said
    assert b"no renegotiation" in said
    with broker.tls() as client:
        assert client.api_versions()


# -- truncation ------------------------------------------------------------------------------------


TOPICS = [f"shrinks-{number}" for number in range(3)]


def earliest(client: RawClient) -> int:
    asked = list_offsets_body("retained", 0, EARLIEST)
    return listed_offset(client.call(LIST_OFFSETS, 1, asked))[1]


def read_until(ends: threading.Event, connect: Callable[[], RawClient]) -> None:
    with connect() as client:
        while not ends.is_set():
            for topic in TOPICS:
                client.fetch(topic, 0, size_max=8 << 20)
            client.fetch("retained", earliest(client), size_max=8 << 20)


def write_and_shrink(broker: TlsBroker, client: RawClient) -> None:
    """Fill the topics; take records and files away, and a part of a file as another program may."""
    assert client.create_topics(*map(topic_to_create, TOPICS)) == [0] * len(TOPICS)
    for topic in ("retained", *TOPICS):
        for _ in range(4):
            assert client.produce(topic, batch([BIG])).error == 0
    delete_records(client, TOPICS[0], 3)
    (log,) = broker.data.glob(f"{TOPICS[1]}-0/*.log")
    os.truncate(log, log.stat().st_size // 3)
    assert client.fetch(TOPICS[1], 3, size_max=8 << 20).records == b""
    delete_topics(client, *TOPICS)


def test_logs_shrink_and_go_while_clients_read_them(broker: TlsBroker) -> None:
    """A mapped page of a truncated file would kill the broker when TLS reads it."""
    ends = threading.Event()
    failures: list[BaseException] = []

    def read(connect: Callable[[], RawClient], *, may_close: bool) -> None:
        while not ends.is_set():
            try:
                read_until(ends, connect)
            except BaseException as error:
                if not (may_close and isinstance(error, Closed)):
                    failures.append(error)

    def plain() -> RawClient:
        return RawClient(broker.host, broker.port)

    # A plain answer that was begun from a mapped file cannot be ended if the file is cut.
    readers = [
        threading.Thread(target=read, args=(connect,), kwargs={"may_close": connect is plain})
        for connect in (broker.tls, plain, broker.tls, plain)
    ]
    with plain() as client:
        kept = {"internal.segment.bytes": "1000000", "retention.bytes": "1000000"}
        assert client.create_topics(topic_to_create("retained", configs=kept)) == [0]
        for reader in readers:
            reader.start()
        try:
            for _ in range(4):
                write_and_shrink(broker, client)
        finally:
            ends.set()
            for reader in readers:
                reader.join(PATIENCE_S)
        assert failures == []
        assert broker.running
        assert earliest(client) > 0, "retention has deleted segments"


def delete_topics(client: RawClient, *topics: str) -> None:
    answer = client.call(DELETE_TOPICS, 1, array(*map(string, topics)) + int32(30_000))
    answer.number(4)
    for _ in range(answer.number(4)):
        answer.string()
        assert answer.number(2) == 0


def delete_records(client: RawClient, topic: str, offset: int) -> None:
    partitions = array(int32(0) + int64(offset))
    client.call(21, 0, array(string(topic) + partitions) + int32(30_000))


# -- renewal ---------------------------------------------------------------------------------------


def serial(broker: TlsBroker) -> int:
    with broker.tls() as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        found = client.socket.getpeercert()
        assert found is not None
        return int(str(found["serialNumber"]), 16)


def replace(broker: TlsBroker, issued: Issued) -> None:
    Path(broker.certificate.chain_file).write_text(issued.chain)
    Path(broker.certificate.key_file).write_text(issued.key)


def test_a_renewed_certificate_is_used_and_open_connections_stay(broker: TlsBroker) -> None:
    with broker.tls() as open_before:
        since = len(broker.output())
        renewed = broker.authority.issue("renewed", [("CN", "broker")])
        replace(broker, renewed)
        broker.until_said("for new connections", since)
        deadline = time.monotonic() + PATIENCE_S
        while serial(broker) != renewed.certificate.serial_number:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert open_before.produce(TOPIC, batch([b"still here"])).error == 0


def test_a_hangup_reloads_and_a_bad_file_keeps_the_certificate(broker: TlsBroker) -> None:
    before = serial(broker)
    good = Path(broker.certificate.chain_file).read_text()
    since = len(broker.output())
    broker.send_signal(signal.SIGHUP)
    broker.until_said("for new connections", since)
    since = len(broker.output())
    Path(broker.certificate.chain_file).write_text("garbage")
    assert "has no certificate" in broker.until_said("keeps its certificate", since)
    assert serial(broker) == before
    Path(broker.certificate.chain_file).write_text(good)


# -- starts that are refused -----------------------------------------------------------------------


def test_secrets_appear_nowhere(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("broker")
    secret = "marked-secret"
    key = tmp_path / "encrypted.key"
    key.write_text(issued.encrypted_key(secret))
    broker = BrokerProcess(
        tmp_path / "data",
        {
            "listeners": f"SSL://127.0.0.1:{free_port()}",
            "ssl.certificate": issued.chain_file,
            "ssl.key": str(key),
        },
        environment={"BARNABAS_SSL_KEY_PASSWORD": f"{secret}-wrong"},
    )
    done = subprocess.run(
        broker.command(),
        cwd=ROOT,
        env={**os.environ, **broker.environment},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 1
    assert re.search(r"cannot start or continue: .*is ssl\.key\.password right", said)
    assert secret not in said
