"""The file of --command-config: Kafka's client keys, and what is refused with a reason."""

import ssl

import click
import pytest

from client.logins import Login
from client.security_file import read_security
from tests.support.certificates import Authority

SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def read(tmp_path):
    def read_lines(*lines):
        path = tmp_path / "client.properties"
        path.write_text("\n".join(lines))
        return read_security(str(path))

    return read_lines


def test_without_a_protocol_there_is_no_tls(read):
    assert read("request.timeout.ms=5") == (None, None)
    assert read("security.protocol=PLAINTEXT", "sasl.mechanism=X") == (None, None)


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.ca.location"])
def test_a_trust_store(read, authority, name):
    context, _ = read("security.protocol=SSL", f"{name}={authority.file}")
    assert len(context.get_ca_certs()) == 1
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_trusted_certificates_in_the_file_itself(read, authority):
    inline = authority.pem.replace("\n", "\\n")
    context, _ = read("security.protocol=SSL", f"ssl.truststore.certificates={inline}")
    assert len(context.get_ca_certs()) == 1


def test_the_host_need_not_match(read, authority):
    context, _ = read(
        "security.protocol=SSL",
        f"ssl.ca.location={authority.file}",
        "ssl.endpoint.identification.algorithm=",
    )
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_a_certificate_of_its_own(read, authority):
    alice = authority.issue("alice")
    assert read("security.protocol=SSL", f"ssl.keystore.location={alice.store_file}") is not None
    apart = (
        f"ssl.certificate.location={alice.chain_file}",
        f"ssl.key.location={alice.key_file}",
    )
    assert read("security.protocol=SSL", *apart) is not None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["security.protocol=SASL_TLS"], "security.protocol=SASL_TLS is not known"),
        (["security.protocol=SASL_PLAINTEXT"], "sasl.mechanism=GSSAPI is not known"),
        ([*SASL], "has no user for PLAIN"),
        ([*SASL, "sasl.username=a"], "has no user for PLAIN"),
        ([*SASL, "sasl.jaas.config=X required;"], "has no user for PLAIN"),
        ([*SASL, 'sasl.jaas.config=X required password="p"'], "cannot be read: found no semicolon"),
        (["security.protocol=SSL", "ssl.truststore.type=JKS"], "expected PEM"),
        (["security.protocol=SSL", "ssl.ca.location=/missing/ca.pem"], "cannot be used"),
        (["security.protocol=SSL", "ssl.keystore.location=/missing/k.pem"], "cannot be used"),
        (["security.protocol=SSL", "ssl.truststore.certificates=abc"], "expected certificates"),
    ],
)
def test_what_cannot_be_used_is_refused(read, lines, words):
    with pytest.raises(click.UsageError, match=words):
        read(*lines)


def test_an_encrypted_key_without_its_password_asks_nobody(read, authority, tmp_path):
    alice = authority.issue("alice")
    store = tmp_path / "encrypted.pem"
    store.write_text(alice.encrypted_key("marked-password") + alice.chain)
    lines = ("security.protocol=SSL", f"ssl.keystore.location={store}")
    with pytest.raises(click.UsageError, match=r"ssl\.key\.password") as caught:
        read(*lines)
    assert "marked" not in str(caught.value)
    assert read(*lines, "ssl.key.password=marked-password") is not None


def test_a_missing_file_is_refused():
    with pytest.raises(click.UsageError, match="No such file"):
        read_security("/missing/client.properties")


@pytest.mark.parametrize(
    "lines",
    [
        ("sasl.username=a", "sasl.password=b c"),
        ('sasl.jaas.config=org.x.PlainLoginModule required username="a" password="b c";',),
    ],
)
def test_a_login(read, lines):
    tls, login = read(*SASL, *lines)
    assert (tls, login) == (None, Login("PLAIN", "a", "b c"))
    both = read("security.protocol=SASL_SSL", "sasl.mechanism=SCRAM-SHA-512", *lines)
    assert isinstance(both.tls, ssl.SSLContext)
    assert both.login == Login("SCRAM-SHA-512", "a", "b c")
