"""Options for TLS and SASL: what they mean, and that none that promises safety is ignored."""

import pickle

import pytest

from pyspark_barnabas.security_options import security_options
from pyspark_barnabas.settings import Settings
from pyspark_barnabas.wire.errors import BadOption
from pyspark_barnabas.wire.security import PLAINTEXT, Security

JAAS = 'org.x.ScramLoginModule required username="alice" password="a\\"b";'
SASL = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}


def test_the_default_is_plain():
    assert security_options(Settings({})) is PLAINTEXT


def test_a_login_over_tls():
    found = security_options(
        Settings(
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.ssl.truststore.location": "/ca.pem",
                "kafka.sasl.mechanism": "SCRAM-SHA-512",
                "kafka.sasl.jaas.config": JAAS,
            }
        )
    )
    assert (found.is_encrypted, found.trusted_file, found.checks_host) == (True, "/ca.pem", True)
    assert (found.mechanism, found.username, found.password) == ("SCRAM-SHA-512", "alice", 'a"b')
    assert pickle.loads(pickle.dumps(found)) == found
    assert 'a"b' not in repr(found)


def test_librdkafkas_names_of_a_user():
    given = {**SASL, "kafka.sasl.username": "a", "kafka.sasl.password": "b"}
    found = security_options(Settings(given))
    assert (found.username, found.password, found.is_encrypted) == ("a", "b", False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kafka.security.protocol": "TLS"}, "expected one of PLAINTEXT, SSL"),
        ({"kafka.ssl.truststore.location": "x"}, "is given, but"),
        ({"kafka.security.protocol": "SSL", "kafka.sasl.mechanism": "PLAIN"}, "is given, but"),
        ({**SASL, "kafka.ssl.ca.location": "x"}, "is given, but"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.keystore.password": "x"}, "not supported"),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "JKS"}, "expected PEM"),
        ({"kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is GSSAPI"),
        (SASL, "names no user"),
        ({**SASL, "kafka.sasl.jaas.config": "X required;"}, "names no user"),
    ],
)
def test_what_would_be_ignored_is_refused(options, words):
    with pytest.raises(BadOption, match=words):
        security_options(Settings(options))


def test_missing_files_are_named():
    security = Security(is_encrypted=True, trusted_file="/missing/ca.pem")
    with pytest.raises(BadOption, match=r"/missing/ca\.pem"):
        security.context()
