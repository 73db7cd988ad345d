"""A certificate's subject as text: RFC 2253, as Java's X500Principal.getName writes it.

Kafka's principals and mapping rules are this text, so it must be the same to the character:

- the last part comes first: `CN=alice,OU=Sales,O=Acme,C=DE` is a subject that begins with C;
- only the nine types of RFC 2253 have names; others are `1.2.3=#` and the value's DER in hex;
- `,` `=` `+` `<` `>` `#` `;` `"` and the backslash are escaped wherever they stand, as are spaces
  at either end of a value.
"""

from __future__ import annotations

from typing import Final

from broker.security.tls.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    DerError,
    Element,
    object_identifier,
)

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# The types of text, by tag, with the encoding that Java reads each in.
_ENCODINGS: Final = {
    0x0C: "utf-8",  # UTF8String
    0x13: "latin-1",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "latin-1",  # IA5String
    0x1B: "latin-1",  # GeneralString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def name_text(name: Element) -> str:
    """Return the text of a Name. Raises DerError."""
    parts = [_part(part) for part in name.expect(SEQUENCE).children()]
    return ",".join(reversed(parts))


def _part(part: Element) -> str:
    """Return a relative name, which may have several values."""
    return "+".join(_attribute(one) for one in part.expect(SET).children())


def _attribute(attribute: Element) -> str:
    pair = list(attribute.expect(SEQUENCE).children())
    if len(pair) != 2:
        raise DerError("an attribute that is no type and value")
    kind, value = pair
    identifier = object_identifier(kind.expect(OBJECT_IDENTIFIER).content)
    name, encoding = _NAMES.get(identifier), _ENCODINGS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or identifier}=#{value.encoded.hex()}"
    return f"{name}={_escaped(value.content.decode(encoding, 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(_character(character) for character in text)
    begin = len(escaped) - len(escaped.lstrip(_BLANKS))
    end = len(escaped.rstrip(_BLANKS))
    return "".join(
        f"\\{character}" if not begin <= at < end else character
        for at, character in enumerate(escaped)
    )


def _character(character: str) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if character in _ESCAPED else character
