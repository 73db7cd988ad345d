"""Which names a broker's configuration may hold, and what is known of each."""

from __future__ import annotations

import functools

from config.broker import broker_keys
from config.keys import Key, Update
from config.listener_keys import key_behind
from config.providers import is_parameter
from config.topic import topic_keys
from config.values import Kind
from config.without_effect import REASONS, group_of


@functools.cache
def known_names() -> frozenset[str]:
    """Return every name that a broker's configuration may hold."""
    return frozenset(name for _, names in declared() for name in names) | frozenset(REASONS)


def is_known(name: str) -> bool:
    """Whether a broker's configuration may hold `name`."""
    return (
        name in known_names()
        or group_of(name) is not None
        or key_behind(name) is not None
        or is_parameter(name)
    )


@functools.cache
def declared() -> tuple[tuple[Key, tuple[str, ...]], ...]:
    """Every declared key with the names the broker's configuration may give it, best first."""
    broker = [
        (described, (name, *(synonym.name for synonym in described.synonyms)))
        for name, described in broker_keys().items()
    ]
    topic = [
        (described, tuple(synonym.name for synonym in described.synonyms))
        for described in topic_keys().values()
    ]
    return (*broker, *topic)


@functools.cache
def _update_modes() -> dict[str, Update]:
    modes = {}
    for described in (*topic_keys().values(), *broker_keys().values()):
        modes.update({synonym.name: synonym.update for synonym in described.synonyms})
    modes.update({name: described.update for name, described in broker_keys().items()})
    return modes


def update_mode(name: str) -> Update | None:
    """Return how a name changes at run time; Kafka's per-broker keys only behind a prefix."""
    behind = key_behind(name)
    if behind is not None:
        return Update.READ_ONLY if behind.update is Update.READ_ONLY else Update.PER_BROKER
    update = _update_modes().get(name)
    return Update.READ_ONLY if update is Update.PER_BROKER else update


def _hides(described: Key) -> bool:
    return described.sensitive or described.kind is Kind.PASSWORD


@functools.cache
def _secret_names() -> frozenset[str]:
    return frozenset(name for described, names in declared() if _hides(described) for name in names)


def is_secret(name: str) -> bool:
    """Whether the value of a key is a secret."""
    behind = key_behind(name)
    return _hides(behind) if behind is not None else name in _secret_names()
