"""DescribeCluster: one broker, at the address of the listener. Compared with Kafka."""

from pathlib import Path

import pytest

from protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest
from tests.support.broker_rig import Rig
from tests.support.rig_client import ask

NO_OPERATIONS = -(2**31)


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("asks", "operations"), [(False, NO_OPERATIONS), (True, 8096)])
async def test_every_version_names_this_broker(
    rig: Rig, version: int, asks: bool, operations: int
) -> None:
    body = DescribeClusterRequest(include_cluster_authorized_operations=asks)
    answer = await ask(rig, body, version)
    assert (answer.error_code, answer.error_message, answer.endpoint_type) == (0, None, 1)
    assert answer.cluster_id == rig.services.cluster_id
    assert answer.controller_id == 1
    assert answer.brokers == [DescribeClusterBroker(broker_id=1, host="127.0.0.1", port=9092)]
    assert answer.cluster_authorized_operations == operations


async def test_no_broker_is_fenced_and_the_rack_is_in_the_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "data", broker_rack="r1")
    (broker,) = (await ask(rig, DescribeClusterRequest(include_fenced_brokers=True), 2)).brokers
    assert (broker.rack, broker.is_fenced) == ("r1", False)
    assert await rig.close()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        (
            2,
            114,
            (
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
                "type CONTROLLER"
            ),
        ),
        (0, 115, "Unsupported endpoint type 0"),
        (3, 115, "Unsupported endpoint type 3"),
        (-1, 115, "Unsupported endpoint type -1"),
    ],
)
async def test_other_endpoints_are_refused(
    rig: Rig, version: int, endpoint_type: int, code: int, message: str
) -> None:
    body = DescribeClusterRequest(
        endpoint_type=endpoint_type, include_cluster_authorized_operations=True
    )
    answer = await ask(rig, body, version)
    assert (answer.error_code, answer.error_message) == (code, message)
    assert (answer.cluster_id, answer.controller_id, answer.brokers) == ("", -1, [])
    assert (answer.endpoint_type, answer.cluster_authorized_operations) == (1, NO_OPERATIONS)
