"""Checks of values, as data: each check has a sentence for errors and for the documentation.

Checks see parsed values (an int, a tuple of strings), never text, and never None: a key whose
default is None is "not set" and needs no check. The checks follow Kafka's ConfigDef validators.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

ASSIGNORS = {"uniform", "range"}
TOPIC_AT_START = re.compile(
    r"(?!\.\.?(:|\Z))[a-zA-Z0-9._-]{1,249}"
    r"(:[1-9][0-9]{0,4}(:[1-9][0-9]{0,4}(:(compact|delete))?)?)?\Z"
)


class TopicAtStart(NamedTuple):
    """The parts of an entry of `barnabas.create.topics`; "" is one that it leaves out."""

    name: str
    partitions: str = ""
    replicas: str = ""
    cleanup_policy: str = ""


REPLICA = re.compile(r"[0-9]+:[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Check:
    """A predicate with the words for what it accepts."""

    allowed: str
    accepts: Callable[[Any], bool]


def at_least(minimum: float) -> Check:
    """Accept numbers from `minimum` up."""
    return Check(f"{minimum} or more", lambda value: value >= minimum)


def between(minimum: float, maximum: float) -> Check:
    """Accept numbers from `minimum` to `maximum`, both included."""
    return Check(f"{minimum} to {maximum}", lambda value: minimum <= value <= maximum)


def between_or(minimum: int, maximum: int, special: int) -> Check:
    """Accept numbers from `minimum` to `maximum`, and one number outside of them."""
    return Check(
        f"{minimum} to {maximum}, or {special}",
        lambda value: minimum <= value <= maximum or value == special,
    )


def one_of(*names: str) -> Check:
    """Accept one of `names`, in exactly this spelling."""
    return Check(", ".join(names), lambda value: value in names)


def some_of(*names: str) -> Check:
    """Accept a list of any of `names`; repeats say nothing more, as for Kafka (KIP-1161)."""
    return Check(f"a list of {', '.join(names)}", lambda value: set(value) <= set(names))


def topics_at_start() -> Check:
    """Accept a list of topics as NAME[:PARTITIONS[:REPLICAS[:CLEANUP.POLICY]]]."""
    return Check(
        "a list of NAME[:PARTITIONS[:REPLICAS[:compact or delete]]]",
        lambda value: all(TOPIC_AT_START.match(entry) for entry in value),
    )


def assignors() -> Check:
    """Accept a list of this broker's assignors for consumer groups, at least one, none twice."""
    return Check(
        "a list of uniform, range",
        lambda value: bool(value) and len(set(value)) == len(value) and set(value) <= ASSIGNORS,
    )


def replica_list() -> Check:
    """Accept a list of replicas, or all: Kafka's ThrottledReplicaListValidator."""
    return Check(
        "a list such as 0:1,1:1 of partitions and brokers, or *",
        lambda value: value == ("*",) or all(REPLICA.match(replica) for replica in value),
    )


def not_empty() -> Check:
    """Accept strings and lists that hold something, and lists without a repeated entry."""
    return Check(
        "not empty, nothing twice",
        lambda value: bool(value) and (isinstance(value, str) or len(set(value)) == len(value)),
    )


def accepts_all() -> Check:
    """Accept every value of the key's kind."""
    return Check("", lambda _value: True)
