"""Passwords from files, and the credential that a login is checked against."""

import hashlib

import pytest

from client.user_credentials import mechanism_name, read_password, salted
from protocol.scram_records import ScramMechanism


@pytest.mark.parametrize(
    ("data", "password"),
    [(b"secret", "secret"), (b"secret\n", "secret"), (b"secret\r\n", "secret"),
     (b" a b \n", " a b "), ("pässwörd\n".encode(), "pässwörd")],
)  # fmt: skip
def test_the_only_line_is_the_password(data, password):
    assert read_password(data, "f") == password


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", "f has 0 lines"), (b"\n", "f has 1 lines"), (b"a\nb\n", "f has 2 lines"),
     (b"MARKED\xff", "f is not UTF-8")],
)  # fmt: skip
def test_refused_files(data, text):
    with pytest.raises(ValueError, match=text) as refused:
        read_password(data, "f")
    assert "MARKED" not in str(refused.value)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_the_salted_password_is_pbkdf2(mechanism):
    one = salted("alice", mechanism, "pässword", 4096)
    other = salted("alice", mechanism, "pässword", 4096)
    assert one.salt != other.salt
    assert len(one.salt) == 26
    expected = hashlib.pbkdf2_hmac(mechanism.digest, "pässword".encode(), one.salt, 4096)
    assert one.salted_password == expected
    assert "salt" not in repr(one).replace("salt=[hidden]", "").replace(
        "salted_password=[hidden]", ""
    )


def test_names_of_mechanisms():
    assert [mechanism_name(code) for code in (1, 2, 7)] == [
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "mechanism 7",
    ]
