"""UnregisterBroker, API key 64, version 0: take a broker that is gone out of the cluster.

Source: UnregisterBrokerRequest.json and UnregisterBrokerResponse.json, Apache Kafka 4.3 (KIP-631).
"""

from typing import Annotated

from protocol.wire import Int16, Int32, Nullable, String, message, structure


@message(api_key=64, kind="request", versions=(0, 0), flexible_since=0)
@structure
class UnregisterBrokerRequest:
    """The broker to unregister."""

    broker_id: Int32


@message(api_key=64, kind="response", versions=(0, 0), flexible_since=0)
@structure
class UnregisterBrokerResponse:
    """The outcome."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Nullable()] = ""
