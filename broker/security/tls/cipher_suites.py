"""Java's names of cipher suites, and OpenSSL's.

`ssl.cipher.suites` has Java's. OpenSSL chooses those of TLS 1.3 by another call, which Python does
not have before 3.15, so they can only be allowed or not allowed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

TLS_1_3: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
)
_AUTHENTICATED: Final = {"ECDSA": "ECDHE-ECDSA", "RSA": "ECDHE-RSA"}
_PLAIN: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}
TLS_1_2: Final = {
    **{
        f"TLS_ECDHE_{kind}_WITH_{java}": f"{openssl_kind}-{openssl}"
        for kind, openssl_kind in _AUTHENTICATED.items()
        for java, openssl in _PLAIN.items()
    },
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
}


class UnknownSuite(ValueError):
    """A name that is no cipher suite that OpenSSL has."""


class Suites(NamedTuple):
    """The suites of a list: OpenSSL's names for TLS 1.2, and Java's for TLS 1.3."""

    before_1_3: tuple[str, ...]
    of_1_3: tuple[str, ...]


def suites_of(names: Sequence[str]) -> Suites:
    """Return the suites by their Java names. Raises UnknownSuite."""
    before: list[str] = []
    newest: list[str] = []
    for name in names:
        if name in TLS_1_3:
            newest.append(name)
        elif name in TLS_1_2:
            before.append(TLS_1_2[name])
        else:
            known = ", ".join((*TLS_1_3, *TLS_1_2))
            raise UnknownSuite(f"{name} is no cipher suite that is known here; known: {known}")
    return Suites(tuple(before), tuple(newest))
