"""ListConfigResources, API key 74, versions 0-1.

Behaviour
- Topics and this broker are always listed; groups and client metrics subscriptions only if they
  have configs. An empty list of types means all. A type without resources is UNSUPPORTED_VERSION,
  as in Kafka.

Version notes: 0 lists client metrics subscriptions (KIP-714), 1 every type (KIP-1142).

Not done: loggers (BROKER_LOGGER, 8) have no configs here, so none are listed.
"""

from __future__ import annotations

from broker.configs.changes import CLIENT_METRICS, GROUP
from broker.metadata.image import CONFIG_BROKER, CONFIG_TOPIC
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_VERSION = 1
BROKER_LOGGER = 8  # a type in Kafka that has no resources here
ORDER = (GROUP, CLIENT_METRICS, BROKER_LOGGER, CONFIG_BROKER, CONFIG_TOPIC)  # Kafka's


def handle(request: Request, services: Services) -> Steps:
    """List the resources of the requested types."""
    body: ListConfigResourcesRequest = request.body
    wanted = set(body.resource_types) or set(ORDER)
    if request.header.api_version < TYPES_VERSION:
        wanted = {CLIENT_METRICS}
    if not wanted <= set(ORDER):
        return error_response(request, ErrorCode.UNSUPPORTED_VERSION)
    response = ListConfigResourcesResponse()
    for kind in (kind for kind in ORDER if kind in wanted):
        for name in services.configs.names(kind):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            yield 0
    return response


def error_response(_request: Request, code: ErrorCode) -> ListConfigResourcesResponse:
    """Return an answer with `code`."""
    return ListConfigResourcesResponse(error_code=code)
