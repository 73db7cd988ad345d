"""The keys as pages: docs/configuration.md and a sample server.properties.

`make docs` writes both from the declarations; do not edit them. tests/test_tidy.py compares them.
Run as `python -m config.render page|sample FILE`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from config.broker import broker_keys
from config.keys import Importance, Key, Update
from config.resources import CLIENT_METRICS_KEYS, GROUP_KEYS, NO_GROUPS, ResourceKey
from config.topic import topic_keys
from config.values import Kind, text_of
from config.without_effect import GROUPS_OF_KEYS

HEAD = """# Configuration

*Written by `make docs` from the declarations in `config/`. Do not edit.*

Names, kinds, defaults and bounds are those of Apache Kafka 4.3, so its documentation holds here
too; where a default differs, the row says what Kafka's is.

A value may come from several places. The strongest one holds:

| strength | place | form |
|---|---|---|
| 1 | the default | |
| 2 | `--config FILE` | Java properties; a Kafka's `server.properties` works |
| 3 | the environment | `KAFKA_LOG_RETENTION_HOURS` or `BARNABAS_LOG_RETENTION_HOURS` |
| 4 | the command line | `--set log.retention.hours=24`, `--data DIR` for `log.dirs` |
| 5 | set at run time, all brokers | `kafka-configs.sh --entity-type brokers --entity-default` |
| 6 | set at run time, this broker | `kafka-configs.sh --entity-type brokers --entity-name 1` |
| 7 | the topic's own | CreateTopics, or `kafka-configs.sh --entity-type topics` |

A value set while the broker runs, by these tools or any client, takes effect at once. The broker
keeps it in the metadata log, so it survives a restart. Every key of a topic can be changed this
way, and every broker key marked **~**; the others need a restart.

Keys that begin with `ssl.` can be set for one listener, as
`listener.name.<name in lower case>.<key>`; that beats the plain key. Most of them can be changed at
run time in this form ([security.md](security.md)).

In the environment a dot is `_`, an underscore `__` and a dash `___`, as in the apache/kafka image;
`BARNABAS_…` beats `KAFKA_…`, and `BARNABAS_LOG_FORMAT` is `barnabas.log.format`.

If a key has several names (`log.retention.ms`, `log.retention.minutes`, `log.retention.hours`), the
strongest place holds, and within one place the name listed first.

Sizes are plain numbers of bytes. With a bad value, or an unknown key after `--set`, the broker does
not start; elsewhere an unknown key is a warning that names the closest known one. **!** marks keys
that Kafka rates as highly important.
"""

BROKER = """
## The broker

| key | kind | default | allowed | what it does |
|---|---|---|---|---|
"""

TOPICS = """
## Topics

Each key can be set on a topic. The names in the second column set its default for the broker.

| key | the broker's names | kind | default | allowed | what it does |
|---|---|---|---|---|---|
"""

GROUPS = """
## Groups

A group can have its own values (`kafka-configs.sh --entity-type groups`). The default is the broker
key in the second column.

| key | the broker's name | kind | default | allowed | what it does |
|---|---|---|---|---|---|
"""

CLIENT_METRICS = """
## Subscriptions of client metrics

Which metrics clients push (`kafka-client-metrics.sh`, or `kafka-configs.sh --entity-type
client-metrics`).

| key | kind | default | allowed | what it does |
|---|---|---|---|---|
"""

IDLE = """
## Accepted without effect

A configuration may hold these keys of Kafka's, and they change nothing. At its start the broker
lists the ones that are set, and warns about those that promise security.

