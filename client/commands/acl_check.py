"""`barnabas acls check`: whether a principal may do something, which ACL decides, and why.

It asks no broker for a decision. It applies the broker's own rule to the ACLs that DescribeAcls
lists, so that it can also explain the answer. On Apache Kafka it cannot see super.users and
allow.everyone.if.no.acl.found, which Kafka never shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from client.commands.acl_arguments import (
    entry_of_codes,
    name_of,
    operations_of,
    principal_of,
    resource_type_of,
    row_of,
)
from client.commands.careful_command import CarefulCommand
from client.commands.output import FAILED, broker_options, connect, refusing, show_json
from client.kafka.acl_requests import AclCodes

if TYPE_CHECKING:
    from broker.security.acl.explanation import Explanation
    from broker.security.acl.rule import Access, AclDecision, Policy
    from client.kafka.connection import Connection


@click.command(cls=CarefulCommand)
@click.argument("principal")
@click.argument("operation")
@click.argument("resource_type")
@click.argument("name", required=False)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True,
    help="The client's address, as the broker sees it.",
)  # fmt: skip
@broker_options
@refusing
def check(
    principal: str,
    operation: str,
    resource_type: str,
    name: str | None,
    *,
    host: str,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Say whether PRINCIPAL may do OPERATION on RESOURCE_TYPE NAME, which ACL decides, and why.

    Exits with code 1 if it is denied.
    """
    from broker.security.acl.explanation import explain
    from broker.security.acl.rule import Access, Policy, decide
    from client.kafka import acl_requests

    kind = resource_type_of(resource_type)
    asked, _ = name_of(kind, name, literal=True)
    operations = operations_of(operation)
    with connect(bootstrap, timeout_s) as connection:
        listed = acl_requests.describe(connection, AclCodes(resource_type=kind))
        policy = _policy(connection)
    entries = [entry_of_codes(one) for one in listed]
    results = []
    for one in operations:
        access = Access(principal_of(principal), host, one, kind, asked)
        decision = decide(access, entries, policy or Policy())
        results.append((access, decision, explain(access, decision, entries)))
    if as_json:
        show_json([_checked(*one) for one in results])
    else:
        for _, _, explanation in results:
            _show(explanation)
        if policy is None:
            click.echo("The broker does not show super.users and allow.everyone.if.no.acl.found.")
    if not all(decision.is_allowed for _, decision, _ in results):
        raise click.exceptions.Exit(FAILED)


def _policy(connection: Connection) -> Policy | None:
    """Return what holds beside the ACLs; None if the broker does not show it."""
    from broker.security.acl.rule import Policy
    from client.kafka.acl_requests import authorizer_settings

    settings = authorizer_settings(connection)
    if settings is None:
        return None
    from config.authorizer_keys import parse_super_users

    return Policy(parse_super_users(settings.super_users), settings.allows_without_acl)


def _show(explanation: Explanation) -> None:
    click.echo(f"{explanation.verdict}.")
    for near in explanation.near:
        click.echo(f"Nearly: {near}.")
    if explanation.hint:
        click.echo(f"{explanation.hint}.")
    if explanation.remedy:
        click.echo(f"To allow it: {explanation.remedy}")


def _checked(access: Access, decision: AclDecision, explanation: Explanation) -> dict[str, Any]:
    return {
        "principal": access.principal,
        "host": access.host,
        "operation": access.operation.name.lower().replace("_", "-"),
        "resource_type": access.resource_type.name.lower().replace("_", "-"),
        "name": access.name,
        "allowed": decision.is_allowed,
        "acl": row_of(decision.entry) if decision.entry is not None else None,
        "verdict": explanation.verdict,
        "near": [str(near) for near in explanation.near],
        "hint": explanation.hint or None,
        "remedy": explanation.remedy or None,
    }
