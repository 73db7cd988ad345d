"""The broker's keys for its HTTP listener, after those of config/authorizer_keys.py.

All are Barnabas's own. config/http_address.py reads the address.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.authorizer_keys import AuthorizerKeys
from config.keys import key
from config.values import Kind


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class HttpKeys(AuthorizerKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    barnabas_http_listener: str = key(
        "barnabas.http.listener",
        "127.0.0.1:9095",
        Kind.STRING,
        doc="The address of the console, /metrics, /healthz and /readyz: HOST:PORT. An empty"
        " host means every local address, port 0 any free port; an empty value turns HTTP off. If"
        " the port is taken, a broker that was given this key does not start; by default it starts"
        " without HTTP and warns.",
    )
    barnabas_http_hosts: tuple[str, ...] = key(
        "barnabas.http.hosts",
        (),
        Kind.LIST,
        doc="Names by which browsers may reach the HTTP listener, besides loopback names and its"
        " own addresses. Any other Host is answered with 421, except by /metrics, /healthz and"
        " /readyz.",
    )
    barnabas_http_password: str | None = key(
        "barnabas.http.password",
        None,
        Kind.PASSWORD,
        doc="If set, /metrics demands it (HTTP Basic authentication, with any user name). Without"
        " it, /metrics answers on loopback only, and not with an authorizer. The console demands it"
        " too, except where the broker's users log in; beyond loopback it then shows and changes"
        " nothing.",
    )
    barnabas_http_read_only: bool = key(
        "barnabas.http.read.only",
        default=False,
        kind=Kind.BOOLEAN,
        doc="Whether the console shows and changes nothing: it produces no records, resets no"
        " offsets, and alters neither topics nor configs.",
    )
