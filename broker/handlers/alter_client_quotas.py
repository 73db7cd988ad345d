"""AlterClientQuotas, API key 49, versions 0 and 1.

Behaviour
- Each entity is changed whole or refused with INVALID_REQUEST (`broker.quotas.alterations`). The
  answer comes when the changes are durable and in use. It is made in steps.
- A request with an entity of more than a hundred parts is refused as a whole.
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
from broker.quotas.recorded_quotas import PLANNED_HERE_MAX
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
PARTS_MAX: Final = 100  # of an entity: there are three types
PARTS_PER_STEP: Final = 200


async def handle(request: Request, services: Services) -> Steps:
    """Change the quotas of each entity; each has an outcome of its own."""
    body: AlterClientQuotasRequest = request.body
    entries = body.entries
    try:
        outcomes = await services.quotas.alter(
            map(_alteration, entries),
            is_long=len(entries) > PLANNED_HERE_MAX
            or sum(1 + len(entry.entity) + len(entry.ops) for entry in entries) > PLANNED_HERE_MAX,
            validate_only=body.validate_only,
        )
    except TopicError as error:  # of all
        return _refusal(entries, error)
    return _answer(outcomes)


def _alteration(entry: QuotaAlteration) -> Alteration:
    if len(entry.entity) > PARTS_MAX:  # to sort them would take long, even in a thread
        reason = f"An entity has {len(entry.entity)} parts; at most {PARTS_MAX} are looked at"
        raise TopicError(ErrorCode.INVALID_REQUEST, reason)
    values = [(op.key, None if op.remove else op.value) for op in entry.ops]
    return Alteration(_entity(entry), values)


def _entity(entry: QuotaAlteration) -> QuotaEntity:
    return quota_entity((part.entity_type, part.entity_name) for part in entry.entity)


def _answer(outcomes: Mapping[QuotaEntity, TopicError | None]) -> Steps:
    entries = []
    for entity, outcome in outcomes.items():
        entries.append(_answered(entity, outcome))
        yield _bytes_of(entries[-1].entity)
    return AlterClientQuotasResponse(entries=entries)


def _refusal(entries: Sequence[QuotaAlteration], error: TopicError) -> Steps:
    answers = []
    for entry in entries:
        parts = entry.entity
        answers.append(
            AlteredQuota(error_code=error.code, error_message=error.message, entity=parts)
        )
        for at in range(0, len(parts) or 1, PARTS_PER_STEP):
            yield len(error.message or "") + _bytes_of(parts[at : at + PARTS_PER_STEP])
    return AlterClientQuotasResponse(entries=answers)


def _bytes_of(parts: Sequence[AlteredQuotaEntity]) -> int:
    names = sum(len(one.entity_type) + len(one.entity_name or "") for one in parts)
    return ENTITY_BYTES + names


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
