"""The requests about client quotas, as calls on a `Connection`; Kafka answers them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from client.codes import code_text
from client.kafka.connection import BrokerError, Connection
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotaEntity,
    QuotaAlteration,
    QuotaOperation,
)
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaFilterComponent,
)

EXACT: Final = 0
DEFAULT: Final = 1

Entity = Sequence[tuple[str, str | None]]  # (type, name); None is the default of the type


class QuotaRow(NamedTuple):
    """The quotas of one entity, by key."""

    entity: Entity
    values: Mapping[str, float]


def quotas(connection: Connection, entity: Entity = ()) -> list[QuotaRow]:
    """Return the quotas of all entities, or of those that have the parts of `entity`.

    Raises BrokerError.
    """
    asked = [
        QuotaFilterComponent(
            entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name
        )
        for kind, name in entity
    ]
    answer: DescribeClientQuotasResponse = connection.call(
        DescribeClientQuotasRequest(components=asked), DescribeClientQuotasResponse
    )
    if answer.error_code:
        why = code_text(answer.error_code, answer.error_message)
        raise BrokerError(f"the quotas were not listed: {why}")
    rows = [
        QuotaRow(
            sorted(
                ((part.entity_type, part.entity_name) for part in entry.entity),
                key=lambda part: part[0],
                reverse=True,  # the user before the client id
            ),
            {one.key: one.value for one in sorted(entry.values, key=lambda one: one.key)},
        )
        for entry in answer.entries or ()
    ]
    return sorted(rows, key=lambda row: [(kind, name or "") for kind, name in row.entity])


def alter(connection: Connection, entity: Entity, values: Mapping[str, float | None]) -> None:
    """Set quotas of an entity, and remove those whose value is None. Raises BrokerError."""
    alteration = QuotaAlteration(
        entity=[AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            QuotaOperation(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )
    answer: AlterClientQuotasResponse = connection.call(
        AlterClientQuotasRequest(entries=[alteration]), AlterClientQuotasResponse
    )
    for entry in answer.entries:
        if entry.error_code:
            why = code_text(entry.error_code, entry.error_message)
            raise BrokerError(f"the quotas were not changed: {why}")
