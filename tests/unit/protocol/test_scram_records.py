"""The records of users against bytes that Apache Kafka 4.3 wrote, and what is not shown of them."""

import pytest

from protocol import scram_records as records
from protocol.kafka.codec import decode_message, encode_message
from protocol.scram_records import SCRAM_MECHANISMS, ScramMechanism
from protocol.wire import message_spec
from tests.support.message_fields import each_version, messages_of

GOLDEN = [
    (
        records.UserScramCredentialRecord(
            name="alice",
            mechanism=1,
            salt=b"salt",
            stored_key=b"stored",
            server_key=b"server",
            iterations=4096,
        ),
        0,
        "06616c696365010573616c740773746f726564077365727665720000100000",
    ),
    (records.RemoveUserScramCredentialRecord(name="alice", mechanism=2), 0, "06616c6963650200"),
]


@pytest.mark.parametrize(("record", "version", "golden"), GOLDEN)
def test_bytes_are_kafkas(record, version, golden):
    assert encode_message(record, version).hex() == golden
    data = bytes.fromhex(golden)
    assert decode_message(type(record), version, data) == (record, len(data))


def test_every_version_is_in_the_table():
    covered = {(type(record), version) for record, version, _ in GOLDEN}
    assert covered == set(each_version(messages_of(records)))


def test_types_are_kafkas():
    assert message_spec(records.UserScramCredentialRecord).api_key == 11
    assert message_spec(records.RemoveUserScramCredentialRecord).api_key == 22


def test_the_keys_of_a_record_are_not_shown():
    shown = repr(GOLDEN[0][0])
    assert "alice" in shown
    assert "[hidden]" in shown
    assert not any(secret in shown for secret in ("b'salt", "stored'", "server'"))


def test_mechanisms_are_kafkas():
    assert [(name, code.value) for name, code in SCRAM_MECHANISMS.items()] == [
        ("SCRAM-SHA-256", 1),
        ("SCRAM-SHA-512", 2),
    ]
    assert [mechanism.digest for mechanism in ScramMechanism] == ["sha256", "sha512"]
