"""DescribeClientQuotas, API key 48, versions 0 and 1.

Behaviour
- An entity matches if it has every type of the filter, with the name, as the default, or either.
  With `strict` it has no other type. A filter without components matches all entities, and with
  `strict` none.
- The quotas of an entity come in the order of Kafka's hash map, which clients' tests rely on.
- An unknown type is UNSUPPORTED_VERSION. A type that is named twice, an unknown way to match, a
  name beside a way that takes none, and addresses together with users or client ids are
  INVALID_REQUEST, with Kafka's texts.

Version notes: 1 flexible.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.metadata.quota_image import CLIENT_ID, IP, USER, QuotaEntity
from broker.runtime.request import Request
from broker.runtime.steps import Steps
from broker.services import Services
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribedQuota,
    DescribedQuotaEntity,
    DescribedQuotaValue,
    QuotaFilterComponent,
)

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
ENTITY_BYTES: Final = 20  # of an entity in the answer, beside names and keys
LOOKED_AT_PER_STEP: Final = 200
# Java's HashMap of keys that were set in one request: a table of 4, or of 8 for all keys.
_OF_SOME: Final = (
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
    "producer_byte_rate",
)
_OF_ALL: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "controller_mutation_rate",
    "request_percentage",
)


class _Refused(Exception):
    def __init__(self, text: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(text)
        self.code = code


class _Filter(NamedTuple):
    """The name that each type must have, None for the default, and the types with any name."""

    names: Mapping[str, str | None]
    types: frozenset[str]
    is_strict: bool

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether an entity is asked for."""
        if self.is_strict and len(entity) != len(self.names) + len(self.types):
            return False
        parts = dict(entity)
        return self.types <= parts.keys() and all(
            kind in parts and parts[kind] == name for kind, name in self.names.items()
        )


def handle(request: Request, services: Services) -> DescribeClientQuotasResponse | Steps:
    """List the entities that match, each with its quotas."""
    body: DescribeClientQuotasRequest = request.body
    try:
        wanted = _filter(body)
    except _Refused as refused:
        return DescribeClientQuotasResponse(
            error_code=refused.code, error_message=str(refused), entries=None
        )
    return _described(wanted, services)


def _described(wanted: _Filter, services: Services) -> Steps:
    response = DescribeClientQuotasResponse()
    assert response.entries is not None
    entities = tuple(services.controller.image.quotas.entities.items())
    for count, (entity, quotas) in enumerate(entities):
        if wanted.matches(entity):
            response.entries.append(_row(entity, quotas))
            yield ENTITY_BYTES + sum(len(name or "") for _, name in entity) + 30 * len(quotas)
        elif count % LOOKED_AT_PER_STEP == 0:
            yield 0
    return response


def _row(entity: QuotaEntity, quotas: Mapping[str, float]) -> DescribedQuota:
    order = _OF_ALL if len(quotas) == len(_OF_ALL) else _OF_SOME
    keys = [*(key for key in order if key in quotas), *(key for key in quotas if key not in order)]
    return DescribedQuota(
        entity=[DescribedQuotaEntity(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[DescribedQuotaValue(key=key, value=quotas[key]) for key in keys],
    )


def _filter(body: DescribeClientQuotasRequest) -> _Filter:
    """Read the filter of a request. Raises _Refused."""
    names: dict[str, str | None] = {}
    types: set[str] = set()
    for component in body.components:
        kind = component.entity_type
        if not kind:
            raise _Refused("Invalid empty entity type.")
        if kind in names or kind in types:
            raise _Refused(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise _Refused(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        _check_match(component)
        if component.match_type == SPECIFIED:
            types.add(kind)
        else:
            names[kind] = component.match
    used = names.keys() | types
    if IP in used and len(used) > 1:
        raise _Refused(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return _Filter(names, frozenset(types), body.strict)


def _check_match(component: QuotaFilterComponent) -> None:
    name = component.match
    if component.match_type == EXACT:
        if name is None:
            raise _Refused("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type in (DEFAULT, SPECIFIED):
        if name is not None:
            way = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
            raise _Refused(
                f"Request specified MATCH_TYPE_{way}, but also specified a match string."
            )
    else:
        raise _Refused(f"Unknown match type {component.match_type}")


def error_response(
    request: Request,  # noqa: ARG001
    code: ErrorCode,
) -> DescribeClientQuotasResponse:
    """Return an answer with `code` for the whole request."""
    return DescribeClientQuotasResponse(error_code=code, error_message=code.message, entries=None)
