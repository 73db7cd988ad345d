"""The operations of each resource: Kafka's bits for one that may do everything."""

import pytest

from broker import authorized_operations
from broker.security.acl.acl_codes import ResourceType
from broker.security.acl.resource_operations import OPERATIONS


@pytest.mark.parametrize(
    ("kind", "bits", "number"),
    [
        (ResourceType.CLUSTER, authorized_operations.CLUSTER_OPERATIONS, 8096),
        (ResourceType.TOPIC, authorized_operations.TOPIC_OPERATIONS, 3576),
        (ResourceType.GROUP, authorized_operations.GROUP_OPERATIONS, 3400),
    ],
)
def test_all_of_them_are_kafkas_bits(kind, bits, number):
    assert sum(1 << operation for operation in OPERATIONS[kind]) == bits == number
