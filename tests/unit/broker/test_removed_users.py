"""Connections of users whom the JAAS string no longer has end with the answer."""

from pathlib import Path

import pytest

from client.addresses import Address
from client.codes import BrokerError
from client.kafka.connection import Connection
from client.logins import Login
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.broker_process import BrokerProcess, free_port

JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"


def jaas(**users: str) -> str:
    named = " ".join(f'user_{user}="{password}"' for user, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {named};"


def test_connections_of_removed_users_end(tmp_path: Path) -> None:
    login_address = f"127.0.0.1:{free_port()}"
    broker = BrokerProcess(tmp_path / "data")
    broker.settings["listeners"] += f",SASL_PLAINTEXT://{login_address}"
    broker.settings |= {
        "sasl.enabled.mechanisms": "PLAIN",
        JAAS: jaas(alice="a", bob="b", carol="c"),
    }
    with broker, Connection(broker.address, 60) as admin:
        connections = {}
        for user, password in (("alice", "a"), ("bob", "b"), ("carol", "c")):
            address = Address(login_address, None, Login("PLAIN", user, password))
            connections[user] = Connection(address, 60)
            connections[user].open()
        change = AlterableConfig(
            name=JAAS, config_operation=0, value=jaas(bob="another", carol="c")
        )
        resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = admin.call(request, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == 0, answer
        for user in ("alice", "bob"):
            with pytest.raises(BrokerError):
                connections[user].call(MetadataRequest(topics=[]), MetadataResponse)
        assert connections["carol"].call(MetadataRequest(topics=[]), MetadataResponse).brokers
        for connection in connections.values():
            connection.close()
