"""The record of client quotas against bytes that Apache Kafka 4.3 wrote for the same values."""

import pytest

from protocol.kafka.codec import decode_message, encode_message
from protocol.quota_records import ClientQuotaRecord, QuotaRecordEntity

GOLDEN = [
    (
        ClientQuotaRecord(
            entity=[
                QuotaRecordEntity(entity_type="client-id", entity_name=None),
                QuotaRecordEntity(entity_type="user", entity_name="alice"),
            ],
            key="producer_byte_rate",
            value=1024.5,
        ),
        (
            "030a636c69656e742d69640000057573657206616c696365001370726f64756365725f627974655f"
            "7261746540900200000000000000"
        ),
    ),
    (
        ClientQuotaRecord(
            entity=[QuotaRecordEntity(entity_type="ip", entity_name="127.0.0.1")],
            key="connection_creation_rate",
            remove=True,
        ),
        (
            "020369700a3132372e302e302e310019636f6e6e656374696f6e5f6372656174696f6e5f72617465"
            "00000000000000000100"
        ),
    ),
]


@pytest.mark.parametrize(("record", "golden"), GOLDEN)
def test_bytes_are_kafkas(record: ClientQuotaRecord, golden: str) -> None:
    assert encode_message(record, 0).hex() == golden
    data = bytes.fromhex(golden)
    assert decode_message(ClientQuotaRecord, 0, data) == (record, len(data))
