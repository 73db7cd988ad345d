"""The TLS of one listener, ready for handshakes: a context, and the principals of its clients.

One of these never changes. What replaces it is made anew from the files: a context into which
another certificate is loaded keeps every certificate authority it ever had, and refuses every
client if key and certificate do not match.

- Each handshake is a full one. Sessions are not resumed in TLS 1.3, so a certificate that is no
  longer trusted opens no connection.
- Renegotiation by clients is refused, and compression is off.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from broker.runtime.request import ANONYMOUS
from broker.security.principal_mapping import NoMatchingRule, PrincipalMapping, RuleError
from broker.security.tls.alerting import AlertingObject
from broker.security.tls.certificate import Certificate, read_certificate
from broker.security.tls.cipher_suites import TLS_1_3, Suites, UnknownSuite, suites_of
from broker.security.tls.der import DerError
from broker.security.tls.key_material import FileStamp, KeyMaterial, load_material
from broker.security.tls.tls_errors import TlsError
from config.tls_settings import TlsSettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The TLS of one listener; `certificate` is the listener's own."""

    settings: TlsSettings
    context: ssl.SSLContext
    mapping: PrincipalMapping
    certificate: Certificate
    place: str
    files: tuple[FileStamp, ...]
    warnings: tuple[str, ...]

    def principal_of(self, peer_certificate: bytes | None) -> str:
        """Return a client's principal by its certificate's DER. Raises NoMatchingRule."""
        if not peer_certificate or self.settings.client_auth == "none":
            return ANONYMOUS
        try:
            subject = read_certificate(peer_certificate).subject
        except DerError as error:  # OpenSSL has accepted it
            raise NoMatchingRule(f"its certificate cannot be read: {error}") from None
        return f"User:{self.mapping.name_of(subject)}"


def make_server_tls(settings: TlsSettings, now_ms: int) -> ServerTls:
    """Read the files of a listener and return its TLS. Raises TlsError."""
    material = load_material(settings)
    warnings = [*material.warnings, *_check_validity(material, now_ms)]
    try:
        mapping = PrincipalMapping(settings.principal_mapping_rules)
    except RuleError as error:
        name = settings.name_of("ssl.principal.mapping.rules")
        raise TlsError(f"{name}={settings.principal_mapping_rules}: {error}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    context.sslobject_class = AlertingObject
    _choose_versions(context, settings, warnings)
    _load_key(context, material, settings)
    _trust(context, material, settings)
    return ServerTls(
        settings,
        context,
        mapping,
        material.leaf,
        material.place,
        material.files,
        tuple(warnings),
    )


def _check_validity(material: KeyMaterial, now_ms: int) -> list[str]:
    leaf = material.leaf
    if leaf.not_after_ms <= now_ms:
        raise TlsError(
            f"the certificate of {material.place} (subject {leaf.subject}) expired"
            f" {(now_ms - leaf.not_after_ms) // 86_400_000} days ago: replace it"
        )
    if leaf.not_before_ms > now_ms:
        return [f"the certificate of {material.place} is not valid yet: clients will refuse it"]
    return []


def _choose_versions(context: ssl.SSLContext, settings: TlsSettings, warnings: list[str]) -> None:
    versions = set(settings.enabled_protocols)
    if settings.cipher_suites:
        name = settings.name_of("ssl.cipher.suites")
        suites = _suites(settings, name)
        # Java refuses a version of which no suite is in the list.
        versions -= {"TLSv1.3"} if not suites.of_1_3 else set()
        versions -= {"TLSv1.2"} if not suites.before_1_3 else set()
        if not versions:
            allowed = ",".join(settings.enabled_protocols)
            raise TlsError(f"{name} has no suite for ssl.enabled.protocols={allowed}")
        if "TLSv1.3" in versions and len(set(suites.of_1_3)) < len(TLS_1_3):
            warnings.append(f"{name}: all suites of TLS 1.3 are used; they cannot be chosen")
        if "TLSv1.2" in versions:
            context.set_ciphers(":".join(suites.before_1_3))
    found = sorted(_VERSIONS[version] for version in versions)
    context.minimum_version, context.maximum_version = found[0], found[-1]


def _suites(settings: TlsSettings, name: str) -> Suites:
    try:
        return suites_of(settings.cipher_suites)
    except UnknownSuite as error:
        raise TlsError(f"{name}: {error}") from None


def _load_key(context: ssl.SSLContext, material: KeyMaterial, settings: TlsSettings) -> None:
    password = material.key_password or ""
    try:
        with _as_file(material.key + material.chain) as path:
            # A function: OpenSSL would ask at a terminal for a password that is not given.
            context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as error:
        raise TlsError(_why_not(error, material, settings)) from None
    except ValueError:  # Python's, for a password of more than 1,024 bytes
        raise TlsError(f"{settings.name_of('ssl.key.password')} is too long") from None


def _why_not(error: ssl.SSLError, material: KeyMaterial, settings: TlsSettings) -> str:
    reason = error.reason or str(error)
    if "KEY_VALUES_MISMATCH" in reason or "KEY_TYPE_MISMATCH" in reason:
        return (
            f"the private key does not belong to the certificate of {material.place}: expected the"
            " key of its first certificate"
        )
    if "KEY_TOO_SMALL" in reason or "MD_TOO_WEAK" in reason:
        return f"the certificate of {material.place} is too weak for OpenSSL: {reason}"
    if settings.key_password:
        name = settings.name_of("ssl.key.password")
        return f"the private key of {material.place} cannot be opened: is {name} right? ({reason})"
    return f"the private key or certificate of {material.place} cannot be used: {reason}"


def _trust(context: ssl.SSLContext, material: KeyMaterial, settings: TlsSettings) -> None:
    context.verify_mode = _VERIFY[settings.client_auth]
    if not material.trusted:
        return
    # As in Java, any certificate in the store is trusted, not only roots.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=material.trusted)
    except ssl.SSLError as error:
        place = settings.name_of("ssl.truststore.location")
        raise TlsError(f"{place}: a certificate in it is damaged ({error.reason})") from None


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Give `text` a path for as long as it is needed; Python loads keys from files only.

    On Linux the file is in memory and has no name that another user could open.
    """
    data = text.encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # readable by its owner only
            file.write(data)
            file.flush()
            yield file.name
