"""Counts the error codes in answers, by API, as Kafka's ErrorsPerSec does.

The answers of Produce and Fetch are the path of the data: their handlers count errors where they
arise. Any other answer is searched. Where its message can hold a code, at any depth, is found once
for each API, so the search touches no other field.

NONE is not counted: it is what is left of the requests.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, Final

from broker.runtime.traffic import Traffic
from protocol.api_keys import ApiKey

COUNTED_WHERE_MADE: Final = frozenset((int(ApiKey.PRODUCE), int(ApiKey.FETCH)))

Search = Callable[[Any, Callable[[int], None]], None]


class ErrorCounts:
    """Searches answers and counts into `traffic`."""

    __slots__ = ("_searches", "_traffic")

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._searches: dict[type[Any], Search | None] = {}

    def count(self, api_key: int, response: Any) -> None:
        """Count every code but NONE in an answer."""
        kind = type(response)
        try:
            search = self._searches[kind]
        except KeyError:
            search = self._searches[kind] = search_of(kind)
        if search is not None:
            errors = self._traffic.errors

            def add(code: int) -> None:
                errors[api_key, int(code)] += 1

            search(response, add)


def _not_none(kind: Any) -> Any:
    """Return T of `T | None`."""
    inner = [one for one in typing.get_args(kind) if one is not type(None)]
    return inner[0] if type(None) in typing.get_args(kind) and len(inner) == 1 else kind


def search_of(message: type[Any]) -> Search | None:
    """Return the function that finds the codes of a message; None if it can hold none."""
    has_code = False
    below: list[tuple[str, bool, Search]] = []
    types = typing.get_type_hints(message)
    for field in dataclasses.fields(message):
        if field.name == "error_code":
            has_code = True
            continue
        kind = _not_none(types[field.name])
        is_list = typing.get_origin(kind) is list
        inner = typing.get_args(kind)[0] if is_list else kind
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            search = search_of(inner)
            if search is not None:
                below.append((field.name, is_list, search))
    if not has_code and not below:
        return None

    def found(value: Any, add: Callable[[int], None]) -> None:
        if has_code and value.error_code:
            add(value.error_code)
        for name, is_list, search in below:
            inner = getattr(value, name)
            if inner is None:
                continue
            if is_list:
                for one in inner:
                    search(one, add)
            else:
                search(inner, add)

    return found
