"""Every name that a broker's configuration may hold, as DescribeConfigs lists them.

config/broker_keys.py and config/topic.py declare the keys that have an effect, each with all its
names and units; config/idle_keys.py lists the keys without effect. DescribeConfigs and AlterConfigs
know names, not keys or units: `log.retention.hours` beside `log.retention.ms`, each with its own
kind, default and value. This module turns keys into such names. It holds no values.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from config.broker import broker_keys
from config.idle_keys import DYNAMIC_ONLY, idle_keys
from config.keys import Key, Synonym, Update, read_value
from config.listener_keys import key_behind, split_prefix
from config.topic import topic_keys
from config.values import Kind, Value, parse, text_of
from config.without_effect import REASONS


class BrokerName(NamedTuple):
    """One name; `alternatives` are all names of what it sets, itself among them, best first.

    One that `is_hidden` is shown only when it is set.
    """

    name: str
    kind: Kind
    default: str | None
    is_dynamic: bool
    is_hidden: bool
    documentation: str
    alternatives: tuple[str, ...]
    key: Key | None = None  # None: without effect
    synonym: Synonym | None = None  # None: the key's own name

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is never shown."""
        return self.kind is Kind.PASSWORD or (self.key is not None and self.key.sensitive)

    def shown(self, text: str) -> str | None:
        """Return a value that was given as `text` in the form in which Kafka shows it."""
        if self.is_sensitive:
            return None
        try:
            return text_of(parse(self.kind, text))
        except ValueError:
            return text

    def check(self, text: str) -> None:
        """Raise ConfigError if `text` is no value of this name; ValueError without effect."""
        if self.key is None:
            parse(self.kind, text)
        else:
            read_value(self.key, text, "", self.synonym)


@functools.cache
def broker_names() -> dict[str, BrokerName]:
    """Return every name of the broker's configuration, in alphabetical order."""
    found: dict[str, BrokerName] = {}
    for key in broker_keys().values():
        found[key.name] = _own_name(key)
        for synonym in key.synonyms:
            found[synonym.name] = _other_name(key, synonym, (synonym.name,))
    for key in topic_keys().values():
        alternatives = tuple(synonym.name for synonym in key.synonyms)
        for synonym in key.synonyms:
            found[synonym.name] = _other_name(key, synonym, alternatives)
    for idle in idle_keys().values():
        documentation = f"Accepted without effect: {REASONS[idle.name].reason}."
        found[idle.name] = BrokerName(
            idle.name,
            idle.kind,
            idle.default,
            idle.is_dynamic,
            is_hidden=idle.name in DYNAMIC_ONLY,
            documentation=documentation,
            alternatives=(idle.name,),
        )
    return dict(sorted(found.items()))


def broker_name(name: str) -> BrokerName | None:
    """Return a name of the broker's configuration, or a key of one listener; None if unknown.

    The plain key is the next best name of a listener's own.
    """
    behind, parts = key_behind(name), split_prefix(name)
    if behind is None or parts is None:
        return broker_names().get(name)
    return _own_name(behind)._replace(
        name=name,
        default=None,
        is_dynamic=behind.update is not Update.READ_ONLY,
        alternatives=(name, behind.name),
    )


def broker_alternatives(key: Key) -> tuple[str, ...]:
    """Return the broker's names for the default of a topic's key, best first."""
    return tuple(synonym.name for synonym in key.synonyms)


def _own_name(key: Key) -> BrokerName:
    return BrokerName(
        key.name,
        key.kind,
        text_of(key.default),
        key.update is Update.CLUSTER_WIDE,
        key.internal,
        documentation_of(key),
        (key.name,),
        key,
    )


def _other_name(key: Key, synonym: Synonym, alternatives: tuple[str, ...]) -> BrokerName:
    default: Value = key.default if len(key.synonyms) == 1 else synonym.default
    if key.name in broker_keys():  # node.id is broker.id's other name, with a default of its own
        default = synonym.default
    return BrokerName(
        synonym.name,
        synonym.kind or key.kind,
        text_of(default),
        synonym.update is not Update.READ_ONLY,
        key.internal,
        documentation_of(key),
        alternatives,
        key,
        synonym,
    )


def documentation_of(key: Key) -> str:
    """Return what a key does, or why it does nothing."""
    if key.no_effect:
        return f"{key.doc} Accepted without effect: {key.no_effect}."
    return key.doc
