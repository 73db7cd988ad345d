"""A subject as Java writes it, which Kafka's principals and mapping rules are."""

import pytest

from broker.security.tls.der import DerError, parse
from broker.security.tls.distinguished_name import name_text


def element(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    assert len(content) < 128
    return bytes((tag, len(content))) + content


def attribute(identifier: bytes, value: bytes, tag: int = 0x0C) -> bytes:
    return element(0x30, element(0x06, identifier), element(tag, value))


def name(*parts: bytes) -> bytes:
    return element(0x30, *(element(0x31, part) for part in parts))


CN, C, OU = b"\x55\x04\x03", b"\x55\x04\x06", b"\x55\x04\x0b"
EMAIL = bytes.fromhex("2a864886f70d010901")
UID = bytes.fromhex("0992268993f22c640101")


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (name(attribute(C, b"DE", 0x13), attribute(CN, b"alice")), "CN=alice,C=DE"),
        (name(attribute(UID, b"u1"), attribute(CN, b"x")), "CN=x,UID=u1"),
        (name(attribute(CN, b"a") + attribute(OU, b"b")), "CN=a+OU=b"),
        (
            name(attribute(EMAIL, b"a@b.c", 0x16)),
            "1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (name(attribute(CN, b'a,b+c=d"e\\f<g>h;i#j')), r"CN=a\,b\+c\=d\"e\\f\<g\>h\;i\#j"),
        (name(attribute(CN, b"  two  ")), r"CN=\ \ two\ \ "),
        (name(attribute(CN, b" ")), r"CN=\ "),
        (name(attribute(CN, "Jörg".encode())), "CN=Jörg"),
        (name(attribute(CN, "Jörg".encode("utf-16-be"), 0x1E)), "CN=Jörg"),
        (name(attribute(CN, b"a\0b")), r"CN=a\00b"),
        (name(attribute(CN, b"\x01", 0x03)), "CN=#030101"),
        (name(), ""),
    ],
)
def test_a_subject(encoded, text):
    assert name_text(parse(encoded)) == text


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x30",
        b"\x30\x05\x31",
        b"\x30\x80",
        b"\x31\x00",
        name(b"\x30\x00"),
        element(0x30, element(0x31, element(0x30, element(0x06, b"\x80"), element(0x0C)))),
    ],
)
def test_what_is_no_name_is_refused(encoded):
    with pytest.raises(DerError):
        name_text(parse(encoded))
