"""The configs of a resource as rows: each key with its value, its source and its synonyms.

A key may be set in several layers. The first layer in Kafka's order wins, and within a layer the
most precise name (`log.retention.ms` before `log.retention.hours`):

    the topic's own   →  this broker's (dynamic)  →  all brokers' (dynamic)  →  static  →  default

The rows are those of Kafka's ConfigHelper, one oddity included: the list of synonyms begins at the
best name, so that a topic under a static `log.retention.hours=24` has the right value, no synonyms
and the source "default" in DescribeConfigs. In CreateTopics, where Kafka's controller makes the row
(KafkaConfigSchema), the source of the same is "static broker". `TopicRow` holds both.

Pure functions of the layers. Handlers select the rows that a client asked for, and the version; the
package `config` gives the values their meaning.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from config.broker_names import (
    BrokerName,
    broker_alternatives,
    broker_name,
    broker_names,
    documentation_of,
)
from config.resources import ResourceKey
from config.topic import TopicConfig, topic_keys

UNKNOWN_KIND = 0


class ConfigSource(enum.IntEnum):
    """Kafka's DescribeConfigsResponse.ConfigSource. On the wire: never renumber."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """A name that sets or could set a key's value, and the value it has there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One key of a resource. `kind` is Kafka's ConfigType, 0 where the key is unknown."""

    name: str
    value: str | None
    source: ConfigSource
    kind: int
    documentation: str
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: Sequence[Synonym] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow(Row):
    """`effective_source` is where the value comes from, whichever name sets it."""

    effective_source: ConfigSource


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The texts that the broker's names are set to, by layer."""

    own: Mapping[str, str]  # dynamic, of this broker
    cluster: Mapping[str, str]  # dynamic, of all brokers
    static: Mapping[str, str]  # from the file, the environment and the command line
    origins: Mapping[str, str] = field(default_factory=dict)  # where each static one was given

    def synonyms(self, names: Sequence[str]) -> list[Synonym]:
        """Return every value that one of `names` has, the effective one first."""
        found = []
        for layer, source in (
            (self.own, ConfigSource.DYNAMIC_BROKER),
            (self.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self.static, ConfigSource.STATIC_BROKER),
        ):
            for name in names:
                if name in layer:
                    known = broker_name(name)
                    shown = known.shown(layer[name]) if known else None
                    found.append(Synonym(name, shown, source))
        for name in names:
            known = broker_name(name)
            default = known.default if known else None
            if default is not None:
                found.append(Synonym(name, default, ConfigSource.DEFAULT))
        return found

    def names(self) -> set[str]:
        """Return every name that is set in any layer."""
        return {*self.own, *self.cluster, *self.static}


def topic_rows(config: TopicConfig, own: Mapping[str, str], layers: BrokerLayers) -> list[TopicRow]:
    """Return the rows of a topic: `config` is its effective config, `own` its own values."""
    texts = config.texts()
    rows = []
    for key in topic_keys().values():
        if key.internal:
            continue
        value = texts[key.name]
        names = broker_alternatives(key)
        everything = layers.synonyms(names)
        shown = _from_name(everything, names[0]) if names else []
        if key.name in own:
            mine = Synonym(key.name, value, ConfigSource.TOPIC)
            everything, shown = [mine, *everything], [mine, *shown]
        rows.append(
            TopicRow(
                name=key.name,
                value=value,
                source=shown[0].source if shown else ConfigSource.DEFAULT,
                effective_source=everything[0].source if everything else ConfigSource.DEFAULT,
                kind=key.kind,
                documentation=documentation_of(key),
                synonyms=shown,
            )
        )
    return rows


def broker_rows(layers: BrokerLayers) -> list[Row]:
    """Return the rows of this broker: every key that Kafka lists, and all others that are set."""
    known = broker_names()
    given = layers.names()
    rows = [
        _broker_row(name, layers)
        for name in known.values()
        if not name.is_hidden or name.name in given
    ]
    rows += [_set_row(name, layers) for name in sorted(given - set(known))]
    return rows


def cluster_rows(layers: BrokerLayers) -> list[Row]:
    """Return the rows of the cluster-wide dynamic configs, and no others."""
    alone = BrokerLayers({}, layers.cluster, {})
    rows = []
    for name in sorted(layers.cluster):
        row = _set_row(name, alone)
        synonyms = [
            entry
            for entry in row.synonyms
            if entry.name == name and entry.source is not ConfigSource.DEFAULT
        ]
        rows.append(replace(row, synonyms=synonyms))
    return rows


def resource_rows(
    keys: Iterable[ResourceKey], own: Mapping[str, str], source: ConfigSource, layers: BrokerLayers
) -> list[Row]:
    """Return the rows of a group or a subscription with the values `own`."""
    rows = []
    for key in keys:
        synonyms = layers.synonyms([key.broker_name]) if key.broker_name else []
        if key.shows_default:
            synonyms = [Synonym(key.name, key.default, ConfigSource.DEFAULT)]
        value = next((entry.value for entry in synonyms), key.default)
        if key.name in own:
            value = own[key.name].strip()
            synonyms = [Synonym(key.name, value, source), *synonyms]
        rows.append(
            Row(
                name=key.name,
                value=value,
                source=source if key.name in own else ConfigSource.DEFAULT,
                kind=key.kind,
                documentation=key.doc,
                synonyms=synonyms,
            )
        )
    return rows


def _broker_row(name: BrokerName, layers: BrokerLayers) -> Row:
    synonyms = _from_name(layers.synonyms(name.alternatives), name.name)
    head = synonyms[0] if synonyms else Synonym(name.name, None, ConfigSource.DEFAULT)
    return Row(
        name=name.name,
        value=head.value,
        source=head.source,
        kind=name.kind,
        documentation=_with_origin(name.documentation, head, layers),
        is_read_only=not name.is_dynamic,
        is_sensitive=name.is_sensitive,
        synonyms=synonyms,
    )


def _with_origin(documentation: str, held: Synonym, layers: BrokerLayers) -> str:
    """Add where a static value was given: the protocol has no other place to say it."""
    origin = layers.origins.get(held.name, "")
    if held.source is not ConfigSource.STATIC_BROKER or not origin:
        return documentation
    return f"{documentation} Set by {origin}."


def _set_row(name: str, layers: BrokerLayers) -> Row:
    """Return the row of a name that is set: a key, one listener's key, or unknown."""
    known = broker_name(name)
    return _broker_row(known, layers) if known else _unknown_row(name, layers)


def _unknown_row(name: str, layers: BrokerLayers) -> Row:
    """A key that may belong to anything, a secret's included: its value is not shown."""
    synonyms = layers.synonyms([name])
    return Row(
        name=name,
        value=None,
        source=synonyms[0].source,
        kind=UNKNOWN_KIND,
        documentation="",
        is_read_only=True,
        is_sensitive=True,
        synonyms=synonyms,
    )


def _from_name(synonyms: list[Synonym], name: str) -> list[Synonym]:
    """Drop the entries before the first value of `name`, as Kafka does."""
    for index, entry in enumerate(synonyms):
        if entry.name == name:
            return synonyms[index:]
    return []
