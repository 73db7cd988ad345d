"""Changes of quotas, as the handler asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.metadata.quota_image import QuotaEntity
from broker.metadata.topic_rules import TopicError
from broker.quotas.alterations import Alteration
from broker.quotas.recorded_quotas import PLANNED_HERE_MAX
from tests.support.broker_rig import Rig


async def alter_quotas(
    rig: Rig, asked: Sequence[Alteration], *, validate_only: bool = False
) -> Mapping[QuotaEntity, TopicError | None]:
    """Return the outcome of each entity."""
    return await rig.services.quotas.alter(
        iter(asked),
        is_long=sum(1 + len(entity) + len(values) for entity, values in asked) > PLANNED_HERE_MAX,
        validate_only=validate_only,
    )
