"""Keys of one listener: `listener.name.<name in lower case>.<key>` beats the plain key.

The keys that may stand behind such a prefix are those of TLS (config/ssl_keys.py), of SASL
(config/sasl_keys.py), and the limits of connections, which hold for the listener beside those of
the broker. Some of SASL's may stand behind a mechanism's name there:
`listener.name.<name>.<mechanism in lower case>.<key>`. Kafka reads a name up to the first dot, so a
listener whose own name has a dot has no keys of its own.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from config.keys import Key, keys_of
from config.sasl_keys import SaslKeys

LISTENER_PREFIX = "listener.name."
_PREFIXED = re.compile(r"listener\.name\.(?P<listener>[^.]+)\.(?P<key>.+)\Z")
_MECHANISM = re.compile(r"(?:plain|scram-sha-256|scram-sha-512|oauthbearer)\.(?P<key>.+)\Z")
_BEHIND_A_PREFIX = (
    "ssl.",
    "sasl.",
    "connections.max.reauth.ms",
    "connection.failed.authentication.delay.ms",
    "barnabas.sasl.",
)
_BEHIND_A_MECHANISM = ("sasl.jaas.config", "connections.max.reauth.ms")
LIMITS = ("max.connections", "max.connection.creation.rate")


class ListenerKey(NamedTuple):
    """A prefixed name: the listener's name in upper case, and the key behind it."""

    listener: str
    key: str


def split_prefix(name: str) -> ListenerKey | None:
    """Return the parts of a prefixed name; None for any other."""
    found = _PREFIXED.match(name)
    return ListenerKey(found["listener"].upper(), found["key"]) if found else None


@functools.cache
def listener_keys() -> dict[str, Key]:
    """Return the declared keys that a listener may have for itself, by name."""
    return {
        name: described
        for name, described in keys_of(SaslKeys).items()
        if name.startswith(_BEHIND_A_PREFIX) or name in LIMITS
    }


def key_behind(name: str) -> Key | None:
    """Return the declared key behind a prefix; None if `name` has no prefix or no such key."""
    parts = split_prefix(name)
    if parts is None:
        return None
    found = _MECHANISM.match(parts.key)
    if found is not None:
        return listener_keys()[found["key"]] if found["key"] in _BEHIND_A_MECHANISM else None
    return listener_keys().get(parts.key)
