"""The broker's keys for compaction, beside those of config/broker_keys.py.

Names, kinds, defaults and bounds are those of Kafka's CleanerConfig; the least memory per thread is
that of its KafkaConfig. (Kafka accepts 0 threads, and then does not start.) The keys that set the
defaults of topics (`log.cleaner.delete.retention.ms` …) are synonyms in config/topic.py.
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
        doc="Whether topics with cleanup.policy=compact are compacted. If not, they keep every"
        " record.",
    )
    log_cleaner_threads: int = key(
        "log.cleaner.threads",
        1,
        Kind.INT,
        check=at_least(1),
        update=CLUSTER_WIDE,
        doc="How many logs may be compacted at a time. A change at run time may at most halve"
        " or double it.",
    )
    log_cleaner_backoff_ms: int = key(
        "log.cleaner.backoff.ms",
        15 * SECOND_MS,
        Kind.LONG,
        unit="ms",
        check=at_least(0),
        update=CLUSTER_WIDE,
        doc="How long the cleaner waits if no log is dirty enough.",
    )
    log_cleaner_dedupe_buffer_size: int = key(
        "log.cleaner.dedupe.buffer.size",
        128 * MiB,
        Kind.LONG,
        update=CLUSTER_WIDE,
        doc="How much memory the keys of all passes may use, 24 bytes a key. A pass takes"
        " memory as it needs it and frees it at its end. Must be more than 1 MiB for each of"
        " log.cleaner.threads; one pass uses at most 2 GiB.",
    )
    log_cleaner_io_buffer_load_factor: float = key(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        Kind.DOUBLE,
        update=CLUSTER_WIDE,
        doc="How full that memory may be before a pass stops, from 0.1 to 0.95. With a higher"
        " value, finding a free slot gets slow; with a lower one, a pass rewrites much for"
        " few keys.",
    )
    log_cleaner_io_max_bytes_per_second: float = key(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE_MAX,
        Kind.DOUBLE,
        update=CLUSTER_WIDE,
        doc="How many bytes compaction reads and writes in a second, over all threads.",
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
