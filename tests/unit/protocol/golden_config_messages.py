"""Bytes that Apache Kafka 4.3's client library wrote: configs of topics and other resources.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`, made by
org.apache.kafka.common.message's JSON converters from the same values.
"""

from protocol.messages import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)


def describe(version: int) -> describe_configs.DescribeConfigsRequest:
    """Return a request with every field of that version."""
    return describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=2,
                resource_name="clicks",
                configuration_keys=["retention.ms", "segment.bytes"],
            ),
            describe_configs.DescribeConfigsResource(
                resource_type=4, resource_name="1", configuration_keys=None
            ),
            describe_configs.DescribeConfigsResource(
                resource_type=8, resource_name="", configuration_keys=[]
            ),
        ],
        include_synonyms=version < 4,
        include_documentation=version >= 3,
    )


def described(version: int) -> describe_configs.DescribeConfigsResponse:
    """Return a response with every field of that version."""
    retention = describe_configs.DescribeConfigsResourceResult(
        name="retention.ms",
        value="1000",
        read_only=True,
        config_source=1,
        synonyms=[
            describe_configs.DescribeConfigsSynonym(name="retention.ms", value="1000", source=1),
            describe_configs.DescribeConfigsSynonym(name="log.retention.ms", value=None, source=5),
        ],
    )
    secret = describe_configs.DescribeConfigsResourceResult(
        name="ssl.key.password", value=None, is_sensitive=True
    )
    if version >= 3:
        retention.config_type, retention.documentation = 5, "how long"
        secret.config_type, secret.documentation = 9, None
    return describe_configs.DescribeConfigsResponse(
        throttle_time_ms=7,
        results=[
            describe_configs.DescribeConfigsResult(
                error_message=None,
                resource_type=2,
                resource_name="clicks",
                configs=[retention, secret],
            ),
            describe_configs.DescribeConfigsResult(
                error_code=40, error_message="no", resource_type=4, resource_name="9"
            ),
        ],
    )


ALTER = alter_configs.AlterConfigsRequest(
    resources=[
        alter_configs.AlterConfigsResource(
            resource_type=2,
            resource_name="clicks",
            configs=[
                alter_configs.AlterableConfig(name="retention.ms", value="1000"),
                alter_configs.AlterableConfig(name="cleanup.policy", value=None),
            ],
        ),
        alter_configs.AlterConfigsResource(resource_type=4, resource_name="1"),
    ],
    validate_only=True,
)
ALTERED = alter_configs.AlterConfigsResponse(
    throttle_time_ms=7,
    responses=[
        alter_configs.AlterConfigsResourceResponse(
            error_message=None, resource_type=2, resource_name="clicks"
        ),
        alter_configs.AlterConfigsResourceResponse(
            error_code=40, error_message="no", resource_type=4, resource_name="9"
        ),
    ],
)
ALTER_SOME = incremental_alter_configs.IncrementalAlterConfigsRequest(
    resources=[
        incremental_alter_configs.AlterConfigsResource(
            resource_type=2,
            resource_name="clicks",
            configs=[
                incremental_alter_configs.AlterableConfig(name="retention.ms", value="1000"),
                incremental_alter_configs.AlterableConfig(
                    name="segment.ms", config_operation=1, value=None
                ),
                incremental_alter_configs.AlterableConfig(
                    name="cleanup.policy", config_operation=3, value="compact"
                ),
            ],
        ),
        incremental_alter_configs.AlterConfigsResource(resource_type=4, resource_name="1"),
    ],
    validate_only=True,
)
SOME_ALTERED = incremental_alter_configs.IncrementalAlterConfigsResponse(
    throttle_time_ms=7,
    responses=[
        alter_configs.AlterConfigsResourceResponse(
            error_message=None, resource_type=2, resource_name="clicks"
        ),
        alter_configs.AlterConfigsResourceResponse(
            error_code=40, error_message="no", resource_type=4, resource_name="9"
        ),
    ],
)


