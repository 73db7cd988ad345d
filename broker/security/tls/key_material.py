"""The private key, certificates and trusted certificates of a listener, from wherever they are.

A store's type is what the file is, not what the configuration says: `JKS` is Kafka's default and is
often left in front of a PKCS12 file. Real JKS files are Java's alone, and are refused with the
command that converts them.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from broker.security.tls.certificate import Certificate, read_certificate
from broker.security.tls.der import DerError
from broker.security.tls.pem import Block, PemError, blocks
from broker.security.tls.pkcs12 import Store, read_pkcs12
from broker.security.tls.tls_errors import TlsError
from config.tls_settings import TlsSettings

_JKS: Final = b"\xfe\xed\xfe\xed"
_SEQUENCE: Final = b"\x30"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024


class FileStamp(NamedTuple):
    """A file, and what of it changes when it is replaced."""

    path: str
    inode: int
    modified_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """PEM texts; `leaf` is the listener's own certificate. `warnings` are sentences."""

    key: str = field(repr=False)
    key_password: str | None = field(repr=False)
    chain: str
    leaf: Certificate
    trusted: str
    place: str  # of key and certificate, for errors
    files: tuple[FileStamp, ...]
    warnings: tuple[str, ...]


def stamp_of(path: str) -> FileStamp | None:
    """Return the stamp of a file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return FileStamp(path, found.st_ino, found.st_mtime_ns, found.st_size)


def load_material(settings: TlsSettings) -> KeyMaterial:
    """Read the files of a listener. Raises TlsError."""
    return _Loading(settings).load()


class _Loading:
    """One reading of a listener's files."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._files: list[FileStamp] = []
        self._warnings: list[str] = []

    def load(self) -> KeyMaterial:
        settings = self._settings
        if settings.keystore_location:
            key, chain, place = self._from_store(settings.keystore_location)
        else:
            key, chain, place = self._from_pem()
        trusted = self._trusted()
        return KeyMaterial(
            key=key.text,
            key_password=settings.key_password,
            chain="".join(block.text for block in chain),
            leaf=_leaf(chain[0], place),
            trusted=trusted,
            place=place,
            files=tuple(self._files),
            warnings=tuple(self._warnings),
        )

    def _from_store(self, path: str) -> tuple[Block, list[Block], str]:
        settings = self._settings
        place = f"{settings.name_of('ssl.keystore.location')}={path}"
        text = self._store(path, settings.keystore_password, place)
        if isinstance(text, Store):
            text = text.key + text.chain
        found = _pem_blocks(text, place)
        return self._key_in(found, place), _chain_in(found, place), place

    def _from_pem(self) -> tuple[Block, list[Block], str]:
        """Read `ssl.certificate` and `ssl.key`, or the values that are PEM themselves."""
        settings = self._settings
        if settings.certificate and settings.key:
            place = f"{settings.name_of('ssl.certificate')}={settings.certificate}"
            key_place = f"{settings.name_of('ssl.key')}={settings.key}"
            chain_text = self._text(settings.certificate, place)
            key_text = self._text(settings.key, key_place, is_secret=True)
        else:
            place = settings.name_of("ssl.keystore.certificate.chain")
            key_place = settings.name_of("ssl.keystore.key")
            chain_text = settings.keystore_certificate_chain or ""
            key_text = settings.keystore_key or ""
        key = self._key_in(_pem_blocks(key_text, key_place), key_place)
        return key, _chain_in(_pem_blocks(chain_text, place), place), place

    def _trusted(self) -> str:
        settings = self._settings
        if settings.truststore_location:
            place = f"{settings.name_of('ssl.truststore.location')}={settings.truststore_location}"
            text = self._store(
                settings.truststore_location, settings.truststore_password, place, is_secret=False
            )
            if isinstance(text, Store):
                text = text.trusted
        elif settings.truststore_certificates:
            place = settings.name_of("ssl.truststore.certificates")
            text = settings.truststore_certificates
        else:
            return ""
        return "".join(block.text for block in _chain_in(_pem_blocks(text, place), place))

    def _store(
        self, path: str, password: str | None, place: str, *, is_secret: bool = True
    ) -> str | Store:
        data = self._bytes(path, place, is_secret=is_secret)
        if data.startswith(_JKS):
            raise TlsError(
                f"{place} is a JKS store, which only Java reads. Convert it: keytool"
                f" -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype"
                " pkcs12"
            )
        if data.startswith(_SEQUENCE):
            return read_pkcs12(data, password, place)
        return _decoded(data, place)

    def _text(self, path: str, place: str, *, is_secret: bool = False) -> str:
        return _decoded(self._bytes(path, place, is_secret=is_secret), place)

    def _bytes(self, path: str, place: str, *, is_secret: bool) -> bytes:
        try:
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                data = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise TlsError(f"{place} cannot be read: {error.strerror}") from None
        if len(data) > FILE_BYTES_MAX:
            raise TlsError(f"{place} has more than {FILE_BYTES_MAX} bytes: it is no key store")
        self._files.append(FileStamp(path, found.st_ino, found.st_mtime_ns, found.st_size))
        if is_secret and found.st_mode & stat.S_IROTH:
            self._warnings.append(f"{place} holds a private key, and every user can read it")
        return data

    def _key_in(self, found: list[Block], place: str) -> Block:
        keys = [block for block in found if block.is_private_key]
        if len(keys) != 1:
            number = "no private key" if not keys else f"{len(keys)} private keys"
            raise TlsError(f"{place} has {number}, expected one")
        if keys[0].is_encrypted and not self._settings.key_password:
            name = self._settings.name_of("ssl.key.password")
            raise TlsError(f"the private key of {place} is encrypted: set {name}")
        return keys[0]


def _decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise TlsError(f"{place} is neither PEM nor PKCS12") from None


def _pem_blocks(text: str, place: str) -> list[Block]:
    try:
        return blocks(text)
    except PemError as error:
        raise TlsError(f"{place}: {error}") from None


def _chain_in(found: list[Block], place: str) -> list[Block]:
    chain = [block for block in found if block.is_certificate]
    if not chain:
        raise TlsError(f"{place} has no certificate (a PEM block CERTIFICATE)")
    return chain


def _leaf(block: Block, place: str) -> Certificate:
    try:
        return read_certificate(block.data)
    except DerError as error:
        raise TlsError(f"the certificate of {place} is damaged: {error}") from None
