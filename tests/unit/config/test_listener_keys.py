"""Keys of one listener: which names are such keys, and what stands behind the prefix."""

import pytest

from config.broker_names import broker_name
from config.errors import ConfigError
from config.keys import Update
from config.listener_keys import key_behind, split_prefix
from config.load import load

FILES = ("ssl.certificate=c.pem", "ssl.key=k.pem")


@pytest.mark.parametrize(
    ("name", "listener", "key"),
    [
        ("listener.name.tls.ssl.key.password", "TLS", "ssl.key.password"),
        ("listener.name.in-side_1.ssl.client.auth", "IN-SIDE_1", "ssl.client.auth"),
    ],
)
def test_a_prefixed_key(name, listener, key):
    assert split_prefix(name) == (listener, key)
    found = key_behind(name)
    assert found is not None
    assert found.name == key


@pytest.mark.parametrize(
    "name", ["ssl.key.password", "listener.name.", "listener.name.tls", "listener.name..ssl.key"]
)
def test_other_names_have_no_prefix(name):
    assert key_behind(name) is None


def test_keys_that_are_the_brokers_alone_cannot_be_one_listeners():
    assert key_behind("listener.name.tls.num.partitions") is None


def test_a_listeners_own_value_beats_the_plain_one():
    listeners = "listeners=SSL://127.0.0.1:1,MSGPACK_SSL://127.0.0.1:2"
    own = "listener.name.msgpack_ssl.ssl.key=own.pem"
    config = load(set_values=[listeners, *FILES, own]).config
    assert {name: one.key for name, one in config.tls.items()} == {
        "SSL": "k.pem",
        "MSGPACK_SSL": "own.pem",
    }
    assert config.tls["MSGPACK_SSL"].name_of("ssl.key") == own.partition("=")[0]
    assert config.tls["SSL"].name_of("ssl.key") == "ssl.key"


def test_the_environment_may_hold_them():
    environment = {"KAFKA_LISTENER_NAME_SSL_SSL_KEY": "own.pem"}
    settings = ["listeners=SSL://127.0.0.1:1", *FILES]
    assert load(environment=environment, set_values=settings).config.tls["SSL"].key == "own.pem"


def test_a_bad_value_names_the_prefixed_key():
    with pytest.raises(ConfigError) as caught:
        load(set_values=["listener.name.tls.ssl.client.auth=maybe"])
    assert caught.value.key == "listener.name.tls.ssl.client.auth"


def test_a_key_of_a_listener_that_does_not_exist_is_a_warning():
    loaded = load(set_values=["listener.name.tsl.ssl.client.auth=none"])
    assert "there is no listener TSL" in loaded.warnings[0]


def test_only_prefixed_keys_change_at_run_time():
    loaded = load(set_values=["listeners=SSL://127.0.0.1:1", *FILES])
    changed = loaded.with_dynamic({"listener.name.ssl.ssl.key": "new.pem"})
    assert changed.config.tls["SSL"].key == "new.pem"
    for name in ("ssl.key", "listener.name.ssl.ssl.principal.mapping.rules"):
        with pytest.raises(ConfigError, match="cannot be changed while the broker runs"):
            loaded.with_dynamic({name: "new.pem"})


def test_a_prefixed_name_is_described_like_its_key():
    name = broker_name("listener.name.ssl.ssl.key.password")
    assert name is not None
    assert name.is_sensitive
    assert name.is_dynamic
    assert name.alternatives == ("listener.name.ssl.ssl.key.password", "ssl.key.password")
    plain = broker_name("ssl.key.password")
    assert plain is not None
    assert plain.key is not None
    assert plain.key.update is Update.PER_BROKER
    assert not plain.is_dynamic
