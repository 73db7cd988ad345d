"""The keys of the metadata log's snapshots in a server.properties."""

import pytest

from config.broker import BrokerConfig
from config.errors import ConfigError
from config.load import load


def loaded(tmp_path, *settings):
    return load(file=None, environment={}, set_values=settings, data_dir=str(tmp_path)).config


def test_the_defaults_are_kafkas():
    config = BrokerConfig()
    assert config.metadata_log_max_record_bytes_between_snapshots == 20 << 20
    assert config.metadata_log_max_snapshot_interval_ms == 3_600_000
    assert config.metadata_max_retention_bytes == 100 << 20
    assert config.metadata_max_retention_ms == 7 * 24 * 3_600_000


def test_the_keys_are_read(tmp_path):
    config = loaded(tmp_path, "metadata.max.retention.ms=-1", "metadata.max.retention.bytes=5")
    assert (config.metadata_max_retention_ms, config.metadata_max_retention_bytes) == (-1, 5)


@pytest.mark.parametrize(
    "setting",
    [
        "metadata.log.max.record.bytes.between.snapshots=0",
        "metadata.log.max.snapshot.interval.ms=-1",
        "metadata.max.retention.ms=soon",
    ],
)
def test_a_bad_value_is_refused(tmp_path, setting):
    with pytest.raises(ConfigError):
        loaded(tmp_path, setting)
