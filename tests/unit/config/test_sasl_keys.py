"""The keys of SASL: Kafka's, and what is refused."""

import pytest

from config.errors import ConfigError
from config.keys import keys_of, read_value
from config.sasl_keys import SaslKeys

KEYS = keys_of(SaslKeys)


def test_users_are_never_shown():
    assert KEYS["sasl.jaas.config"].sensitive
    with pytest.raises(ConfigError) as caught:
        read_value(KEYS["barnabas.sasl.plain.users"], "file", "a file")
    assert caught.value.allowed == "jaas, scram"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("connection.failed.authentication.delay.ms", "-1"),
        ("connections.max.reauth.ms", "soon"),
        ("barnabas.sasl.plain.users", ""),
    ],
)
def test_a_bad_value_is_refused(name, text):
    with pytest.raises(ConfigError) as caught:
        read_value(KEYS[name], text, "a file")
    assert caught.value.key == name
