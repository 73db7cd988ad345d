"""The keys of quotas and of limits of one listener: defaults, bounds, and whose they are."""

import pytest

from config.broker import BrokerConfig
from config.errors import ConfigError
from config.load import load


def loaded(*settings: str) -> BrokerConfig:
    return load(file=None, environment={}, set_values=settings, data_dir="/data").config


def test_defaults_are_kafkas() -> None:
    config = loaded()
    assert (config.quota_window_num, config.quota_window_size_seconds) == (11, 1)
    assert (config.controller_quota_window_num, config.controller_quota_window_size_seconds) == (
        11,
        1,
    )
    assert config.max_connection_creation_rate == 2**31 - 1


@pytest.mark.parametrize("key", ["quota.window.num", "controller.quota.window.size.seconds"])
def test_a_window_is_at_least_one(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        loaded(f"{key}=0")


def test_a_listener_has_limits_of_its_own_beside_the_brokers() -> None:
    config = loaded(
        "listener.name.plaintext.max.connections=5",
        "listener.name.msgpack.max.connection.creation.rate=7",
        "max.connections=9",
    )
    assert config.of_listeners("max.connections") == {"PLAINTEXT": 5}
    assert config.of_listeners("max.connection.creation.rate") == {"MSGPACK": 7}
    assert config.max_connections == 9
    with pytest.raises(ConfigError, match=r"max\.connections"):
        loaded("listener.name.plaintext.max.connections=0")
