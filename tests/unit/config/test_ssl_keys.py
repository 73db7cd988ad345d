"""The keys of TLS: their defaults, and that secrets are of a kind that is never shown."""

import pytest

from config.errors import ConfigError
from config.keys import keys_of, read_value
from config.ssl_keys import SslKeys
from config.values import Kind

KEYS = {name: key for name, key in keys_of(SslKeys).items() if name.startswith("ssl.")}


@pytest.mark.parametrize("name", sorted(KEYS))
def test_secrets_and_only_they_are_sensitive(name):
    secret = name.endswith((".password", ".keystore.key", ".chain", ".truststore.certificates"))
    assert KEYS[name].sensitive == secret == (KEYS[name].kind is Kind.PASSWORD)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ssl.client.auth", "sometimes"),
        ("ssl.client.auth", "REQUIRED"),
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("ssl.keystore.type", "BKS"),
        ("ssl.allow.dn.changes", "perhaps"),
    ],
)
def test_a_bad_value_is_refused(name, text):
    with pytest.raises(ConfigError) as caught:
        read_value(KEYS[name], text, "a file")
    assert caught.value.key == name
