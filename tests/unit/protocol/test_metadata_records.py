"""Metadata records against bytes that Apache Kafka 4.3 wrote for the same values, all versions."""

import pytest

from protocol import metadata_records as records
from protocol.kafka.codec import decode_message, encode_message
from protocol.metadata_records import ControlRecordType
from protocol.wire import message_spec
from tests.support.message_fields import each_version, record_messages

NODE, TOPIC, DIRECTORY = (bytes([fill]) * 16 for fill in (1, 2, 5))


def register_broker(**later: object) -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=NODE,
        broker_epoch=8,
        end_points=[
            records.RegisteredEndpoint(
                name="PLAINTEXT", host="localhost", port=65535, security_protocol=0
            )
        ],
        features=[
            records.RegisteredFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack=None,
        **later,
    )


def partition(**later: object) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=3,
        topic_id=TOPIC,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_recovery_state=1,
        leader_epoch=4,
        partition_epoch=6,
        **later,
    )


def change(**later: object) -> records.PartitionChangeRecord:
    return records.PartitionChangeRecord(
        partition_id=3,
        topic_id=TOPIC,
        isr=[],
        leader=records.NO_LEADER,
        replicas=[1],
        removing_replicas=[],
        adding_replicas=[],
        leader_recovery_state=0,
        **later,
    )


def registration_change(**later: object) -> records.BrokerRegistrationChangeRecord:
    return records.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=8, fenced=-1, **later)


def leader_change(version: int, **directory: bytes) -> records.LeaderChangeMessage:
    voters = [records.LeaderChangeVoter(voter_id=1, **directory)]
    return records.LeaderChangeMessage(
        version=version, leader_id=1, voters=voters, granting_voters=voters
    )


ELR = {"eligible_leader_replicas": [1], "last_known_elr": []}

