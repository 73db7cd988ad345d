"""Addresses of clients in one form, so that an ACL for an address matches however it is written.

Kafka compares the text of an ACL with Java's text of the client's address. Java writes IPv6 in full
(`0:0:0:0:0:0:0:1`), Python and most people write it short (`::1`); a listener on both families sees
an IPv4 client as `::ffff:10.0.0.1`. All of them are one address here. A network (`10.0.0.0/8`) or
a host name stays text, and matches no client, as in Kafka.
"""

from __future__ import annotations

import functools
import ipaddress

REMEMBERED_MAX = 4_096


@functools.lru_cache(maxsize=REMEMBERED_MAX)
def one_form(host: str) -> str:
    """Return an address in its shortest form, and any other text as it is."""
    address = _address(host)
    if address is None:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def is_address(host: str) -> bool:
    """Return whether `host` is the address of one host."""
    return _address(host) is not None


def network_of(host: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network that `host` is in CIDR notation, or None."""
    if "/" not in host:
        return None
    try:
        return ipaddress.ip_network(host, strict=False)
    except ValueError:
        return None


def is_within(host: str, network: str) -> bool:
    """Return whether an address lies in a network in CIDR notation."""
    found, address = network_of(network), _address(one_form(host))
    return found is not None and address is not None and address in found


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
