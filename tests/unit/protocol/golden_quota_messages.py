"""Bytes that Apache Kafka 4.3's client library wrote: client quotas.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by Kafka's message
classes from the same values.
"""

from protocol.messages import alter_client_quotas, describe_client_quotas

DESCRIBE = describe_client_quotas.DescribeClientQuotasRequest(
    components=[
        describe_client_quotas.QuotaFilterComponent(
            entity_type="user", match_type=0, match="alice"
        ),
        describe_client_quotas.QuotaFilterComponent(
            entity_type="client-id", match_type=2, match=None
        ),
    ],
    strict=True,
)
DESCRIBED = describe_client_quotas.DescribeClientQuotasResponse(
    throttle_time_ms=7,
    error_message=None,
    entries=[
        describe_client_quotas.DescribedQuota(
            entity=[
                describe_client_quotas.DescribedQuotaEntity(
                    entity_type="user", entity_name="alice"
                ),
                describe_client_quotas.DescribedQuotaEntity(
                    entity_type="client-id", entity_name=None
                ),
            ],
            values=[
                describe_client_quotas.DescribedQuotaValue(key="producer_byte_rate", value=1024.5)
            ],
        )
    ],
)
REFUSED = describe_client_quotas.DescribeClientQuotasResponse(
    error_code=42, error_message="no", entries=None
)
ALTER = alter_client_quotas.AlterClientQuotasRequest(
    entries=[
        alter_client_quotas.QuotaAlteration(
            entity=[
                alter_client_quotas.AlteredQuotaEntity(entity_type="user", entity_name="alice"),
                alter_client_quotas.AlteredQuotaEntity(entity_type="client-id", entity_name=None),
            ],
            ops=[
                alter_client_quotas.QuotaOperation(key="producer_byte_rate", value=1024.5),
                alter_client_quotas.QuotaOperation(key="request_percentage", remove=True),
            ],
        )
    ],
    validate_only=True,
)
ALTERED = alter_client_quotas.AlterClientQuotasResponse(
    throttle_time_ms=7,
    entries=[
        alter_client_quotas.AlteredQuota(
            error_message=None,
            entity=[alter_client_quotas.AlteredQuotaEntity(entity_type="ip", entity_name=None)],
        ),
        alter_client_quotas.AlteredQuota(
            error_code=42,
            error_message="no",
            entity=[
                alter_client_quotas.AlteredQuotaEntity(entity_type="user", entity_name="alice")
            ],
        ),
    ],
)

GOLDEN = [
    (DESCRIBE, 0, "00000002000475736572000005616c6963650009636c69656e742d696402ffff01"),
    (DESCRIBE, 1, "0305757365720006616c696365000a636c69656e742d69640200000100"),
    (
        DESCRIBED,
        0,
        (
            "000000070000ffff00000001000000020004757365720005616c6963650009636c69656e742d6964"
            "ffff00000001001270726f64756365725f627974655f726174654090020000000000"
        ),
    ),
    (
        DESCRIBED,
        1,
        (
            "000000070000000203057573657206616c696365000a636c69656e742d69640000021370726f6475"
            "6365725f627974655f726174654090020000000000000000"
        ),
    ),
    (REFUSED, 0, "00000000002a00026e6fffffffff"),
    (REFUSED, 1, "00000000002a036e6f0000"),
    (
        ALTER,
        0,
        (
            "00000001000000020004757365720005616c6963650009636c69656e742d6964ffff000000020012"
            "70726f64756365725f627974655f726174654090020000000000000012726571756573745f706572"
            "63656e7461676500000000000000000101"
        ),
    ),
    (
        ALTER,
        1,
        (
            "0203057573657206616c696365000a636c69656e742d69640000031370726f64756365725f627974"
            "655f726174654090020000000000000013726571756573745f70657263656e746167650000000000"
            "0000000100000100"
        ),
    ),
    (
        ALTERED,
        0,
        (
            "00000007000000020000ffff0000000100026970ffff002a00026e6f000000010004757365720005"
            "616c696365"
        ),
    ),
    (
        ALTERED,
        1,
        "000000070300000002036970000000002a036e6f02057573657206616c696365000000",
    ),
]
