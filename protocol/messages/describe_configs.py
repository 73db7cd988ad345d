"""DescribeConfigs, API key 32, versions 1 to 4: what a topic, a broker or the like is set to.

Version notes
- 0 went with Apache Kafka 4.0, and with it a flag "is the default". 1: `config_source`, and the
  synonyms on request (KIP-226).
- 2: a throttled answer is sent before the pause (KIP-219). 3: types, and on request documentation
  (KIP-569). 4: flexible.

Source: DescribeConfigsRequest.json and DescribeConfigsResponse.json, Apache Kafka 4.3.
"""

from dataclasses import field
from typing import Annotated

from protocol.wire import Bool, Int8, Int16, Int32, Nullable, Since, String, message, structure


@structure
class DescribeConfigsResource:
    """A resource (ConfigResource.Type); null keys ask for all of its configs."""

    resource_type: Int8
    resource_name: String
    configuration_keys: Annotated[list[String] | None, Nullable()] = field(default_factory=list)


@message(api_key=32, kind="request", versions=(1, 4), flexible_since=4)
@structure
class DescribeConfigsRequest:
    """Resources to describe."""

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, Since(3)] = False


@structure
class DescribeConfigsSynonym:
    """A name under which the config could have its value, and the value it has there."""

    name: String
    value: Annotated[String | None, Nullable()] = ""
    source: Int8 = 0


@structure
class DescribeConfigsResourceResult:
    """One config. `config_source` is Kafka's ConfigSource, `config_type` its ConfigType."""

    name: String
    value: Annotated[String | None, Nullable()] = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Annotated[Int8, Since(3)] = 0
    documentation: Annotated[String | None, Since(3), Nullable(since=3)] = ""


@structure
class DescribeConfigsResult:
    """One resource. `error_message` is null, and not empty, without an error."""

    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
    resource_type: Int8
    resource_name: String
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(api_key=32, kind="response", versions=(1, 4), flexible_since=4)
@structure
class DescribeConfigsResponse:
    """An answer for every resource of the request."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
