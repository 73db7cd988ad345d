"""The keys of compaction in a server.properties."""

import pytest

from config.broker import BrokerConfig
from config.cleaner_keys import DOUBLE_MAX
from config.errors import ConfigError
from config.load import load


def loaded(tmp_path, *settings):
    return load(file=None, environment={}, set_values=settings, data_dir=str(tmp_path)).config


def test_the_defaults_are_kafkas():
    config = BrokerConfig()
    assert (config.log_cleaner_enable, config.log_cleaner_threads) == (True, 1)
    assert config.log_cleaner_io_max_bytes_per_second == DOUBLE_MAX
    assert config.log_cleaner_dedupe_buffer_size == 1 << 27


def test_the_keys_are_read(tmp_path):
    config = loaded(
        tmp_path,
        "log.cleaner.io.max.bytes.per.second=1.5E6",
        "log.cleaner.backoff.ms=100",
        "log.cleaner.enable=false",
    )
    assert config.log_cleaner_io_max_bytes_per_second == 1_500_000
    assert config.log_cleaner_backoff_ms == 100
    assert config.log_cleaner_enable is False


@pytest.mark.parametrize(
    "setting",
    [
        "log.cleaner.threads=-1",
        "log.cleaner.threads=0",
        "log.cleaner.backoff.ms=-1",
        "log.cleaner.enable=yes",
    ],
)
def test_a_bad_value_is_refused(tmp_path, setting):
    with pytest.raises(ConfigError):
        loaded(tmp_path, setting)


@pytest.mark.parametrize(
    ("size", "threads", "is_enough"),
    [(1, 1, False), (1 << 20, 1, False), ((1 << 20) + 1, 1, True), ((1 << 20) + 1, 2, False),
     (2 * (1 << 20) + 2, 2, True), (1 << 27, 128, False), (1 << 27, 127, True)],
)  # fmt: skip
def test_each_thread_has_memory_for_more_than_a_handful_of_keys(tmp_path, size, threads, is_enough):
    settings = [f"log.cleaner.dedupe.buffer.size={size}", f"log.cleaner.threads={threads}"]
    if is_enough:
        loaded(tmp_path, *settings)
        return
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, *settings)
    assert caught.value.key == "log.cleaner.dedupe.buffer.size"
    loaded(tmp_path, settings[1], f"{caught.value.key}={caught.value.allowed.split()[0]}")
