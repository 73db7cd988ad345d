"""The broker's keys for transactions, after those of config/group_keys.py.

Names, kinds, defaults and bounds are those of Kafka's TransactionLogConfig,
TransactionStateManagerConfig and AddPartitionsToTxnConfig.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import at_least
from config.group_keys import GroupKeys
from config.keys import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Importance, MiB, key
from config.values import Kind

HIGH = Importance.HIGH
LOW = Importance.LOW


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class TransactionKeys(GroupKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    transaction_max_timeout_ms: int = key(
        "transaction.max.timeout.ms",
        15 * MINUTE_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=HIGH,
        doc="The longest timeout that a producer may ask for. A transaction that is open for longer"
        " than its timeout is aborted.",
    )
    transactional_id_expiration_ms: int = key(
        "transactional.id.expiration.ms",
        7 * DAY_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=HIGH,
        doc="A transactional id that has not been used for this long is forgotten. A producer that"
        " comes back with it gets another producer id.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10 * SECOND_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=LOW,
        doc="How often the broker looks for transactions to abort.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        HOUR_MS,
        Kind.INT,
        unit="ms",
        check=at_least(1),
        importance=LOW,
        doc="How often the broker looks for transactional ids to forget.",
    )
    transaction_state_log_num_partitions: int = key(
        "transaction.state.log.num.partitions",
        50,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many partitions __transaction_state gets when it is created.",
    )
    transaction_state_log_segment_bytes: int = key(
        "transaction.state.log.segment.bytes",
        100 * MiB,
        Kind.INT,
        unit="bytes",
        check=at_least(1),
        importance=HIGH,
        doc="The segment size that __transaction_state gets when it is created: at least 1 MiB, as"
        " for every topic.",
    )
    transaction_state_log_load_buffer_size: int = key(
        "transaction.state.log.load.buffer.size",
        5 * MiB,
        Kind.INT,
        check=at_least(1),
        importance=HIGH,
        doc="How many bytes of __transaction_state are read at a time while transactions are"
        " loaded.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = key(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        Kind.INT,
        unit="ms",
        check=at_least(0),
        importance=HIGH,
        doc="How long the first batch of a transaction waits for the end of the transaction before,"
        " until its producer is told to try again.",
    )
    barnabas_transactional_ids_max: int = key(
        "barnabas.transactional.ids.max",
        1_000_000,
        Kind.INT,
        check=at_least(1),
        doc="How many transactional ids the broker keeps. Another one is refused"
        " (POLICY_VIOLATION) until some expire.",
    )
