"""AlterClientQuotas, API key 49, versions 0 and 1.

Behaviour
- Each entity is changed whole or refused with INVALID_REQUEST (`broker.quotas.alterations`). The
  answer comes when the changes are durable and in use. It is made in steps.
- Removing a quota that is not set succeeds. Of a type that an entity names twice, the last counts.
- An entity that is named twice is answered once.
- `validate_only` checks and changes nothing.

Version notes: 1 flexible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from broker.metadata.quota_image import QuotaEntity, quota_entity
from broker.metadata.topic_rules import TopicError
from broker.quotas.alterations import Alteration
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    AlteredQuotaEntity,
    QuotaAlteration,
)

ENTITY_BYTES: Final = 40  # of an entity in the answer, beside its names


async def handle(request: Request, services: Services) -> Steps:
    """Change the quotas of each entity; each has an outcome of its own."""
    body: AlterClientQuotasRequest = request.body
    entries = body.entries
    try:
        outcomes = await services.quotas.alter(
            map(_alteration, entries),
            entity_count=len(entries),
            value_count=sum(len(entry.ops) for entry in entries),
            validate_only=body.validate_only,
        )
    except TopicError as error:  # of all
        return _refusal(entries, error)
    return _answer(outcomes)


def _alteration(entry: QuotaAlteration) -> Alteration:
    values = [(op.key, None if op.remove else op.value) for op in entry.ops]
    return Alteration(_entity(entry), values)


def _entity(entry: QuotaAlteration) -> QuotaEntity:
    return quota_entity((part.entity_type, part.entity_name) for part in entry.entity)


def _answer(outcomes: Mapping[QuotaEntity, TopicError | None]) -> Steps:
    entries = []
    for entity, outcome in outcomes.items():
        entries.append(_answered(entity, outcome))
        yield ENTITY_BYTES + sum(len(kind) + len(name or "") for kind, name in entity)
    return AlterClientQuotasResponse(entries=entries)


def _refusal(entries: Sequence[QuotaAlteration], error: TopicError) -> Steps:
    answers = []
    for entry in entries:
        answers.append(
            AlteredQuota(error_code=error.code, error_message=error.message, entity=entry.entity)
        )
        yield ENTITY_BYTES
    return AlterClientQuotasResponse(entries=answers)


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