GOLDEN = [
    (
        register_broker(),
        0,
        (
            "00000001010101010101010101010101010101010000000000000008020a504c41494e544558540a"
            "6c6f63616c686f7374ffff00000002116d657461646174612e76657273696f6e0007001e00000100"
        ),
    ),
    (
        register_broker(),
        1,
        (
            "00000001010101010101010101010101010101010000000000000008020a504c41494e544558540a"
            "6c6f63616c686f7374ffff00000002116d657461646174612e76657273696f6e0007001e00000100"
            "00"
        ),
    ),
    (
        register_broker(),
        2,
        (
            "0000000100010101010101010101010101010101010000000000000008020a504c41494e54455854"
            "0a6c6f63616c686f7374ffff00000002116d657461646174612e76657273696f6e0007001e000001"
            "0000"
        ),
    ),
    (
        register_broker(log_dirs=[DIRECTORY]),
        3,
        (
            "0000000100010101010101010101010101010101010000000000000008020a504c41494e54455854"
            "0a6c6f63616c686f7374ffff00000002116d657461646174612e76657273696f6e0007001e000001"
            "000100110205050505050505050505050505050505"
        ),
    ),
    (
        register_broker(log_dirs=[DIRECTORY], cordoned_log_dirs=[DIRECTORY]),
        4,
        (
            "0000000100010101010101010101010101010101010000000000000008020a504c41494e54455854"
            "0a6c6f63616c686f7374ffff00000002116d657461646174612e76657273696f6e0007001e000001"
            "00020011020505050505050505050505050505050501110205050505050505050505050505050505"
        ),
    ),
    (records.UnregisterBrokerRecord(broker_id=1, broker_epoch=8), 0, "00000001000000000000000800"),
    (
        records.TopicRecord(name="clicks", topic_id=TOPIC),
        0,
        "07636c69636b730202020202020202020202020202020200",
    ),
    (
        partition(),
        0,
        (
            "00000003020202020202020202020202020202020200000001020000000101010000000100000004"
            "0000000601000101"
        ),
    ),
    (
        change(),
        0,
        (
            "0000000302020202020202020202020202020202060001010104ffffffff02050200000001030101"
            "040101050100"
        ),
    ),
    (
        partition(directories=[DIRECTORY]),
        1,
        (
            "00000003020202020202020202020202020202020200000001020000000101010000000100000004"
            "00000006020505050505050505050505050505050501000101"
        ),
    ),
    (
        change(directories=[DIRECTORY]),
        1,
        (
            "0000000302020202020202020202020202020202070001010104ffffffff02050200000001030101"
            "04010105010008110205050505050505050505050505050505"
        ),
    ),
    (
        partition(directories=[DIRECTORY], **ELR),
        2,
        (
            "00000003020202020202020202020202020202020200000001020000000101010000000100000004"
            "0000000602050505050505050505050505050505050300010101050200000001020101"
        ),
    ),
    (
        change(directories=[DIRECTORY], **ELR),
        2,
        (
            "0000000302020202020202020202020202020202090001010104ffffffff02050200000001030101"
            "0401010501000605020000000107010108110205050505050505050505050505050505"
        ),
    ),
    (
        records.PartitionChangeRecord(partition_id=3, topic_id=TOPIC, leader=1),
        2,
        "000000030202020202020202020202020202020201010400000001",
    ),
    (
        records.ConfigRecord(
            resource_type=2, resource_name="clicks", name="retention.ms", value="1"
        ),
        0,
        "0207636c69636b730d726574656e74696f6e2e6d73023100",
    ),
    (
        records.ConfigRecord(resource_type=4, resource_name="", name="retention.ms", value=None),
        0,
        "04010d726574656e74696f6e2e6d730000",
    ),
    (records.FenceBrokerRecord(id=1, epoch=8), 0, "00000001000000000000000800"),
    (records.UnfenceBrokerRecord(id=1, epoch=8), 0, "00000001000000000000000800"),
    (records.RemoveTopicRecord(topic_id=TOPIC), 0, "0202020202020202020202020202020200"),
    (
        records.FeatureLevelRecord(name="metadata.version", feature_level=30),
        0,
        "116d657461646174612e76657273696f6e001e00",
    ),
    (
        records.ProducerIdsRecord(broker_id=1, broker_epoch=8, next_producer_id=1000),
        0,
        "00000001000000000000000800000000000003e800",
    ),
    (registration_change(), 0, "000000010000000000000008010001ff"),
    (registration_change(in_controlled_shutdown=1), 1, "000000010000000000000008020001ff010101"),
    (
        registration_change(in_controlled_shutdown=1, log_dirs=[DIRECTORY]),
        2,
        "000000010000000000000008030001ff01010102110205050505050505050505050505050505",
    ),
    (
        registration_change(in_controlled_shutdown=1, log_dirs=[DIRECTORY], cordoned_log_dirs=[]),
        3,
        ("000000010000000000000008040001ff01010102110205050505050505050505050505050505030101"),
    ),
    (records.NoOpRecord(), 0, "00"),
    (
        records.BeginTransactionRecord(name="Bootstrap records"),
        0,
        "01001212426f6f747374726170207265636f726473",
    ),
    (records.EndTransactionRecord(), 0, "00"),
    (records.AbortTransactionRecord(reason="gone"), 0, "01000505676f6e65"),
    (
        records.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=NODE,
            end_points=[
                records.RegisteredEndpoint(
                    name="CONTROLLER", host="localhost", port=9093, security_protocol=0
                )
            ],
            features=[
                records.RegisteredFeature(
                    name="metadata.version", min_supported_version=7, max_supported_version=30
                )
            ],
        ),
        0,
        (
            "000000010101010101010101010101010101010100020b434f4e54524f4c4c45520a6c6f63616c68"
            "6f7374238500000002116d657461646174612e76657273696f6e0007001e0000"
        ),
    ),
    (leader_change(0), 0, "00000000000102000000010002000000010000"),
    (
        leader_change(1, voter_directory_id=DIRECTORY),
        1,
        (
            "00010000000102000000010505050505050505050505050505050500020000000105050505050505"
            "0505050505050505050000"
        ),
    ),
    (
        records.SnapshotHeaderRecord(last_contained_log_timestamp=1_700_000_000_000),
        0,
        "00000000018bcfe5680000",
    ),
    (records.SnapshotFooterRecord(), 0, "000000"),
    (records.KRaftVersionRecord(kraft_version=1), 0, "0000000100"),
    (
        records.VotersRecord(
            voters=[
                records.Voter(
                    voter_id=1,
                    voter_directory_id=DIRECTORY,
                    endpoints=[
                        records.VoterEndpoint(name="CONTROLLER", host="localhost", port=9093)
                    ],
                    kraft_version_feature=records.KRaftVersionFeature(
                        min_supported_version=0, max_supported_version=1
                    ),
                )
            ]
        ),
        0,
        (
            "0000020000000105050505050505050505050505050505020b434f4e54524f4c4c45520a6c6f6361"
            "6c686f737423850000000001000000"
        ),
    ),
    (
        # as Kafka 4.3 wrote it when it created the topic of transactions
        records.ClearElrRecord(topic_name="__transaction_state"),
        0,
        "145f5f7472616e73616374696f6e5f737461746500",
    ),
]


