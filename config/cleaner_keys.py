"""The broker's keys for compaction, beside those of config/broker_keys.py.

Names, kinds, defaults and bounds are those of Kafka's CleanerConfig, and the memory that each
thread must have is that of its KafkaConfig. (Kafka takes 0 threads, and then does not start.) The
keys that give topics their defaults (`log.cleaner.delete.retention.ms` …) are synonyms in
config/topic.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.broker_keys import BrokerKeys
from config.checks import at_least
from config.errors import ConfigError
from config.keys import SECOND_MS, MiB, Update, key
from config.values import Kind

CLUSTER_WIDE = Update.CLUSTER_WIDE
BUFFER_PER_THREAD_MIN = MiB
DOUBLE_MAX = 1.7976931348623157e308


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class CleanerKeys(BrokerKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    log_cleaner_enable: bool = key(
        "log.cleaner.enable",
        True,  # noqa: FBT003
        Kind.BOOLEAN,
        doc="Whether topics with cleanup.policy=compact are compacted. Without, they keep every"
        " record.",
    )
    log_cleaner_threads: int = key(
        "log.cleaner.threads",
        1,
        Kind.INT,
        check=at_least(1),
        update=CLUSTER_WIDE,
        doc="How many logs may be compacted at a time. While the broker runs it can be halved or"
        " doubled at a time.",
    )
    log_cleaner_backoff_ms: int = key(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=CLUSTER_WIDE,
        doc="How long to wait when no log is dirty enough.",
    )
    log_cleaner_dedupe_buffer_size: int = key(
        "log.cleaner.dedupe.buffer.size",
        128 * MiB,
        Kind.LONG,
        update=CLUSTER_WIDE,
        doc="The most bytes of memory for the keys of all passes under way: 24 a key. They are"
        " taken when a pass needs them, and given back at its end. More than 1 MiB for each of"
        " log.cleaner.threads; a pass uses 2 GiB at most.",
    )
    log_cleaner_io_buffer_load_factor: float = key(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        Kind.DOUBLE,
        update=CLUSTER_WIDE,
        doc="Which part of that memory may be used before a pass ends where it is, from 0.1 to"
        " 0.95: above it the search for a free place gets slow, below it a pass rewrites much for"
        " few keys.",
    )
    log_cleaner_io_max_bytes_per_second: float = key(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE_MAX,
        Kind.DOUBLE,
        update=CLUSTER_WIDE,
        doc="How much compaction reads and writes a second, all threads together.",
    )

    def _check_cleaner(self) -> None:
        """Refuse so little memory for keys that a pass rewrites a log for a handful of them."""
        threads = self.log_cleaner_threads
        if self.log_cleaner_dedupe_buffer_size // threads <= BUFFER_PER_THREAD_MIN:
            raise ConfigError(
                f"not enough for each of log.cleaner.threads={threads}",
                key="log.cleaner.dedupe.buffer.size",
                value=str(self.log_cleaner_dedupe_buffer_size),
                allowed=f"{(BUFFER_PER_THREAD_MIN + 1) * threads} or more",
            )
