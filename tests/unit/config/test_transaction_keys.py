"""The broker's keys for transactions: defaults and bounds."""

import pytest

from config.broker import BrokerConfig
from config.errors import ConfigError
from config.load import load


def test_the_defaults_are_kafkas():
    config = BrokerConfig()
    assert config.transaction_max_timeout_ms == 900_000
    assert config.transactional_id_expiration_ms == 7 * 24 * 3_600_000
    assert config.transaction_state_log_num_partitions == 50


@pytest.mark.parametrize(
    "given",
    [
        "transaction.max.timeout.ms=0",
        "transactional.id.expiration.ms=0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=0",
        "transaction.remove.expired.transaction.cleanup.interval.ms=0",
        "transaction.state.log.num.partitions=0",
        "transaction.state.log.segment.bytes=0",
        "transaction.state.log.load.buffer.size=0",
        "add.partitions.to.txn.retry.backoff.max.ms=-1",
        "barnabas.transactional.ids.max=0",
    ],
)
def test_a_value_outside_its_bounds_is_refused(given):
    with pytest.raises(ConfigError, match=given.partition("=")[0]):
        load(file=None, environment={}, set_values=[given], data_dir="d")
