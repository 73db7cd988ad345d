"""Records of ACLs against bytes that Apache Kafka 4.3 wrote for the same values."""

import pytest

from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.kafka.codec import decode_message, encode_message

ID = bytes([5]) * 16
GOLDEN = [
    (
        AccessControlEntryRecord(
            id=ID,
            resource_type=2,
            resource_name="orders",
            pattern_type=4,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=2,
        ),
        "0505050505050505050505050505050502076f7264657273040b557365723a616c696365022a030200",
    ),
    (
        AccessControlEntryRecord(
            id=ID,
            resource_type=4,
            resource_name="kafka-cluster",
            pattern_type=3,
            principal="User:C=DE,CN=ü",
            host="10.0.0.0/8",
            operation=-1,
            permission_type=3,
        ),
        (
            "05050505050505050505050505050505040e6b61666b612d636c75737465720310557365723a433d44"
            "452c434e3dc3bc0b31302e302e302e302f38ff0300"
        ),
    ),
    (RemoveAccessControlEntryRecord(id=ID), "0505050505050505050505050505050500"),
]


@pytest.mark.parametrize(("record", "expected"), GOLDEN)
def test_the_bytes_are_kafkas(record, expected):
    assert encode_message(record, 0).hex() == expected
    again, end = decode_message(type(record), 0, bytes.fromhex(expected))
    assert again == record
    assert end == len(expected) // 2
