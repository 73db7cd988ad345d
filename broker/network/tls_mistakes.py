"""What a failed handshake was probably meant to be: one sentence for the log.

Clients say little when a handshake fails (librdkafka: "brokers are down"), so the broker's line is
what people read. It names what was found, and the setting that is usually wrong. Pure functions of
the first bytes and of OpenSSL's reasons.
"""

from __future__ import annotations

import ssl
from typing import Final

RECORD_HEADER_BYTES: Final = 5
# A record's largest content, and what encryption may add to it (RFC 8446, 5.2).
RECORD_BYTES_MAX: Final = 16 * 1024 + 256
_HANDSHAKE: Final = 22
_HTTP_METHODS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC")

# Alerts: fatal, then the description. As Kafka (Java) answers.
INTERNAL_ERROR: Final = bytes((21, 3, 3, 0, 2, 2, 80))
UNEXPECTED_MESSAGE: Final = bytes((21, 3, 3, 0, 2, 2, 10))

HALF_A_HELLO: Final = "it sent only a part of a TLS hello"
SILENCE: Final = "it sent nothing: a port check, or no client of Kafka's"
NO_ANSWER: Final = "it did not finish the handshake in time"
HUNG_UP: Final = (
    "it hung up during the handshake: a port check, or a client that does not trust the broker's"
    " certificate (its ssl.truststore.location or ssl.ca.location)"
)
_NOT_TRUSTED: Final = (
    "it refuses the broker's certificate: its ssl.truststore.location or ssl.ca.location lacks the"
    " issuer, or the certificate does not name the host it connects to"
)
_OLD: Final = "it offers no version of TLS that this listener has (ssl.enabled.protocols): {reason}"
_NO_CERTIFICATE: Final = (
    "it has no certificate, and ssl.client.auth=required: set its ssl.keystore.location or"
    " ssl.certificate.location"
)
_NO_SUITE: Final = (
    "it offers no cipher suite that this listener has (ssl.cipher.suites, and the kind of the"
    " broker's key)"
)
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "UNSUPPORTED_PROTOCOL": _OLD,
    "VERSION_TOO_LOW": _OLD,
    "WRONG_VERSION_NUMBER": _OLD,
    "NO_SHARED_CIPHER": _NO_SUITE,
    "ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "ALERT_CERTIFICATE_UNKNOWN": _NOT_TRUSTED,
    "ALERT_BAD_CERTIFICATE": _NOT_TRUSTED,
    "ALERT_DECRYPT_ERROR": _NOT_TRUSTED,  # another authority of the same name
    "ALERT_CERTIFICATE_EXPIRED": _NOT_TRUSTED,
    "ALERT_CERTIFICATE_REQUIRED": _NOT_TRUSTED,
}


def missing_bytes(head: bytes) -> int:
    """Return how many more bytes the first record needs; 0 if it is whole.

    `head` is what has arrived so far, and begins like TLS.
    """
    if len(head) < RECORD_HEADER_BYTES:
        return RECORD_HEADER_BYTES - len(head)
    size = int.from_bytes(head[3:5], "big")
    return max(0, RECORD_HEADER_BYTES + size - len(head))


def of_first_bytes(head: bytes) -> tuple[str, bytes] | None:
    """Return why a client does not speak TLS, and the alert for it; None if it may."""
    if not head or (head[0] == _HANDSHAKE and head[1:2] in (b"", b"\x03")):
        size = int.from_bytes(head[3:5], "big") if len(head) >= RECORD_HEADER_BYTES else 0
        if size > RECORD_BYTES_MAX:
            return f"its first TLS record has {size} bytes", UNEXPECTED_MESSAGE
        return None
    if head.startswith(_HTTP_METHODS) or _HTTP_METHODS[0].startswith(head):
        return "it speaks HTTP; this listener speaks Kafka's protocol over TLS", INTERNAL_ERROR
    return (
        "it does not speak TLS: security.protocol=PLAINTEXT on a TLS listener, where SSL is meant",
        INTERNAL_ERROR,
    )


def of_failure(error: BaseException) -> str:
    """Return why a handshake failed that OpenSSL had begun."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted: {error.verify_message}. Does"
            " ssl.truststore.location of the listener hold its issuer?"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        for part, sentence in _REASONS.items():
            if part in reason:
                return sentence.format(reason=reason)
        return f"it does not follow TLS: {reason}"
    if isinstance(error, ConnectionAbortedError):  # uvloop's for a handshake that takes too long
        return NO_ANSWER
    return HUNG_UP
