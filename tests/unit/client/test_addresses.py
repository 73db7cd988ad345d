"""An address is text, and knows whether its listener wants TLS."""

import ssl

import pytest

from client.addresses import Address, login_of, tls_of, why_no_tls
from client.logins import Login

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def test_it_is_text_with_tls():
    address = Address("host:9093", CONTEXT)
    assert address == f"{address}" == "host:9093"
    assert tls_of(address) is CONTEXT
    assert tls_of("host:9092") is None
    assert login_of(address) is login_of("host:9092") is None
    login = Login("PLAIN", "a", "b")
    assert login_of(Address("host:9093", None, login)) is login


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("WRONG_VERSION_NUMBER", "does not speak TLS"),
        ("UNEXPECTED_EOF_WHILE_READING", "does not speak TLS"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "wants a certificate"),
        ("NO_CIPHERS", "failed: NO_CIPHERS"),
    ],
)
def test_a_failed_handshake_says_what_to_do(reason, words):
    error = ssl.SSLError(1, f"[SSL: {reason}] x")
    error.reason = reason
    assert words in why_no_tls("host:9093", error)


def test_a_certificate_that_is_not_accepted_says_why():
    error = ssl.SSLCertVerificationError(1, "x")
    error.verify_message = "unable to get local issuer certificate"
    assert "unable to get local issuer certificate" in why_no_tls("host:9093", error)
