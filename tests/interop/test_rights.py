"""Kafka's StandardAuthorizer and ours answer the same requests of the same client the same.

On both brokers, PLAINTEXT clients are super users, and the client under test has a certificate.
For each set of ACLs (`tests.support.rights_cases`) it sends each request to both.

What is compared: codes and where they are, what is listed and left out, authorized operations.
"""

import ssl
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from client.codes import BrokerError
from client.kafka.connection import Connection
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tests.interop.oracle.kafka import KafkaNode, libs
from tests.support.broker_process import BrokerProcess, free_port
from tests.support.certificates import Authority
from tests.support.rights_answers import told
from tests.support.rights_bodies import body_of
from tests.support.rights_cases import ROWS, Case, Grant, cases, compared_only, grant, grants

pytestmark = pytest.mark.interop

TIMEOUT_S = 30
CLIENT = "User:CN=alice"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANY = 1
NAME = "t"
GROUP, CONSUMER_GROUP, TRANSACTIONAL_ID = "g", "cg", "x"
NOT_YET = {14, 15, 16}  # a coordinator that is being made
SENTINEL = "the sentinel"


class CertifiedConnection(Connection):
    """A connection of a client that shows a certificate."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        super().__init__(address, TIMEOUT_S)
        self._context = context

    def _encrypt(self, host: str) -> None:
        assert self._socket is not None
        self._socket = self._context.wrap_socket(self._socket, server_hostname=host)


class Side(NamedTuple):
    """One broker: the connections of its super user and of the client under test."""

    admin: Connection
    client: CertifiedConnection
    topic_id: bytes

    def ask(self, connection: Connection, api: str, version: int, **body: Any) -> Any:
        case = Case(api, version, body)
        return self.send(connection, case)

    def send(self, connection: Connection, case: Case) -> Any:
        return connection.call(
            body_of(case, self.topic_id),
            ROWS[case.api].response,
            version_min=case.version,
            version_max=case.version,
        )

    def is_sentinel_allowed(self) -> bool:
        found = self.ask(
            self.client, "FIND_COORDINATOR", 4, key_type=1, coordinator_keys=[SENTINEL]
        )
        return bool(found.coordinators[0].error_code != 53)

    def set_acls(self, wanted: list[Grant]) -> None:
        """Have the client under test hold exactly these, and wait until they have their effect."""
        filters = [
            DeleteAclsFilter(
                resource_type_filter=ANY,
                pattern_type_filter=ANY,
                operation=ANY,
                permission_type=ANY,
                principal_filter=principal,
                resource_name_filter=None,
                host_filter=None,
            )
            for principal in (CLIENT, "User:*")
        ]
        self.admin.call(DeleteAclsRequest(filters=filters), DeleteAclsResponse)
        until(lambda: not self.is_sentinel_allowed())
        creations = [
            AclCreation(
                resource_type=one.kind,
                resource_name=one.name,
                resource_pattern_type=one.pattern,
                principal=one.principal or CLIENT,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in [*wanted, Grant(5, 8, SENTINEL)]
        ]
        answer = self.admin.call(CreateAclsRequest(creations=creations), CreateAclsResponse)
        assert {one.error_code for one in answer.results} == {0}
        until(self.is_sentinel_allowed)

    def keep(self) -> None:
        """Renew what the requests of the matrix find, or what they have taken away."""
        beat = {"group_id": CONSUMER_GROUP, "member_id": "", "member_epoch": 0}
        self.ask(self.admin, "DESCRIBE_CLUSTER", 1)
        described = self.ask(self.admin, "CONSUMER_GROUP_DESCRIBE", 0, group_ids=[CONSUMER_GROUP])
        if described.groups[0].members:
            return
        joined = self.ask(
            self.admin,
            "CONSUMER_GROUP_HEARTBEAT",
            0,
            **beat,
            subscribed_topic_names=[NAME],
            topic_partitions=[],
            rebalance_timeout_ms=300_000,
        )
        assert joined.error_code == 0, joined

    def prepare(self) -> None:
        """Make the groups and the transactional id."""
        for key_type, key in ((0, GROUP), (1, TRANSACTIONAL_ID)):
            until(
                lambda key_type=key_type, key=key: (
                    self.ask(
                        self.admin, "FIND_COORDINATOR", 4, key_type=key_type, coordinator_keys=[key]
                    )
                    .coordinators[0]
                    .error_code
                    == 0
                )
            )
        until(lambda: self.commit() not in NOT_YET)
        until(lambda: self.init() not in NOT_YET)
        assert self.commit() == self.init() == 0

    def commit(self) -> int:
        partition = {"partition_index": 0, "committed_offset": 1}
        topics = [{"name": NAME, "partitions": [partition]}]
        answer = self.ask(self.admin, "OFFSET_COMMIT", 8, group_id=GROUP, topics=topics)
        return int(answer.topics[0].partitions[0].error_code)

    def init(self) -> int:
        name = TRANSACTIONAL_ID
        answer = self.ask(
            self.admin, "INIT_PRODUCER_ID", 4, transactional_id=name, transaction_timeout_ms=60_000
        )
        return int(answer.error_code)


def until(done: Any) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def _settings(port: int, authority: Authority, own: str) -> dict[str, str]:
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,MUTUAL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": own,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.file,
        "ssl.client.auth": "required",
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "log.retention.ms": "-1",  # the records are old
        "transaction.state.log.num.partitions": "1",
        "group.consumer.session.timeout.ms": "60000",
        "group.consumer.max.session.timeout.ms": "600000",
    }


def _side(broker: KafkaNode | BrokerProcess, port: int, context: ssl.SSLContext) -> Side:
    admin = Connection(broker.address, TIMEOUT_S)
    admin.open()
    client = CertifiedConnection(f"127.0.0.1:{port}", context)
    client.open()
    topic = CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
    made = admin.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, version_min=7)
    side = Side(admin, client, made.topics[0].topic_id)
    side.prepare()
    return side


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """Kafka and ours."""
    libs()
    directory = tmp_path_factory.mktemp("rights")
    authority = Authority(directory / "authority")
    own, alice = authority.issue("broker", rsa_bits=2048), authority.issue("alice")
    context = ssl.create_default_context(cafile=authority.file)
    context.load_cert_chain(alice.chain_file, alice.key_file)
    kafka_port, our_port = free_port(), free_port()
    kafka = KafkaNode(
        directory / "kafka", settings=_settings(kafka_port, authority, own.store_file)
    )
    controller = kafka._controller_port
    kafka._settings["listeners"] = (
        f"PLAINTEXT://{kafka.address},CONTROLLER://127.0.0.1:{controller},"
        f"MUTUAL://127.0.0.1:{kafka_port}"
    )
    ours = BrokerProcess(directory / "ours", _settings(our_port, authority, own.store_file))
    ours.settings["listeners"] = f"PLAINTEXT://{ours.address},MUTUAL://127.0.0.1:{our_port}"
    found: list[Side] = []
    try:
        for broker, port in ((kafka, kafka_port), (ours, our_port)):
            broker.start()
            found.append(_side(broker, port, context))
        yield found[0], found[1]
    finally:
        for side in found:
            side.admin.close()
            side.client.close()
        for broker in (kafka, ours):
            if broker.running:
                broker.kill()


def answered(side: Side, connection: Connection, case: Case) -> Any:
    try:
        return told(side.send(connection, case), side.topic_id)
    except BrokerError as error:
        connection.close()
        connection.open()
        return f"closed: {str(error)[-40:]}"


def differences(sides: tuple[Side, Side], *, of_admin: bool = False) -> list[str]:
    found = []
    for case in [*cases(), *compared_only()]:
        kafkas, ours = (
            answered(side, side.admin if of_admin else side.client, case) for side in sides
        )
        if kafkas != ours:
            found.append(f"{case}\n  Kafka {kafkas}\n  ours  {ours}")
    return found


@pytest.mark.parametrize("name", grants())
def test_both_answer_the_same(sides: tuple[Side, Side], name: str) -> None:
    for side in sides:
        side.set_acls(grants()[name])
        side.keep()
    different = differences(sides)
    assert not different, "\n".join([f"{len(different)} differ", *different])


def test_both_answer_a_super_user_the_same(sides: tuple[Side, Side]) -> None:
    """One beside a denial of everything to everybody."""
    denied = [grant(kind, 2, permission=2, principal="User:*") for kind in (2, 3, 4)]
    for side in sides:
        side.set_acls([])
        side.set_acls(denied)
        side.keep()
    different = differences(sides, of_admin=True)
    assert not different, "\n".join([f"{len(different)} differ", *different])


def test_each_api_is_asked_for() -> None:
    # These need no right. Kafka serves metrics of clients only with a plug-in that takes them.
    without = {"API_VERSIONS", "GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY"}
    assert ROWS.keys() - {case.api for case in [*cases(), *compared_only()]} == without
