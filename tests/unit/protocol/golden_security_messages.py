"""Bytes of the messages of SASL, as Apache Kafka 4.3's schemas lay them out.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`. The property tests compare
them with kio and kafka-python.
"""

from protocol.messages import sasl_authenticate, sasl_handshake

REFUSED = sasl_authenticate.SaslAuthenticateResponse(
    error_code=58, error_message="no", auth_bytes=b"\1\2"
)
ACCEPTED = sasl_authenticate.SaslAuthenticateResponse(
    error_message=None, auth_bytes=b"v", session_lifetime_ms=6000
)

GOLDEN = [
    (sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), 0, "0005504c41494e"),
    (sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), 1, "0005504c41494e"),
    (
        sasl_handshake.SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "X"]),
        1,
        "0021000000020005504c41494e000158",
    ),
    (sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 0, "0000000400610062"),
    (sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0a\0b"), 2, "050061006200"),
    (REFUSED, 0, "003a00026e6f000000020102"),
    (REFUSED, 1, "003a00026e6f0000000201020000000000000000"),
    (ACCEPTED, 1, "0000ffff00000001760000000000001770"),
    (ACCEPTED, 2, "0000000276000000000000177000"),
]