def config_resources(version: int) -> list_config_resources.ListConfigResourcesResponse:
    """Return a response with every field of that version."""
    response = list_config_resources.ListConfigResourcesResponse(
        throttle_time_ms=7,
        error_code=29,
        config_resources=[list_config_resources.ConfigResource(resource_name="metrics")],
    )
    if version >= 1:
        response.config_resources.append(
            list_config_resources.ConfigResource(resource_name="clicks", resource_type=2)
        )
    return response


GOLDEN = [
    (
        describe(4),
        4,
        (
            "040207636c69636b73030d726574656e74696f6e2e6d730e7365676d656e742e6279746573000402"
            "31000008010100000100"
        ),
    ),
    (
        describe(3),
        3,
        (
            "00000003020006636c69636b7300000002000c726574656e74696f6e2e6d73000d7365676d656e74"
            "2e627974657304000131ffffffff080000000000000101"
        ),
    ),
    (
        describe(1),
        1,
        (
            "00000003020006636c69636b7300000002000c726574656e74696f6e2e6d73000d7365676d656e74"
            "2e627974657304000131ffffffff0800000000000001"
        ),
    ),
    (
        described(4),
        4,
        (
            "00000007030000000207636c69636b73030d726574656e74696f6e2e6d730531303030010100030d"
            "726574656e74696f6e2e6d7305313030300100116c6f672e726574656e74696f6e2e6d7300050005"
            "09686f77206c6f6e67001173736c2e6b65792e70617373776f72640000ff0101090000000028036e"
            "6f040239010000"
        ),
    ),
    (
        described(3),
        3,
        (
            "00000007000000020000ffff020006636c69636b7300000002000c726574656e74696f6e2e6d7300"
            "043130303001010000000002000c726574656e74696f6e2e6d730004313030300100106c6f672e72"
            "6574656e74696f6e2e6d73ffff05050008686f77206c6f6e67001073736c2e6b65792e7061737377"
            "6f7264ffff00ff010000000009ffff002800026e6f0400013900000000"
        ),
    ),
    (
        described(1),
        1,
        (
            "00000007000000020000ffff020006636c69636b7300000002000c726574656e74696f6e2e6d7300"
            "043130303001010000000002000c726574656e74696f6e2e6d730004313030300100106c6f672e72"
            "6574656e74696f6e2e6d73ffff05001073736c2e6b65792e70617373776f7264ffff00ff01000000"
            "00002800026e6f0400013900000000"
        ),
    ),
    (
        ALTER,
        2,
        (
            "030207636c69636b73030d726574656e74696f6e2e6d730531303030000f636c65616e75702e706f"
            "6c69637900000004023101000100"
        ),
    ),
    (
        ALTER,
        0,
        (
            "00000002020006636c69636b7300000002000c726574656e74696f6e2e6d73000431303030000e63"
            "6c65616e75702e706f6c696379ffff040001310000000001"
        ),
    ),
    (ALTERED, 2, "00000007030000000207636c69636b73000028036e6f0402390000"),
    (ALTERED, 0, "00000007000000020000ffff020006636c69636b73002800026e6f04000139"),
    (
        ALTER_SOME,
        1,
        (
            "030207636c69636b73040d726574656e74696f6e2e6d73000531303030000b7365676d656e742e6d"
            "730100000f636c65616e75702e706f6c6963790308636f6d70616374000004023101000100"
        ),
    ),
    (
        ALTER_SOME,
        0,
        (
            "00000002020006636c69636b7300000003000c726574656e74696f6e2e6d7300000431303030000a"
            "7365676d656e742e6d7301ffff000e636c65616e75702e706f6c696379030007636f6d7061637404"
            "0001310000000001"
        ),
    ),
    (SOME_ALTERED, 1, "00000007030000000207636c69636b73000028036e6f0402390000"),
    (SOME_ALTERED, 0, "00000007000000020000ffff020006636c69636b73002800026e6f04000139"),
    (list_config_resources.ListConfigResourcesRequest(resource_types=[2, 4]), 1, "03020400"),
    (list_config_resources.ListConfigResourcesRequest(), 0, "00"),
    (config_resources(1), 1, "00000007001d03086d657472696373100007636c69636b73020000"),
    (config_resources(0), 0, "00000007001d02086d6574726963730000"),
]
