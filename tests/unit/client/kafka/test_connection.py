"""The connection: versions that both sides know, and its errors about a bad peer."""

import socket
import struct

import pytest

from client.kafka.connection import BrokerError, Connection, NotServed, split_address
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.support.scripted_broker import ScriptedBroker

TIMEOUT_S = 5.0


def metadata(_request):
    return MetadataResponse(cluster_id="the cluster")


def ask(address, timeout_s=TIMEOUT_S):
    with Connection(address, timeout_s) as connection:
        return connection.call(MetadataRequest(topics=None), MetadataResponse)


def test_a_call_takes_the_newest_version_that_both_know():
    with ScriptedBroker({MetadataRequest: metadata}) as broker:
        assert ask(broker.address).cluster_id == "the cluster"
        assert [header.api_version for header in broker.headers] == [4, 13]
        assert broker.headers[0].client_id == "barnabas"
    versions = {MetadataRequest: (0, 7)}
    with ScriptedBroker({MetadataRequest: metadata}, versions=versions) as broker:
        assert ask(broker.address).cluster_id == "the cluster"
        assert broker.headers[-1].api_version == 7


def test_an_old_broker_is_asked_again_for_its_versions_in_version_0():
    versions = {ApiVersionsRequest: (0, 2)}
    with ScriptedBroker({MetadataRequest: metadata}, versions=versions) as broker:
        assert ask(broker.address).cluster_id == "the cluster"
        assert [header.api_version for header in broker.headers] == [4, 0, 13]


def test_finalized_features_are_known_if_the_broker_tells_them():
    for features in ({"transaction.version": 2}, {}):
        with ScriptedBroker({}, features=features) as broker, Connection(broker.address, 5) as one:
            assert one.features == features


@pytest.mark.parametrize(
    ("versions", "words"),
    [({}, "does not serve it"), ({DeleteTopicsRequest: (7, 9)}, "serves versions 7 to 9")],
)
def test_an_unserved_api_is_reported(versions, words):
    answers = {MetadataRequest: metadata}
    if versions:
        answers[DeleteTopicsRequest] = metadata
    with ScriptedBroker(answers) as broker, Connection(broker.address, TIMEOUT_S) as connection:
        for one in versions.values():
            connection.versions[20] = one
        assert not connection.serves(DeleteTopicsRequest)
        with pytest.raises(NotServed, match=words) as refused:
            connection.call(DeleteTopicsRequest(timeout_ms=1), DeleteTopicsResponse)
        assert "DELETE_TOPICS (API key 20)" in str(refused.value)


def frame(data):
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "hung up"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (struct.pack(">i", -1), "does not speak"),
        (frame(struct.pack(">i", 99)), "answered request 99"),
        (frame(struct.pack(">i", 2) + b"\0"), "with something else"),
        (frame(struct.pack(">i", 2) + b"\1\0\0" + bytes(50)), "tagged fields"),
        (frame(struct.pack(">i", 2) + bytes(5) + b"\xff" * 9), "with something else"),
    ],
)
def test_an_invalid_answer_is_refused(answer, words):
    with (
        ScriptedBroker({MetadataRequest: lambda _request: answer}) as broker,
        pytest.raises(BrokerError, match=words),
    ):
        ask(broker.address)


def test_what_does_not_fit_a_request_is_refused_before_it_is_sent():
    with (
        ScriptedBroker({MetadataRequest: metadata}) as broker,
        Connection(broker.address, TIMEOUT_S) as connection,
    ):
        for name, error in (("a" * 40_000, BrokerError), ("\udcff", UnicodeEncodeError)):
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
            with pytest.raises(error):
                connection.call(request, MetadataResponse)
        answer = connection.call(MetadataRequest(topics=None), MetadataResponse)
        assert answer.cluster_id == "the cluster"


def test_a_broker_that_closes_inside_an_answer_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        connection = Connection(address, TIMEOUT_S)
        accepted = socket.create_connection(listener.getsockname())
        taken, _ = listener.accept()
        connection._socket = accepted
        taken.sendall(frame(bytes(10))[:8])
        taken.close()
        with pytest.raises(BrokerError, match="hung up after 4 of 10 bytes"):
            connection._learn_versions()
        connection.close()


def test_a_silent_broker_times_out():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(BrokerError, match=r"did not answer API_VERSIONS within 0\.05 s"):
            ask(address, 0.05)


def test_a_refusal_of_the_versions_is_reported():
    def refuse(_request):
        return ApiVersionsResponse(error_code=31)

    with (
        ScriptedBroker({ApiVersionsRequest: refuse}) as broker,
        pytest.raises(BrokerError, match=r"CLUSTER_AUTHORIZATION_FAILED \(31\)"),
    ):
        ask(broker.address)


@pytest.mark.parametrize("host", ["é" * 70, "a" * 70, "a..b"])
def test_what_cannot_be_the_name_of_a_host_is_refused_in_one_sentence(host):
    with pytest.raises(BrokerError, match=r"is no name of a host|no broker answers"):
        ask(f"{host}:9092")


def test_an_unreachable_broker_is_reported_with_what_to_check():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(BrokerError, match=r"no broker answers at .*BARNABAS_BOOTSTRAP"):
        ask(address)


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("host:9093", ("host", 9093)),
        ("host", ("host", 9092)),
        ("[::1]:9093", ("::1", 9093)),
        ("[::1]", ("::1", 9092)),
        ("", None),
        (":9092", None),
        ("host:", None),
        ("host:0", None),
        ("host:65536", None),
        ("host:x", None),
    ],
)
def test_addresses(address, wanted):
    if wanted is None:
        with pytest.raises(BrokerError, match="expected HOST:PORT"):
            split_address(address)
    else:
        assert split_address(address) == wanted
