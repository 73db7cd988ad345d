"""A listener with TLS has its certificate in exactly one way, and trusts something if it must."""

import pytest

from config.errors import ConfigError
from config.load import load

SSL = "listeners=SSL://127.0.0.1:1"
KEY = ("ssl.certificate=c.pem", "ssl.key=k.pem")
INLINE = ("ssl.keystore.type=PEM", "ssl.keystore.key=K", "ssl.keystore.certificate.chain=C")


@pytest.mark.parametrize("ways", [KEY, INLINE, ("ssl.keystore.location=s.pem",)])
def test_three_ways_to_give_a_certificate(ways):
    assert list(load(set_values=[SSL, *ways]).config.tls) == ["SSL"]


def test_a_listeners_own_way_beats_the_plain_ones():
    own = "listener.name.ssl.ssl.keystore.location=own.pem"
    settings = load(set_values=[SSL, *KEY, own]).config.tls["SSL"]
    assert (settings.keystore_location, settings.certificate, settings.key) == (
        "own.pem",
        None,
        None,
    )


def test_a_plain_listener_needs_none():
    assert load(set_values=["listeners=PLAINTEXT://127.0.0.1:1"]).config.tls == {}


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ((), "ssl.certificate", "no certificate"),
        ((*KEY, "ssl.keystore.location=s.pem"), "ssl.certificate", "more than one way"),
        ((*KEY, *INLINE), "ssl.certificate", "more than one way"),
        (KEY[:1], "ssl.key", "needs its private key"),
        (KEY[1:], "ssl.certificate", "needs its private key"),
        (INLINE[:2], "ssl.keystore.certificate.chain", "needs its private key"),
        ((INLINE[0], INLINE[2]), "ssl.keystore.key", "needs its private key"),
        (INLINE[1:], "ssl.keystore.type", "is PEM"),
        ((*KEY, "ssl.client.auth=required"), "ssl.client.auth", "nothing is trusted"),
        ((*KEY, "ssl.client.auth=requested"), "ssl.client.auth", "nothing is trusted"),
        ((*KEY, "ssl.truststore.certificates=C"), "ssl.truststore.type", "are PEM"),
        (
            (*KEY, "ssl.truststore.certificates=C", "ssl.truststore.location=t.pem"),
            "ssl.truststore.certificates",
            "two ways",
        ),
        ((*KEY, "ssl.enabled.protocols="), "ssl.enabled.protocols", "no version"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, key, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load(set_values=[SSL, *settings])
    assert caught.value.key == key


def test_secrets_are_not_in_its_text():
    secrets = ("ssl.key.password=marked", "ssl.truststore.password=marked")
    settings = load(set_values=[SSL, *KEY, *secrets]).config.tls["SSL"]
    assert settings.key_password == "marked"
    assert "marked" not in repr(settings)


def test_the_listener_between_brokers_must_exist():
    named = load(set_values=["inter.broker.listener.name=plaintext"]).config
    assert named.inter_broker_listener_name == "plaintext"
    with pytest.raises(ConfigError, match="no such listener"):
        load(set_values=["inter.broker.listener.name=INSIDE"])
