"""Why a client may or may not do something: the ACL that decided, near misses, and the remedy.

A near miss is an ACL that would allow the access but for one or two details that people get wrong:
the case of a name, a literal name where a prefix was meant, a network or a host name as host,
another address, the name of a certificate's subject, another operation. Everything here is a pure
function of the ACLs, so `barnabas acls check` explains by DescribeAcls what the broker's own log
explains.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker.security.acl.acl_codes import (
    CLUSTER_NAME,
    EVERY_USER,
    WILDCARD,
    PatternType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.acl_hosts import is_address, is_within, network_of
from broker.security.acl.acl_words import VERBS, in_words, noun_of, resource_words
from broker.security.acl.rule import Access, AclDecision, Basis

ANONYMOUS: Final = "User:ANONYMOUS"
NEAR_MAX: Final = 3  # near misses that are named
DETAILS_MAX: Final = 2  # that differ
NAME_MAX: Final = 512  # characters
BEGINNING_MIN: Final = 3  # characters of a literal name that might be meant as a prefix
_USER: Final = "User:"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An ACL that does not match, and why not."""

    entry: AclEntry
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as a sentence without its full stop."""
        return f"{in_words(self.entry)}, but {', and '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an operator wants to know of a decision; `remedy` is a command, or empty."""

    verdict: str
    near: tuple[NearMiss, ...] = ()
    hint: str = ""
    remedy: str = ""


def explain(access: Access, decision: AclDecision, entries: Iterable[AclEntry]) -> Explanation:
    """Explain a decision; `entries` are the ACLs to search for near misses."""
    wanted = f"{access.principal} {_asked(access)}"
    if decision.is_allowed:
        return Explanation(_allowed(access, decision, wanted))
    if decision.entry is not None:
        verdict = f"Denied: {in_words(decision.entry)}, and what denies comes first"
        return Explanation(verdict, remedy=_removal(decision.entry))
    verdict = f"Denied: no ACL allows {access.principal} to {_asked(access)}"
    hint = ""
    if access.principal == ANONYMOUS:
        hint = "The client has not shown who it is: no SASL, and no certificate that was asked for"
    return Explanation(verdict, near_misses(access, entries), hint, allowing(access))


def _allowed(access: Access, decision: AclDecision, wanted: str) -> str:
    if decision.basis is Basis.SUPER_USER:
        return f"Allowed: {access.principal} is a super user"
    if decision.entry is not None:
        return f"Allowed: {in_words(decision.entry)}"
    resource = resource_words(access.resource_type, access.name)
    return f"Allowed: {wanted}; no ACL is for {resource}, and allow.everyone.if.no.acl.found is on"


def _asked(access: Access) -> str:
    resource = resource_words(access.resource_type, access.name)
    return f"{VERBS[access.operation]} {resource} from {access.host}"


def allowing(access: Access) -> str:
    """Return the command that would allow the access."""
    words = ["barnabas", "acls", "allow", _short(access.principal), _word(access.operation.name)]
    words.append(_word(access.resource_type.name))
    if access.resource_type is not ResourceType.CLUSTER:
        words.append(access.name)
        if access.name.endswith(WILDCARD):
            words.append("--literal")
    return shlex.join(words)


def _removal(entry: AclEntry) -> str:
    words = ["barnabas", "acls", "remove", _short(entry.principal), _word(entry.operation.name)]
    words.append(_word(entry.resource_type.name))
    if entry.name != CLUSTER_NAME:
        is_prefix = entry.pattern is PatternType.PREFIXED
        words.append(entry.name + WILDCARD if is_prefix else entry.name)
        if not is_prefix and entry.name.endswith(WILDCARD) and entry.name != WILDCARD:
            words.append("--literal")
    words.append("--deny")
    if entry.host != WILDCARD:
        words += ["--host", entry.host]
    return shlex.join(words)


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _short(principal: str) -> str:
    """Return a principal as the command takes it: the type User may be left out."""
    name = principal.removeprefix(_USER)
    return principal if ":" in name or not name else name


# -- near misses -----------------------------------------------------------------------------------


def near_misses(access: Access, entries: Iterable[AclEntry]) -> tuple[NearMiss, ...]:
    """Return the ACLs that nearly allow the access, the nearest first.

    None if a name is so long that to compare it with each ACL would take long.
    """
    if max(len(access.name), len(access.principal)) > NAME_MAX:
        return ()
    found = []
    for entry in entries:
        if entry.resource_type is access.resource_type and entry.is_allow:
            reasons = _reasons(entry, access)
            if reasons is not None and 0 < len(reasons) <= DETAILS_MAX:
                found.append(NearMiss(entry, reasons))
    found.sort(key=lambda near: len(near.reasons))
    return tuple(found[:NEAR_MAX])


def _reasons(entry: AclEntry, access: Access) -> tuple[str, ...] | None:
    """Return the details in which an ACL misses the access; None: it is for something else."""
    reasons = []
    for detail in (_principal_reason, _name_reason, _host_reason, _operation_reason):
        reason = detail(entry, access)
        if reason is None:
            return None
        if reason:
            reasons.append(reason)
    return tuple(reasons)


# Each returns "" if the detail matches, and None if it is for something else.


def _principal_reason(entry: AclEntry, access: Access) -> str | None:
    given, asked = entry.principal, access.principal
    if given in (asked, EVERY_USER):
        return ""
    if given.strip().lower() == asked.strip().lower():
        return f"it is for {given!r}, and the case and blanks of a name count"
    given_name, asked_name = given.removeprefix(_USER), asked.removeprefix(_USER)
    if f"CN={given_name}" in asked_name.split(","):
        return f"the client's name is the whole subject of its certificate, {asked_name}"
    if f"CN={asked_name}" in given_name.split(","):
        return "it is for the whole subject of a certificate, and the client has a short name"
    return None


def _name_reason(entry: AclEntry, access: Access) -> str | None:
    if entry.is_for_name(access.name):
        return ""
    given, asked = entry.name, access.name
    noun = noun_of(entry.resource_type)
    if entry.pattern is PatternType.PREFIXED:
        if given.endswith(WILDCARD) and asked.startswith(given[:-1]):
            return f"its prefix ends with the character {WILDCARD}, which no {noun} has there"
        if asked.lower().startswith(given.lower()):
            return "the case of a name counts"
        return None
    if given.lower() == asked.lower():
        return "the case of a name counts"
    if given.endswith(WILDCARD) and asked.startswith(given[:-1]):
        return f"it is literal, so its {WILDCARD} is a character; a prefix '{given[:-1]}' is meant"
    if asked.startswith(given) and len(given) >= BEGINNING_MIN:
        return f"it is literal, and a prefix would be for every {noun} that begins so"
    return None


def _host_reason(entry: AclEntry, access: Access) -> str | None:
    if entry.is_for_host(access.host):
        return ""
    host = entry.host
    if is_within(access.host, host):
        return f"its host {host} is a network, and only whole addresses are compared"
    if network_of(host):
        return None
    if is_address(host):
        return f"it is for clients at {host} only"
    return f"its host {host!r} is no address, and names are not looked up"


def _operation_reason(entry: AclEntry, access: Access) -> str | None:
    if entry.is_for_operation(access.operation):
        return ""
    allowed = VERBS.get(entry.operation, "do something unknown")
    return f"to {allowed} it does not include to {VERBS[access.operation]} it"
