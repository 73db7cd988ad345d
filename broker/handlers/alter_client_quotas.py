"""AlterClientQuotas, API key 49, versions 0 and 1.

Behaviour
- Each entity is changed whole or refused with INVALID_REQUEST (`broker.quotas.alterations`). The
  answer comes when the changes are durable and in use.
- Removing a quota that is not set succeeds. Of a type that an entity names twice, the last counts.
- An entity that is named twice is answered once.
- `validate_only` checks and changes nothing.

Version notes: 1 flexible.
"""

from __future__ import annotations

from broker.metadata.quota_image import QuotaEntity, quota_entity
from broker.metadata.topic_rules import TopicError
from broker.quotas.alterations import Alteration
from broker.runtime.request import Request
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    AlteredQuotaEntity,
    QuotaAlteration,
)


async def handle(request: Request, services: Services) -> AlterClientQuotasResponse:
    """Change the quotas of each entity; each has an outcome of its own."""
    body: AlterClientQuotasRequest = request.body
    asked = [
        Alteration(_entity(entry), [(op.key, None if op.remove else op.value) for op in entry.ops])
        for entry in body.entries
    ]
    outcomes = await services.quotas.alter(asked, validate_only=body.validate_only)
    return AlterClientQuotasResponse(
        entries=[_answered(entity, outcome) for entity, outcome in outcomes.items()]
    )


def _entity(entry: QuotaAlteration) -> QuotaEntity:
    return quota_entity((part.entity_type, part.entity_name) for part in entry.entity)


def _answered(entity: QuotaEntity, outcome: TopicError | None) -> AlteredQuota:
    answer = AlteredQuota(
        error_message=None,
        entity=[AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity],
    )
    if outcome is not None:
        answer.error_code = outcome.code
        answer.error_message = outcome.message
    return answer


def error_response(request: Request, code: ErrorCode) -> AlterClientQuotasResponse:
    """Return an answer with `code` for each entity in the request."""
    return AlterClientQuotasResponse(
        entries=[
            AlteredQuota(error_code=code, error_message=code.message, entity=entry.entity)
            for entry in request.body.entries
        ]
    )
