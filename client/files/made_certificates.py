"""A certificate authority and the certificate of a broker, as PEM files of a directory.

    authority.key  authority.pem      signs; clients trust the second
    broker.key     broker.pem         for ssl.key and ssl.certificate

Keys are on P-256, not encrypted, and readable by their owner only. A file that exists is never
replaced: its clients would trust the new authority no more. If one cannot be written, those that
were made are removed.

`cryptography` is imported here when certificates are made, as for PKCS12 stores.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from broker.runtime.clock import SystemClock

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_KEY: Final = "authority.key"
AUTHORITY: Final = "authority.pem"
BROKER_KEY: Final = "broker.key"
BROKER: Final = "broker.pem"
FILES: Final = (AUTHORITY_KEY, AUTHORITY, BROKER_KEY, BROKER)
COMMON_NAME_MAX: Final = 64  # of X.509
EARLIER: Final = datetime.timedelta(hours=1)  # for clients whose clock is behind
KEY_MODE: Final = 0o600
CERTIFICATE_MODE: Final = 0o644
HOST_MAX: Final = 253  # of DNS
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.IGNORECASE | re.ASCII)


class NotMade(Exception):
    """No certificates were made; says why, and what to do."""


def checked_host(host: str) -> str:
    """Return a host as certificates name it. Raises ValueError."""
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    labels = host.removeprefix("*.").split(".")
    if len(host) > HOST_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(f"{host!r} is neither a host name nor an IP address (without a port)")
    return host


def make_certificates(
    directory: str, hosts: Sequence[str], days: int, authority_days: int
) -> list[str]:
    """Make an authority, and a certificate for the `hosts` of a broker; return the files' paths.

    Raises NotMade, OSError.
    """
    try:
        contents = _contents(hosts, days, authority_days)
    except ImportError:
        raise NotMade(
            "Making certificates needs an extra package: pip install 'barnabas[security]'. Without"
            ' it, use the three openssl commands of docs/security.md, "From nothing to TLS".'
        ) from None
    paths = {name: os.path.join(directory, name) for name in FILES}
    taken = [path for path in paths.values() if os.path.lexists(path)]
    if taken:
        raise NotMade(
            f"{' and '.join(taken)} exist{'s' if len(taken) == 1 else ''}, and nothing was changed:"
            " name another directory with --directory, or move the old files away."
        )
    os.makedirs(directory, exist_ok=True)
    _write({paths[name]: contents[name] for name in FILES})
    return list(paths.values())


def _write(contents: Mapping[str, bytes]) -> None:
    made: list[str] = []
    try:
        for path, data in contents.items():
            mode = KEY_MODE if path.endswith(".key") else CERTIFICATE_MODE
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(path)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
    except OSError:
        for path in made:
            with suppress(OSError):
                os.unlink(path)
        raise


def _contents(hosts: Sequence[str], days: int, authority_days: int) -> dict[str, bytes]:
    """Return the contents of FILES. Raises ImportError."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    authority_key = ec.generate_private_key(ec.SECP256R1())
    broker_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(hosts[0], authority_key, authority_days)
    broker = _broker(hosts, broker_key.public_key(), authority, authority_key, days)
    return {
        AUTHORITY_KEY: _pem(authority_key),
        AUTHORITY: authority.public_bytes(Encoding.PEM),
        BROKER_KEY: _pem(broker_key),
        BROKER: broker.public_bytes(Encoding.PEM),
    }


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _authority(host: str, key: EllipticCurvePrivateKey, days: int) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    name = _name(f"authority of {host}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def _broker(
    hosts: Sequence[str],
    key: Any,
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    days: int,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    of_authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _builder(_name(hosts[0]), authority.subject, key, days)
        .add_extension(
            x509.SubjectAlternativeName([_general(one) for one in hosts]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(of_authority, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.fromtimestamp(SystemClock().now_ms() // 1000, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:COMMON_NAME_MAX])])


def _general(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
