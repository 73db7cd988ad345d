"""Users as commands list and change them, and the credential that is sent or stored for a password.

A password is never an argument, because every user of a machine can list the arguments of its
processes. The broker does not see it either: it gets PBKDF2 of the password and a random salt, as
from Kafka's tools. Salts look like those that Kafka's clients make.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.scram_records import ScramMechanism

SALT_SIZE: Final = 26
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"


class UserRefused(Exception):
    """What a command was to do with a user cannot be done; nothing was changed."""


class UserRow(NamedTuple):
    """A credential of a user, by the code of its mechanism."""

    user: str
    mechanism: int
    iterations: int


class UserChanges(NamedTuple):
    """The credentials to remove and to set."""

    removals: Sequence[ScramCredentialDeletion] = ()
    credentials: Sequence[ScramCredentialUpsertion] = ()


def mechanism_name(code: int) -> str:
    """Return the name of a mechanism; a newer Kafka may have one that has no name here."""
    known = [one.sasl_name for one in ScramMechanism if one == code]
    return known[0] if known else f"mechanism {code}"


def salted(
    user: str, mechanism: ScramMechanism, password: str, iterations: int
) -> ScramCredentialUpsertion:
    """Return the credential of a password, with a new salt. Takes some 10 ms."""
    salt = "".join(secrets.choice(_DIGITS) for _ in range(SALT_SIZE)).encode()
    return ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations),
    )


def read_password(data: bytes, name: str) -> str:
    """Return the password in a file: its only line. Raises ValueError."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8; expected one line with the password") from None
    lines = text.splitlines()
    if len(lines) != 1 or not lines[0]:
        raise ValueError(f"{name} has {len(lines)} lines; expected one line with the password")
    return lines[0]
