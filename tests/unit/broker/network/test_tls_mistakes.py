"""What a client was probably meant to do, by its first bytes and by OpenSSL's reason."""

import ssl

import pytest

from broker.network.tls_mistakes import (
    HUNG_UP,
    INTERNAL_ERROR,
    NO_ANSWER,
    UNEXPECTED_MESSAGE,
    missing_bytes,
    of_failure,
    of_first_bytes,
)


@pytest.mark.parametrize(
    ("head", "missing"),
    [
        (b"", 5),
        (b"\x16\x03", 3),
        (b"\x16\x03\x01\x00\x04", 4),
        (b"\x16\x03\x01\x00\x04abcd", 0),
        (b"\x16\x03\x01\x00\x04abcdef", 0),
        (b"\x16\x03\x01\x00\x00", 0),
    ],
)
def test_how_much_of_the_first_record_is_missing(head, missing):
    assert missing_bytes(head) == missing


@pytest.mark.parametrize(
    "head", [b"", b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x41\x00", b"\x16\x03\x03\x00\x05abc"]
)
def test_these_may_be_tls(head):
    assert of_first_bytes(head) is None


@pytest.mark.parametrize(
    ("head", "words", "alert"),
    [
        (b"GET / HT", "HTTP", INTERNAL_ERROR),
        (b"GE", "HTTP", INTERNAL_ERROR),
        (b"POST /", "HTTP", INTERNAL_ERROR),
        (b"\0\0\0\x20\0\x12", "security.protocol=PLAINTEXT", INTERNAL_ERROR),
        (b"\x16\x02\0\0\0", "does not speak TLS", INTERNAL_ERROR),
        (b"\x80\x2e\x01\x03\x01", "does not speak TLS", INTERNAL_ERROR),
        (b"\x16\x03\x01\xff\xff", "65535 bytes", UNEXPECTED_MESSAGE),
    ],
)
def test_these_are_not(head, words, alert):
    found = of_first_bytes(head)
    assert found is not None
    assert words in found[0]
    assert found[1] == alert


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "ssl.client.auth=required"),
        ("UNSUPPORTED_PROTOCOL", "ssl.enabled.protocols"),
        ("NO_SHARED_CIPHER", "ssl.cipher.suites"),
        ("TLSV1_ALERT_UNKNOWN_CA", "refuses the broker's certificate"),
        ("TLSV1_ALERT_DECRYPT_ERROR", "refuses the broker's certificate"),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "refuses the broker's certificate"),
        ("DATA_LENGTH_TOO_LONG", "does not follow TLS: DATA_LENGTH_TOO_LONG"),
    ],
)
def test_openssls_reasons(reason, words):
    error = ssl.SSLError(1, "x")
    error.reason = reason
    assert words in of_failure(error)


def test_other_ends():
    untrusted = ssl.SSLCertVerificationError(1, "x")
    untrusted.verify_message = "self-signed certificate"
    assert "self-signed certificate" in of_failure(untrusted)
    assert of_failure(ConnectionAbortedError()) == NO_ANSWER
    assert of_failure(ConnectionResetError()) == HUNG_UP
