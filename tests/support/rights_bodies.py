"""Makes the requests of `rights_cases`, of plain values."""

from functools import cache
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from tests.support.rights_cases import ROWS, T_ID, Case


def body_of(case: Case, topic_id: bytes) -> Any:
    """Return the request, with the id of the topic `t` in its places."""
    return _made(ROWS[case.api].request, case.body, topic_id)


def _made(cls: type[Any], values: Any, topic_id: bytes) -> Any:
    if isinstance(values, list):
        return [_made(cls, value, topic_id) for value in values]
    if not isinstance(values, dict):
        return topic_id if values == T_ID else values
    kinds = _structures(cls)
    return cls(**{name: _made(kinds[name], value, topic_id) for name, value in values.items()})


@cache
def _structures(cls: type[Any]) -> dict[str, Any]:
    """Return the class of the structures in each field, or whatever its type is."""
    return {name: _inner(kind) for name, kind in get_type_hints(cls).items()}


def _inner(kind: Any) -> Any:
    while get_origin(kind) in (Annotated, UnionType, list):
        kind = get_args(kind)[0]
    return kind
