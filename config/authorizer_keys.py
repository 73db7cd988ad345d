"""The broker's keys for authorization, after those of config/metadata_keys.py.

`authorizer.class.name` is Kafka's. The other two are settings of Kafka's StandardAuthorizer, which
Kafka's own table of keys does not list. `super_users` reads a list as that authorizer does:
principals between semicolons, since a certificate's name contains commas.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checks import Check
from config.errors import ConfigError
from config.keys import Importance, key
from config.metadata_keys import MetadataKeys
from config.values import Kind

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PRINCIPAL_FORM = "principals such as User:alice, separated by semicolons"


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class AuthorizerKeys(MetadataKeys):
    """One field a key; the attribute of a key is its name with underscores.

    A part of BrokerConfig, the only one of which there are objects.
    """

    authorizer_class_name: str = key(
        "authorizer.class.name",
        "",
        Kind.STRING,
        importance=Importance.LOW,
        check=Check(
            f"empty, or {STANDARD_AUTHORIZER}", lambda value: value in ("", STANDARD_AUTHORIZER)
        ),
        doc="Kafka's StandardAuthorizer checks every request against the ACLs. Without it, every"
        " client may do everything.",
    )
    super_users: str = key(
        "super.users",
        "",
        Kind.STRING,
        doc="Principals that may do everything, separated by semicolons: User:admin;User:CN=ops."
        " A name is compared character by character.",
    )
    allow_everyone_if_no_acl_found: bool = key(
        "allow.everyone.if.no.acl.found",
        default=False,
        kind=Kind.BOOLEAN,
        doc="Whether a resource without any ACL is open to every client. The first ACL for a"
        " resource ends that, whatever it allows or denies.",
    )


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals in `text`. Raises ConfigError for one without a type and a colon."""
    found = frozenset(part.strip() for part in text.split(";")) - {""}
    for principal in sorted(found):
        if ":" not in principal:
            raise ConfigError(
                f"{principal!r} is no principal: it has no type and colon, as User:{principal} has",
                key="super.users",
                value=text,
                allowed=PRINCIPAL_FORM,
            )
    return found
