"""What stays open although there is an authorizer: sentences for the log of a start.

A broker that asks for rights looks closed. It is not where its clients cannot be told apart, or
where those that cannot are allowed everything: server.properties from Kafka often name
User:ANONYMOUS a super user, because a Kafka without that does not reach its own controller.
"""

from __future__ import annotations

from collections.abc import Collection

from broker.security.acl.acl_codes import EVERY_USER
from broker.security.acl.explanation import ANONYMOUS
from config.broker import BrokerConfig
from config.listeners import WITH_SASL, Listener

OPEN_WITHOUT_ACL = (
    "allow.everyone.if.no.acl.found is on: every client may do everything with what has no ACL, the"
    " cluster too"
)
NOBODY = (
    "super.users is empty, and there are no ACLs: no client may do anything, nor create an ACL."
    " Name a super user, such as super.users=User:admin"
)
_USER = "User:"
_MSGPACK = "MSGPACK"


def open_doors(config: BrokerConfig, acl_count: int) -> list[str]:
    """Return a warning for each door that an operator may not expect to be open, or shut."""
    unnamed = [one for one in config.served_listeners if not _knows_its_clients(config, one)]
    found = []
    if ANONYMOUS in config.super_principals:
        found += [
            f"super.users names {ANONYMOUS}, and listener {one.name} takes clients from the network"
            " without authentication: each of them may do everything"
            for one in unnamed
            if not one.is_loopback
        ]
    found += [
        f"listener {one.name} has no authentication, so its clients are all {ANONYMOUS} for the"
        " authorizer: use MSGPACK_SASL or MSGPACK_SASL_SSL, or MSGPACK_SSL with"
        " ssl.client.auth=required"
        for one in unnamed
        if one.protocol.startswith(_MSGPACK)
    ]
    if config.allow_everyone_if_no_acl_found:
        found.append(OPEN_WITHOUT_ACL)
    elif not config.super_principals and not acl_count:
        found.append(NOBODY)
    return found + _idle(config.super_principals)


def _knows_its_clients(config: BrokerConfig, listener: Listener) -> bool:
    """Return whether every client of a listener has to show who it is."""
    if listener.protocol in WITH_SASL:
        return True
    tls = config.tls.get(listener.name)
    return tls is not None and tls.client_auth == "required"


def _idle(super_users: Collection[str]) -> list[str]:
    return [
        f"super.users names {one}, which is no client's principal: they begin with {_USER}, and *"
        " is no wildcard there"
        for one in sorted(super_users)
        if one == EVERY_USER or not one.removeprefix(_USER) or not one.startswith(_USER)
    ]
