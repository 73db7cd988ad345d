"""Addresses: of the ends of connections, and of host names, which the system's resolver knows."""

from __future__ import annotations

import socket

_MAPPED = "::ffff:"


def plain_address(address: str) -> str:
    """Return the address of an end of a connection, as Java shows it if it is of IPv4.

    On a socket for both families, such as that of `[::]`, the system shows it as `::ffff:10.0.0.1`:
    no limit, quota or subscription names it so, and a client without IPv6 cannot connect to it.
    """
    return address.removeprefix(_MAPPED) if "." in address else address


def address_of_name(name: str) -> str | None:
    """Return the address that a host name resolves to first, or None. For a thread of the pool."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0])
