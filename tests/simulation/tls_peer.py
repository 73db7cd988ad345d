"""TLS of the simulator's clients, and the certificate of its brokers: real, on simulated bytes.

Both sides are OpenSSL's. Keys, certificates and sizes are the same in every process; the bytes on
the wire are not, since OpenSSL draws them from the system. A history depends on sizes only: keys
are Ed25519, whose signatures have one size, and the broker gives out no tickets.

    TlsPeer    a client's end of a connection, as `tests.simulation.link.Peer`
    settings   of a broker with a listener of TLS
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NAME: Final = "broker"
AUTHORITY: Final = "simulated authority"
READ_BYTES: Final = 64 * 1024
# On any clock of a history; also on the real one, by which OpenSSL looks.
BEGINS, ENDS = datetime(2010, 1, 1), datetime(2110, 1, 1)


class TlsPeer:
    """See the module. What is sent before the handshake is over waits for it."""

    def __init__(self, peer: Any) -> None:
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_end: Callable[[Exception | None], None] = lambda error: None
        self._peer = peer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = client_context().wrap_bio(self._in, self._out, server_hostname=NAME)
        self._waiting = bytearray()
        self._is_shaken = False
        self._has_ended = False
        peer.on_data = self._arrived
        peer.on_end = self._ended
        self._shake()

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended it."""
        return bool(self._peer.is_open) and not self._has_ended

    @property
    def closed_ns(self) -> int | None:
        """When the broker closed the connection."""
        closed_ns: int | None = self._peer.closed_ns
        return closed_ns

    def send(self, data: bytes) -> None:
        """Send, or keep until the handshake is over."""
        self._waiting += data
        self._send_waiting()

    def _send_waiting(self) -> None:
        if self._is_shaken and self._waiting and self.is_open:
            self._tls.write(self._waiting)
            self._waiting.clear()
        self._flush()

    def _flush(self) -> None:
        if self._out.pending:
            self._peer.send(self._out.read())

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # an alert
            self._peer.close()
            self._ended(error)
            return
        self._is_shaken = True
        self._send_waiting()

    def _arrived(self, data: bytes) -> None:
        self._in.write(data)
        if not self._is_shaken:
            self._shake()
        while self._is_shaken and self.is_open:
            try:
                found = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                found = b""
            if not found:  # the broker has said that it is the end
                self._say_end()
                self._peer.close()
                self._ended(None)
                return
            self.on_data(found)

    def _ended(self, error: Exception | None) -> None:
        """Tell the client once: the broker's last message of TLS and its end are one."""
        if not self._has_ended:
            self._has_ended = True
            self.on_end(error)

    def _say_end(self) -> None:
        """Send `close_notify`; nobody waits for the broker's."""
        if self._is_shaken and self.is_open:
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()

    def close(self) -> None:
        """Say that it is the end, and close."""
        self._say_end()
        self._has_ended = True
        self._peer.close()

    def reset(self) -> None:
        """Reset the connection."""
        self._has_ended = True
        self._peer.reset()

    def half_close(self) -> None:
        """TLS has no half-closed connections: say that it is the end, and wait for the broker's."""
        self._say_end()
        self._peer.half_close()

    def stop_reading(self) -> None:
        """Leave what arrives in the network."""
        self._peer.stop_reading()

    def read_on(self) -> None:
        """Read again."""
        self._peer.read_on()


@functools.cache
def client_context() -> ssl.SSLContext:
    """Return the TLS of all clients: they trust the simulated authority alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=_certificate(AUTHORITY).decode())
    return context


@functools.cache
def settings() -> dict[str, str]:
    """Return the keys of a broker's certificate."""
    key = _key(NAME).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key.decode(),
        "ssl.keystore.certificate.chain": _certificate(NAME).decode(),
    }


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32)[:32])


def _certificate(name: str) -> bytes:
    """Return the certificate of the broker or of the authority, signed by the authority."""
    is_authority = name == AUTHORITY
    public, authority = _key(name).public_key(), _key(AUTHORITY)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(AUTHORITY))
        .public_key(public)
        .serial_number(1 + is_authority)
        .not_valid_before(BEGINS)
        .not_valid_after(ENDS)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    if not is_authority:
        names = x509.SubjectAlternativeName([x509.DNSName(NAME)])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority, None).public_bytes(Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
