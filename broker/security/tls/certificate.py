"""What the broker must know of a certificate: whose it is, for which names, and until when.

`ssl` checks certificates; this reads them. Nothing here decides whether one is trusted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

from broker.security.tls import der
from broker.security.tls.der import DerError, Element
from broker.security.tls.distinguished_name import name_text

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"


class Certificate(NamedTuple):
    """A certificate: its subject as text, its alternative names as DER, and its validity."""

    subject: str
    alternative_names: frozenset[bytes]
    not_before_ms: int
    not_after_ms: int


def read_certificate(data: bytes) -> Certificate:
    """Return what the DER of a certificate says. Raises DerError."""
    signed = next(der.parse(data).expect(der.SEQUENCE).children(), None)
    if signed is None:
        raise DerError("an empty certificate")
    fields = list(signed.expect(der.SEQUENCE).children())
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 6:
        raise DerError("a certificate without its fields")
    validity, subject = fields[3].expect(der.SEQUENCE), fields[4]
    times = [_time_ms(one) for one in validity.children()]
    if len(times) != 2:
        raise DerError("a validity without two times")
    names: frozenset[bytes] = frozenset()
    for field in fields[6:]:
        if field.tag == _EXTENSIONS:
            names = _alternative_names(field)
    return Certificate(name_text(subject), names, times[0], times[1])


def _time_ms(element: Element) -> int:
    shape = {der.UTC_TIME: "%y%m%d%H%M%SZ", der.GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}
    if element.tag not in shape:
        raise DerError(f"tag {element.tag:#x} instead of a time")
    text = element.content.decode("ascii", "replace")
    try:
        when = datetime.strptime(text, shape[element.tag]).replace(tzinfo=UTC)
    except ValueError:
        raise DerError(f"{text!r} instead of a time") from None
    if element.tag == der.UTC_TIME and when.year >= 2050:  # RFC 5280; Python's century turns in 69
        when = when.replace(year=when.year - 100)
    return int(when.timestamp()) * 1000


def _alternative_names(extensions: Element) -> frozenset[bytes]:
    for extension in next(extensions.children()).expect(der.SEQUENCE).children():
        parts = list(extension.expect(der.SEQUENCE).children())
        if len(parts) < 2 or parts[0].tag != der.OBJECT_IDENTIFIER:
            raise DerError("an extension without its identifier")
        if der.object_identifier(parts[0].content) == _ALTERNATIVE_NAMES:
            value = parts[-1].expect(der.OCTET_STRING).content
            return frozenset(name.encoded for name in der.parse(value).children())
    return frozenset()
