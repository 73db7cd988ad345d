"""Whether a request was meant for this broker: what its `Host` may say.

A page of another site can have its name resolved to 127.0.0.1, and its scripts then reach this
broker from a user's browser with the site's own name as `Host` and `Origin` ("DNS rebinding"). So a
request is answered only if `Host` names this machine: a loopback name, the address that is bound or
that the connection has reached, or a name in `barnabas.http.hosts`.
"""

from __future__ import annotations

from collections.abc import Collection


def host_name(header: str) -> str:
    """Return the name or address in a `Host` header, in lower case, without port and brackets."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    name, colon, port = header.rpartition(":")
    return name if colon and (port.isdigit() or not port) else header


def is_for_us(header: str, local_host: str, names: Collection[str]) -> bool:
    """Whether `header` names this broker; `names` are bound or configured, in lower case."""
    name = host_name(header).removesuffix(".")
    return bool(name) and (
        name == "localhost"
        or name == "::1"
        or _is_loopback(name)
        or name == local_host.lower()
        or name in names
    )


def _is_loopback(name: str) -> bool:
    """Whether it is an address 127.x.y.z, and no name that only begins like one."""
    parts = name.split(".")
    return (
        len(parts) == 4
        and parts[0] == "127"
        and all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts)
    )
