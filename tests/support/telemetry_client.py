"""A client of a rig that asks for subscriptions and pushes metrics, with a clock of its own."""

import os
from typing import Any

from broker.configs.changes import CLIENT_METRICS, DELETE, SET, Operation, Resource
from broker.runtime.clock import ManualClock
from broker.telemetry.client_telemetry import ClientTelemetry
from protocol.compression import NONE
from protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from protocol.messages.push_telemetry import PushTelemetryRequest
from protocol.wire import ZERO_UUID
from tests.support.broker_rig import Rig
from tests.support.fake_connection import FakeConnection
from tests.support.otlp_writer import gauge, point, pushed

PUSH = pushed(gauge("org.apache.kafka.producer.x.avg", point(1.5, node_id="1")), client_rack="r")


class TelemetryClient:
    """A client of a rig, on one connection, with a clock that the test moves."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.clock = ManualClock()
        services = rig.services
        services.telemetry = ClientTelemetry(
            services.configs.subscriptions,
            services.config.barnabas_client_metrics_default,
            self.clock,
            os.urandom,
            services.metrics,
        )
        services.configs.client_metrics_changed = services.telemetry.changed
        self.connection = FakeConnection()
        self.instance_id = ZERO_UUID
        self.subscription_id = 0

    async def send(self, body: Any) -> Any:
        return await self.rig.call_on(self.connection, body, 0)

    async def ask(self) -> Any:
        answer = await self.send(
            GetTelemetrySubscriptionsRequest(client_instance_id=self.instance_id)
        )
        if not answer.error_code:
            self.instance_id = answer.client_instance_id
            self.subscription_id = answer.subscription_id
        return answer

    async def push(self, metrics: bytes = PUSH, codec: int = NONE, **fields: Any) -> int:
        given = {
            "client_instance_id": self.instance_id,
            "subscription_id": self.subscription_id,
            **fields,
        }
        answer = await self.send(
            PushTelemetryRequest(compression_type=codec, metrics=metrics, **given)
        )
        code: int = answer.error_code
        return code


async def subscribe(rig: Rig, name: str = "s", **configs: str | None) -> Any:
    operations = [
        Operation(key.replace("_", "."), DELETE if value is None else SET, value)
        for key, value in configs.items()
    ]
    return await rig.services.configs.alter([Resource(CLIENT_METRICS, name, operations)])
