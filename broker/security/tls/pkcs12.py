"""PKCS12 stores, through the optional package `cryptography`; see docs/decisions/0100-tls.md.

It is imported here and nowhere else, and only if a listener has such a store.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.security.tls.tls_errors import TlsError


class Store(NamedTuple):
    """The contents of a store as PEM; the key is not encrypted any more."""

    key: str
    chain: str
    trusted: str


def read_pkcs12(data: bytes, password: str | None, place: str) -> Store:
    """Return the contents of a store; `place` names its key and file. Raises TlsError."""
    try:
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise TlsError(
            f"{place} is PKCS12, which needs an extra package: pip install 'barnabas[security]'."
            " Without it, convert the store: openssl pkcs12 -in STORE -nodes -out store.pem, and"
            " set the type to PEM"
        ) from None
    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        # The package's own text may quote what it read.
        raise TlsError(
            f"{place} cannot be opened: its password is wrong or missing, or it is damaged"
        ) from None
    certificates = [store.cert] if store.cert else []
    certificates += store.additional_certs
    texts = [one.certificate.public_bytes(Encoding.PEM).decode() for one in certificates]
    key = ""
    if store.key is not None:
        encoded = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        key = encoded.decode()
    return Store(key, "".join(texts), "".join(texts))
