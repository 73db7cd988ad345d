"""Counts the error codes in answers, by API, as Kafka's ErrorsPerSec does.

The answers of Produce and Fetch are the path of the data: their handlers count errors where they
arise. Any other answer is searched. Where its message can hold a code, at any depth, is found once
for each API, so the search touches no other field. A long answer is searched in steps
(`broker.runtime.steps`).

NONE is not counted: it is what is left of the requests.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple

from broker.runtime.steps import finished
from broker.runtime.traffic import Traffic
from protocol.api_keys import ApiKey

COUNTED_WHERE_MADE: Final = frozenset((int(ApiKey.PRODUCE), int(ApiKey.FETCH)))

SEARCHED_PER_STEP: Final = 1_000  # elements without lists in them

Add = Callable[[int], None]


class ErrorCounts:
    """Searches answers and counts into `traffic`."""

    __slots__ = ("_searches", "_traffic")

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._searches: dict[type[Any], Search | None] = {}

    def count(self, api_key: int, response: Any) -> None:
        """Count every code but NONE in a short answer."""
        finished(self.count_in_steps(api_key, response))

    def count_in_steps(self, api_key: int, response: Any) -> Generator[int, None, None]:
        """Count every code but NONE in an answer, in steps."""
        kind = type(response)
        try:
            search = self._searches[kind]
        except KeyError:
            search = self._searches[kind] = search_of(kind)
        if search is not None:
            errors = self._traffic.errors

            def add(code: int) -> None:
                errors[api_key, int(code)] += 1

            yield from search.run(response, add)


def _not_none(kind: Any) -> Any:
    """Return T of `T | None`."""
    inner = [one for one in typing.get_args(kind) if one is not type(None)]
    return inner[0] if type(None) in typing.get_args(kind) and len(inner) == 1 else kind


class Search(NamedTuple):
    """Where a message can hold codes: in itself, and in the messages of these fields."""

    has_code: bool
    below: list[tuple[str, bool, Search]]  # a field, whether it is a list, and its search

    def run(self, value: Any, add: Add) -> Generator[int, None, None]:
        """Call `add` for each code, in steps."""
        if self.has_code and value.error_code:
            add(value.error_code)
        for name, is_list, search in self.below:
            inner = getattr(value, name)
            if inner is None:
                continue
            if not is_list:
                yield from search.run(inner, add)
            elif not search.below:
                yield from _in_each(inner, add)
            else:
                for one in inner:
                    yield from search.run(one, add)
                    yield 0


def _in_each(values: list[Any], add: Add) -> Generator[int, None, None]:
    """Call `add` for the code that each value has, if there is one."""
    for start in range(0, len(values), SEARCHED_PER_STEP):
        if start:
            yield 0
        for value in values[start : start + SEARCHED_PER_STEP]:
            if value.error_code:
                add(value.error_code)


def search_of(message: type[Any]) -> Search | None:
    """Return the search of a message; None if it can hold no code."""
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
    return Search(has_code, below) if has_code or below else None
