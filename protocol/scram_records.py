"""The records of the metadata log that hold users: SCRAM credentials (KIP-900), and mechanisms.

A user is a name with at least one credential; there is one credential for each mechanism. The
record has what a server needs to check a login (RFC 5802), and nothing to log in with: `stored_key`
is H(HMAC(SaltedPassword, "Client Key")), `server_key` is HMAC(SaltedPassword, "Server Key"). Both
are secrets all the same: who has them can guess passwords, and pretend to be the server. So `repr`
hides them.

Sources: UserScramCredentialRecord.json, RemoveUserScramCredentialRecord.json and
org.apache.kafka.clients.admin.ScramMechanism, Apache Kafka 4.3.
"""

from dataclasses import field
from enum import IntEnum
from typing import Final

from protocol.wire import Bytes, Int8, Int32, String, message, structure

ITERATIONS_MIN: Final = 4_096  # Kafka's, for both mechanisms, and its tools' default
ITERATIONS_MAX: Final = 16_384


class ScramMechanism(IntEnum):
    """A mechanism's code, on disk and on the wire: never renumber."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in a SASL handshake: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The name of its hash function in `hashlib`."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


SCRAM_MECHANISMS: Final = {mechanism.sasl_name: mechanism for mechanism in ScramMechanism}


@message(api_key=11, kind="data", versions=(0, 0), flexible_since=0)
@structure
class UserScramCredentialRecord:
    """A user's credential for one mechanism, new or changed."""

    name: String
    mechanism: Int8
    salt: Bytes = field(repr=False)
    stored_key: Bytes = field(repr=False)
    server_key: Bytes = field(repr=False)
    iterations: Int32


@message(api_key=22, kind="data", versions=(0, 0), flexible_since=0)
@structure
class RemoveUserScramCredentialRecord:
    """A user's credential for one mechanism is gone."""

    name: String
    mechanism: Int8
