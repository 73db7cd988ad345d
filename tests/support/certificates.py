"""A certificate authority for tests: issues certificates into files, PEM and PKCS12.

Keys are P-256 unless a test asks for RSA: those take a quarter of a second to make.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

NAMES = {
    "CN": NameOID.COMMON_NAME,
    "C": NameOID.COUNTRY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "UID": NameOID.USER_ID,
    "EMAIL": NameOID.EMAIL_ADDRESS,
}
USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
DAY = datetime.timedelta(days=1)
Subject = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as PEM and in files of a directory."""

    directory: Path
    name: str
    key: str
    chain: str
    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

    @property
    def key_file(self) -> str:
        return str(self.directory / f"{self.name}.key")

    @property
    def chain_file(self) -> str:
        return str(self.directory / f"{self.name}.pem")

    @property
    def store_file(self) -> str:
        """Key and certificates in one file."""
        return str(self.directory / f"{self.name}.store.pem")

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def encrypted_key(self, password: str) -> str:
        encryption = BestAvailableEncryption(password.encode())
        return self.private_key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, encryption
        ).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            self.name.encode(),
            self.private_key,
            self.certificate,
            None,
            BestAvailableEncryption(password.encode()),
        )

    def write(self) -> "Issued":
        Path(self.key_file).write_text(self.key)
        Path(self.key_file).chmod(0o600)
        Path(self.chain_file).write_text(self.chain)
        Path(self.store_file).write_text(self.key + self.chain)
        Path(self.store_file).chmod(0o600)
        return self


class Authority:
    """Issues certificates; its own is in `file`."""

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name([("CN", name)])
        builder = _builder(self._name, self._key.public_key(), -1, 3650)
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.issuer_name(self._name).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        # Python's clients are strict from 3.13 on: they want this, and issuers named by key.
        usage = dict.fromkeys(USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
        builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
        builder = builder.add_extension(self._identifier, critical=False)
        self.certificate = builder.sign(self._key, hashes.SHA256())
        self.pem = self.certificate.public_bytes(Encoding.PEM).decode()
        self.file = str(directory / f"{name.replace(' ', '-')}.pem")
        Path(self.file).write_text(self.pem)

    def issue(
        self,
        name: str,
        subject: Subject | None = None,
        *,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        begins: float = -1,
        ends: float = 100,
        rsa_bits: int = 0,
    ) -> Issued:
        """Issue a certificate that is valid between two numbers of days from now."""
        key = (
            rsa.generate_private_key(65537, rsa_bits)
            if rsa_bits
            else ec.generate_private_key(ec.SECP256R1())
        )
        names = _name(subject or [("CN", name)])
        builder = _builder(names, key.public_key(), begins, ends).issuer_name(self._name)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier),
            critical=False,
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        chain = certificate.public_bytes(Encoding.PEM).decode()
        return Issued(self.directory, name, encoded, chain, certificate, key).write()


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
    begins: float,
    ends: float,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins * DAY)
        .not_valid_after(now + ends * DAY)
    )


def _name(subject: Subject) -> x509.Name:
    return x509.Name([x509.NameAttribute(NAMES[kind], value) for kind, value in subject])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
