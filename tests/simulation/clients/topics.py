"""The topics of a history, and what the clients know of them.

Clients meet at the same few topics, so each history has some of the `KINDS_OF_TOPIC`: logs that
roll all the time, compacted, recompressed and cached ones, some that lose their beginning. The
first client that needs a topic creates it.

What a kind promises decides what a client may do and what a judge may expect: on a topic that is
trimmed, a batch may be gone before its retry arrives, and the retry is a second batch. A topic that
may be deleted and made anew is used by its id only, and its id is part of its key in the history.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.wire import ZERO_UUID
from tests.support.history_checker import Key

if TYPE_CHECKING:
    from tests.simulation.context import Context

FAR_MS: Final = 300 * 86_400_000  # more than clocks jump in a history
SEGMENT_BYTES_LEAST: Final = 600  # of any topic, also after an administrator's changes
FOREVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
ROLLS: Final = FOREVER | {"internal.segment.bytes": "700", "index.interval.bytes": "150"}


@dataclass(slots=True)
class Topic:
    """A topic as its clients know it. Flags are for good: `had`, not `has`."""

    name: str
    configs: dict[str, str]
    partition_count: int = 1
    is_compacted: bool = False
    is_volatile: bool = False  # write.caching
    is_trimmed: bool = False  # by retention or DeleteRecords
    is_limited: bool = False  # in the size of its messages
    is_timed: bool = False  # in the timestamps of its records
    keeps_tombstones: bool = False  # for ever
    is_young: bool = False  # for compaction, always
    is_sized: bool = False  # deleted by retention.bytes, and by nothing else
    is_ageless: bool = False  # some records are of a far future, and retention must keep them
    may_be_gone: bool = False
    is_ledger: bool = False  # transactions write to it
    topic_id: bytes = ZERO_UUID
    is_known: bool = False

    @property
    def needs_keys(self) -> bool:
        """Whether it is compacted from the beginning, and nobody changes that."""
        return "compact" in self.configs.get("cleanup.policy", "")

    @property
    def is_ruled(self) -> bool:
        """Whether one rule of retention decides what is deleted, and nobody may change that."""
        return self.is_sized or self.is_ageless or self.is_ledger

    def key(self, partition: int) -> Key:
        """Return the key of a partition in the history."""
        return self.key_of(self.topic_id, partition)

    def key_of(self, topic_id: bytes, partition: int) -> Key:
        """Return the key of a partition of the topic that had this id."""
        if self.may_be_gone:
            return f"{self.name}:{topic_id.hex()[:8]}", partition
        return self.name, partition


KINDS_OF_TOPIC: Final[dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    "plain": (FOREVER, ()),
    "rolls": (ROLLS, ()),
    "gzip": (ROLLS | {"compression.type": "gzip"}, ()),
    "lz4": (FOREVER | {"compression.type": "lz4"}, ()),
    "unpacked": (ROLLS | {"compression.type": "uncompressed"}, ()),
    "compacted": (
        ROLLS | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"},
        ("is_compacted",),
    ),
    "kept": (
        ROLLS
        | {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.0",
            "delete.retention.ms": str(2**63 - 1),
        },
        ("is_compacted", "keeps_tombstones"),
    ),
    # Compacted, but not yet: nothing may be missing.
    "young": (
        ROLLS
        | {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.0",
            "min.compaction.lag.ms": str(FAR_MS),
        },
        ("is_young",),
    ),
    "cached": (ROLLS | {"write.caching": "true"}, ("is_volatile",)),
    "cached-late": (
        FOREVER | {"write.caching": "true", "flush.messages": "7", "flush.ms": "300"},
        ("is_volatile", "is_trimmed"),
    ),
    "short": (
        ROLLS | {"retention.bytes": "1500", "file.delete.delay.ms": "0"},
        ("is_trimmed", "is_sized"),
    ),
    "brief": (ROLLS | {"retention.ms": "2000"}, ("is_trimmed",)),
    # Records that do not grow old, among others that do.
    "ageless": (
        ROLLS
        | {
            "retention.ms": "500",
            "message.timestamp.type": "CreateTime",
            "message.timestamp.after.max.ms": str(2 * FAR_MS),
        },
        ("is_ageless", "is_trimmed"),
    ),
    "cut": (ROLLS, ("is_trimmed",)),
    "stamped": (ROLLS | {"message.timestamp.type": "LogAppendTime"}, ()),
    "timed": (
        ROLLS
        | {
            "message.timestamp.type": "CreateTime",
            "message.timestamp.before.max.ms": str(FAR_MS),
            "message.timestamp.after.max.ms": str(FAR_MS),
        },
        ("is_timed",),
    ),
    "limited": (ROLLS | {"max.message.bytes": "400"}, ("is_limited",)),
    "passing": (ROLLS | {"file.delete.delay.ms": "100"}, ("may_be_gone",)),
}


# Where transactions write. Others do, too; their segments are small.
LEDGERS: Final[dict[str, tuple[dict[str, str], tuple[str, ...]]]] = {
    "ledger": (ROLLS, ("is_ledger",)),
    "cached-ledger": (ROLLS | {"write.caching": "true"}, ("is_ledger", "is_volatile")),
    "compacted-ledger": (
        ROLLS | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"},
        ("is_ledger", "is_compacted"),
    ),
    "cut-ledger": (ROLLS, ("is_ledger", "is_trimmed")),
    "passing-ledger": (ROLLS | {"file.delete.delay.ms": "100"}, ("is_ledger", "may_be_gone")),
}
LEDGER_KINDS: Final = frozenset({"transactor", "rival", "member transactor"})  # of clients
MORE_LEDGERS: Final = (0, 1, 1, 2)
CUT: Final = ("cut", "cut-ledger")  # by requests alone

NEEDED: Final = {"deleter": "passing", "trimmer": "cut"}  # by kinds of clients


class Topics(dict[str, Topic]):
    """All topics of a history, by name."""

    def __init__(self, context: Context) -> None:
        chance = context.world.chance("topics")
        names = chance.sample(list(KINDS_OF_TOPIC), chance.choice((1, 2, 2, 3, 4, 6)))
        kinds = {client.kind for client in context.plan.clients}
        names += [name for kind, name in NEEDED.items() if kind in kinds and name not in names]
        is_trimmed = context.plan.settings.get("log.retention.bytes", "-1") != "-1"
        if kinds & LEDGER_KINDS:
            ledgers = context.world.chance("ledgers")
            first, *others = LEDGERS
            names += [first, *ledgers.sample(others, ledgers.choice(MORE_LEDGERS))]
        for name in names:
            configs, flags = (KINDS_OF_TOPIC | LEDGERS)[name]
            counts = (2, 2, 3) if name in LEDGERS else (1, 1, 2, 3)
            topic = Topic(name, configs, chance.choice(counts), **dict.fromkeys(flags, True))
            topic.is_trimmed |= is_trimmed and "retention.bytes" not in configs
            self[name] = topic
        self._record = context.record

    def any(self, chance: random.Random) -> Topic:
        """Choose a topic."""
        return self[chance.choice(list(self))]

    def learned(self, topic: Topic, topic_id: bytes, partition_count: int) -> None:
        """Note what an answer told. Partitions never become fewer."""
        if topic_id != topic.topic_id:
            topic.partition_count = partition_count
        topic.topic_id = topic_id
        topic.partition_count = max(topic.partition_count, partition_count)
        topic.is_known = True
        self.flagged(topic)

    def flagged(self, topic: Topic) -> None:
        """Tell the record which keys are volatile or compacted, also after a change of configs."""
        keys = [topic.key(number) for number in range(topic.partition_count)]
        if topic.is_volatile:
            self._record.volatile.update(keys)
        if topic.is_compacted:
            self._record.compacted.update(keys)


def topics_of(context: Context) -> Topics:
    """Return the topics of a history, the same for all its clients."""
    if context.topics is None:
        context.topics = Topics(context)
    topics: Topics = context.topics
    return topics
