"""The address of a listener, with the way to speak to it.

Both clients take an address as text, HOST:PORT. An `Address` is such a text that also knows whether
the listener wants TLS and a login, and which dialect it speaks, so nothing between a command and
its socket need pass that on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

    from client.logins import Login


class Address(str):
    """HOST:PORT of a listener of which more is known.

    `tls` checks the listener's certificate and holds the client's own. `is_kafka`: the listener
    speaks Kafka's protocol, also to a client that would speak msgpack.
    """

    __slots__ = ("is_kafka", "login", "tls")

    tls: SSLContext | None
    login: Login | None
    is_kafka: bool

    def __new__(
        cls,
        text: str,
        tls: SSLContext | None,
        login: Login | None = None,
        *,
        is_kafka: bool = False,
    ) -> Address:
        """Return `text` with its TLS, its login and its dialect."""
        made = super().__new__(cls, text)
        made.tls = tls
        made.login = login
        made.is_kafka = is_kafka
        return made


def tls_of(address: str) -> SSLContext | None:
    """Return the TLS of an address; None for one without encryption."""
    return address.tls if isinstance(address, Address) else None


def login_of(address: str) -> Login | None:
    """Return the login of an address; None for one without."""
    return address.login if isinstance(address, Address) else None


def speaks_kafka(address: str) -> bool:
    """Whether the listener of an address is known to speak Kafka's protocol."""
    return isinstance(address, Address) and address.is_kafka


def why_no_tls(address: str, error: Exception) -> str:
    """Return what a failed handshake means, and what to do."""
    message = getattr(error, "verify_message", "")
    if message:
        return (
            f"the certificate of {address} is not accepted: {message}. Does ssl.truststore.location"
            " (--command-config) hold its issuer, and does it name this host?"
        )
    reason = getattr(error, "reason", "") or str(error)
    if any(part in reason for part in ("WRONG_VERSION", "RECORD_LAYER", "UNEXPECTED_EOF")):
        return f"{address} does not speak TLS: is it a PLAINTEXT listener? ({reason})"
    if "CERTIFICATE_REQUIRED" in reason or "BAD_CERTIFICATE" in reason:
        return (
            f"{address} wants a certificate that it trusts: set ssl.keystore.location"
            f" (--command-config) ({reason})"
        )
    return f"the TLS handshake with {address} failed: {reason}. See the broker's log"
