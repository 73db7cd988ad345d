"""The SASL of a listener: whose keys hold, and what keeps the broker from starting."""

import pytest

from config.errors import ConfigError
from config.load import load
from config.sasl_settings import SaslSettings

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'listener.name.inside.plain.sasl.jaas.config={MODULE} required user_a="SECRET";'
LISTENER = (
    "listeners=INSIDE://127.0.0.1:1",
    "listener.security.protocol.map=INSIDE:SASL_PLAINTEXT",
)


def settings(*given: str) -> SaslSettings:
    return load(set_values=[*LISTENER, *given]).config.sasl["INSIDE"]


def test_a_mechanisms_own_key_beats_the_listeners_and_that_the_plain_one():
    found = settings(
        "sasl.enabled.mechanisms=SCRAM-SHA-256",
        "listener.name.inside.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,SCRAM-SHA-256",
        JAAS,
        "connections.max.reauth.ms=1",
        "listener.name.inside.connections.max.reauth.ms=2",
        "listener.name.inside.plain.connections.max.reauth.ms=3",
        "connection.failed.authentication.delay.ms=7",
    )
    assert list(found.mechanisms) == ["PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256"]
    assert [one.max_reauth_ms for one in found.mechanisms.values()] == [3, 2, 2]
    assert found.mechanisms["PLAIN"].users == {"a": "SECRET"}
    assert found.failed_delay_ms == 7
    assert "SECRET" not in repr(found)


def test_plain_may_take_scrams_users():
    found = settings("sasl.enabled.mechanisms=PLAIN", "barnabas.sasl.plain.users=scram")
    assert found.mechanisms["PLAIN"].users is None


def test_a_listener_without_sasl_has_none():
    assert load(set_values=["sasl.enabled.mechanisms=NONSENSE"]).config.sasl == {}


REFUSED = [
    ([], "sasl.enabled.mechanisms", "GSSAPI (Kerberos) is not served"),
    (["sasl.enabled.mechanisms=PLAIN,FOO"], "sasl.enabled.mechanisms", "FOO is not served"),
    (["sasl.enabled.mechanisms="], "sasl.enabled.mechanisms", "no mechanism is left"),
    (
        ["listener.name.inside.sasl.enabled.mechanisms=plain"],
        "listener.name.inside.sasl.enabled.mechanisms",
        "plain is not served",
    ),
    (
        ["sasl.enabled.mechanisms=PLAIN"],
        "listener.name.inside.plain.sasl.jaas.config",
        "PLAIN has no users",
    ),
    (
        ["sasl.enabled.mechanisms=PLAIN", JAAS.replace("user_a", "user_")],
        "listener.name.inside.plain.sasl.jaas.config",
        "the user '' has no name",
    ),
    (
        ["sasl.enabled.mechanisms=PLAIN", JAAS.replace("user_a", "username")],
        "listener.name.inside.plain.sasl.jaas.config",
        "it names no user",
    ),
    (
        ["sasl.enabled.mechanisms=PLAIN", JAAS.replace("SECRET", "")],
        "listener.name.inside.plain.sasl.jaas.config",
        "the user 'a' has no password",
    ),
    (
        ["sasl.enabled.mechanisms=PLAIN", JAAS.replace(";", "")],
        "listener.name.inside.plain.sasl.jaas.config",
        "found no semicolon",
    ),
    (
        [
            "sasl.enabled.mechanisms=SCRAM-SHA-256",
            JAAS.replace("inside.plain", "inside.scram-sha-256"),
        ],
        "listener.name.inside.scram-sha-256.sasl.jaas.config",
        "found another login module",
    ),
]


@pytest.mark.parametrize(("given", "key", "reason"), REFUSED)
def test_what_lets_nobody_in_is_refused_with_its_place(given, key, reason):
    with pytest.raises(ConfigError) as caught:
        settings(*given)
    assert caught.value.key == key
    assert caught.value.reason.startswith(reason)
    assert caught.value.allowed
    assert "SECRET" not in str(caught.value)
    if any(one.startswith(key) for one in given):
        assert caught.value.source == "--set"


def test_the_environment_may_name_a_mechanism_of_a_listener():
    environment = {
        "KAFKA_LISTENER_NAME_INSIDE_PLAIN_SASL_JAAS_CONFIG": f'{MODULE} required user_a="b";',
        "KAFKA_LISTENER_NAME_INSIDE_SCRAM___SHA___256_CONNECTIONS_MAX_REAUTH_MS": "5",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
    }
    config = load(set_values=LISTENER, environment=environment).config
    assert config.sasl["INSIDE"].mechanisms["PLAIN"].users == {"a": "b"}
    assert config.sasl["INSIDE"].mechanisms["SCRAM-SHA-256"].max_reauth_ms == 5


def test_a_plain_demand_for_certificates_is_not_for_listeners_with_sasl():
    tls = (
        "ssl.certificate=c",
        "ssl.key=k",
        "ssl.client.auth=required",
        "ssl.truststore.location=t",
    )
    sasl = ("sasl.enabled.mechanisms=SCRAM-SHA-256",)
    listeners = "listeners=SASL_SSL://127.0.0.1:1,SSL://127.0.0.1:2"
    found = load(set_values=[listeners, *tls, *sasl]).config.tls
    assert {name: one.client_auth for name, one in found.items()} == {
        "SASL_SSL": "none",
        "SSL": "required",
    }
    own = "listener.name.sasl_ssl.ssl.client.auth=requested"
    found = load(set_values=[listeners, *tls, *sasl, own]).config.tls
    assert found["SASL_SSL"].client_auth == "requested"
