"""Addresses of host names, asked of the system's resolver: that may wait."""

from __future__ import annotations

import socket


def address_of_name(name: str) -> str | None:
    """Return the address that a host name resolves to first, or None. For a thread of the pool."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0])