@pytest.mark.parametrize(("record", "version", "golden"), GOLDEN)
def test_bytes_are_kafkas(record: object, version: int, golden: str) -> None:
    assert encode_message(record, version).hex() == golden
    data = bytes.fromhex(golden)
    assert decode_message(type(record), version, data) == (record, len(data))


def test_every_version_of_every_record_is_in_the_table() -> None:
    covered = {(type(record), version) for record, version, _ in GOLDEN}
    declared = [cls for cls in record_messages() if cls.__module__ == records.__name__]
    assert covered == set(each_version(declared))  # those of acl_records have a test of their own


def test_a_type_finds_its_class() -> None:
    # Kafka's MetadataRecordType; users (11, 22) have a module; 10, 14, 21, 26 are kept.
    assert {record_type: cls.__name__ for record_type, cls in records.METADATA_RECORDS.items()} == {
        0: "RegisterBrokerRecord",
        1: "UnregisterBrokerRecord",
        2: "TopicRecord",
        3: "PartitionRecord",
        4: "ConfigRecord",
        5: "PartitionChangeRecord",
        7: "FenceBrokerRecord",
        8: "UnfenceBrokerRecord",
        9: "RemoveTopicRecord",
        12: "FeatureLevelRecord",
        14: "ClientQuotaRecord",
        15: "ProducerIdsRecord",
        17: "BrokerRegistrationChangeRecord",
        18: "AccessControlEntryRecord",
        19: "RemoveAccessControlEntryRecord",
        20: "NoOpRecord",
        23: "BeginTransactionRecord",
        24: "EndTransactionRecord",
        25: "AbortTransactionRecord",
        27: "RegisterControllerRecord",
        28: "ClearElrRecord",
    }


def test_control_types_are_kafkas() -> None:
    assert [(kind.name, kind.value) for kind in ControlRecordType] == [
        ("ABORT", 0),
        ("COMMIT", 1),
        ("LEADER_CHANGE", 2),
        ("SNAPSHOT_HEADER", 3),
        ("SNAPSHOT_FOOTER", 4),
        ("KRAFT_VERSION", 5),
        ("KRAFT_VOTERS", 6),
    ]


def test_every_record_is_found_by_a_type() -> None:
    found = {*records.METADATA_RECORDS.values(), *records.CONTROL_RECORDS.values()}
    assert found == set(record_messages())
    assert all(message_spec(cls).api_key == -1 for cls in records.CONTROL_RECORDS.values())


def test_a_new_change_record_changes_nothing() -> None:
    record = records.PartitionChangeRecord(partition_id=0, topic_id=TOPIC)
    assert encode_message(record, 2) == bytes(4) + TOPIC + b"\0"
