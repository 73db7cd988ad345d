"""Keys of one listener: `listener.name.<name in lower case>.<key>` beats the plain key.

The keys that may stand behind such a prefix are those of TLS (config/ssl_keys.py). Kafka reads a
name up to the first dot, so a listener whose own name has a dot has no keys of its own.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from config.keys import Key, keys_of
from config.ssl_keys import SslKeys

LISTENER_PREFIX = "listener.name."
_PREFIXED = re.compile(r"listener\.name\.(?P<listener>[^.]+)\.(?P<key>.+)\Z")
_BEHIND_A_PREFIX = ("ssl.",)


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
        for name, described in keys_of(SslKeys).items()
        if name.startswith(_BEHIND_A_PREFIX)
    }


def key_behind(name: str) -> Key | None:
    """Return the declared key behind a prefix; None if `name` has no prefix or no such key."""
    parts = split_prefix(name)
    return listener_keys().get(parts.key) if parts else None