"""


def page() -> str:
    """Return docs/configuration.md."""
    broker = [described for described in broker_keys().values() if not described.own]
    own = [described for described in broker_keys().values() if described.own]
    parts = [HEAD, BROKER, *map(_broker_row, broker)]
    parts += [BROKER.replace("The broker", "Barnabas's own keys"), *map(_broker_row, own)]
    topic = topic_keys().values()
    parts += [TOPICS, *(_topic_row(key) for key in topic if not key.no_effect)]
    parts += [GROUPS, *(_group_row(key) for key in GROUP_KEYS.values() if key.doc != NO_GROUPS)]
    parts += [CLIENT_METRICS, *map(_client_metrics_row, CLIENT_METRICS_KEYS.values())]
    parts += [IDLE, *_idle(topic)]
    return "".join(parts)


def sample() -> str:
    """Return a server.properties that sets nothing: every key with its default, commented out."""
    entries = dict(broker_keys())
    for described in topic_keys().values():
        if described.synonyms and not described.no_effect:
            entries.setdefault(described.synonyms[0].name, described)
    head = "# Barnabas: every key with its default. Written by `make docs`.\n"
    parts = [head, *_sample_entries(entries)]
    return "\n".join(parts)


def _sample_entries(entries: Mapping[str, Key]) -> list[str]:
    return [_sample_entry(name, key) for name, key in entries.items() if not key.internal]


def _sample_entry(name: str, described: Key) -> str:
    default = text_of(described.default)
    value = "" if default is None else default
    lines = [*_wrapped(described.doc), f"#{name}={value}"]
    return "\n".join(lines) + "\n"


def _wrapped(sentence: str, width: int = 98) -> list[str]:
    lines = ["#"]
    for word in sentence.split():
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append("#")
        lines[-1] += f" {word}"
    return lines


def _broker_row(described: Key) -> str:
    names = [described.name, *(synonym.name for synonym in described.synonyms)]
    cells = [
        " or ".join(f"`{name}`" for name in names) + _marks(described),
        _kind(described),
        _default(described),
        described.check.allowed,
        _doc(described),
    ]
    return _row(cells)


def _topic_row(described: Key) -> str:
    cells = [
        f"`{described.name}`" + _weight(described),
        ", ".join(f"`{synonym.name}`" + _change(synonym.update) for synonym in described.synonyms),
        _kind(described),
        _default(described),
        described.check.allowed,
        _doc(described),
    ]
    return _row(cells)


def _group_row(described: ResourceKey) -> str:
    cells = [
        f"`{described.name}`",
        f"`{described.broker_name}`",
        described.kind.name.lower(),
        f"`{described.default}`",
        f"{described.lowest} to {described.highest}",
        described.doc,
    ]
    return _row(cells)


def _client_metrics_row(described: ResourceKey) -> str:
    bounds = f"{described.lowest} to {described.highest}" if described.lowest else ""
    default = f"`{described.default}`" if described.default else ""
    kind = described.kind.name.lower()
    return _row([f"`{described.name}`", kind, default, bounds, described.doc])


def _idle(topic: Iterable[Key]) -> list[str]:
    parts = []
    groups = ", ".join(f"`{key.name}`" for key in GROUP_KEYS.values() if key.doc == NO_GROUPS)
    parts.append(f"- On a group, those of share groups and streams: {groups}.\n")
    for described in topic:
        if described.no_effect:
            names = [described.name, *(synonym.name for synonym in described.synonyms)]
            listed = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
            parts.append(f"- {listed}: {described.no_effect}.\n")
    for group in GROUPS_OF_KEYS:
        listed = ", ".join(f"`{name}`" for name in group.names)
        parts.append(f"- {group.reason[0].upper()}{group.reason[1:]}: {listed}.\n")
    return parts


def _weight(described: Key) -> str:
    return " **!**" if described.importance is Importance.HIGH else ""


def _marks(described: Key) -> str:
    return _weight(described) + _change(described.update)


def _change(update: Update) -> str:
    return "" if update is Update.READ_ONLY else " **~**"


def _kind(described: Key) -> str:
    name = described.kind.name.lower()
    return f"{name}, {described.unit}" if described.unit else name


def _default(described: Key) -> str:
    default = text_of(described.default)
    shown = "not set" if default is None else f"`{default}`" if default else "empty"
    if described.kind is Kind.LONG and described.default == (1 << 63) - 1:
        shown = "without limit"
    if described.kafka_default:
        shown += f" (Kafka: {described.kafka_default})"
    return shown


def _doc(described: Key) -> str:
    internal = " *Internal.*" if described.internal else ""
    return described.doc + internal


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main(arguments: Sequence[str]) -> None:
    """Write the page or the sample to a file."""
    wanted, path = arguments
    text = {"page": page, "sample": sample}[wanted]()
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
