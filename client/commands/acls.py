"""`barnabas acls`: who may do what, in words; works on this broker and on Apache Kafka.

`acl_arguments` reads the words of a command line; `acl_check` has the command that explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from client.commands.acl_arguments import (
    Convenience,
    Right,
    entries_of,
    entry_of_codes,
    name_of,
    operations_of,
    principal_of,
    resource_type_of,
    row_of,
)
from client.commands.acl_check import check
from client.commands.careful_command import CarefulGroup
from client.commands.deletion import Deletion, deletes
from client.commands.output import (
    DRY_RUN,
    broker_options,
    connect,
    fail,
    refusing,
    show_json,
    show_table,
)
from client.kafka.acl_requests import AclCodes

if TYPE_CHECKING:
    from broker.security.acl.acl_entry import AclEntry

HOST = click.option(
    "--host", metavar="ADDRESS", default="*", help="Only for clients at this address [default: *]."
)
LITERAL = click.option(
    "--literal", is_flag=True, help="Take a * at the end of NAME as a character."
)
OPERATION, RESOURCE = "operation", "resource_type"
SHORT_HELP = "Let a principal do something, or prepare it to produce or consume."


@click.group(cls=CarefulGroup)
def acls() -> None:
    """Allow, deny, list, remove and check what clients may do.

    \b
    PRINCIPAL      alice (User:alice), 'User:CN=alice,O=Acme', or '*' for everybody
    OPERATION      read, write, create, delete, alter, describe, describe-configs,
                   alter-configs, cluster-action, idempotent-write, all; with commas: read,write
    RESOURCE_TYPE  topic, group, cluster, transactional-id
    NAME           orders; 'orders.*' for all that begin so; '*' for all
    """  # noqa: D301 - \b is click's mark for lines to keep


@acls.command(short_help=SHORT_HELP)
@click.argument("principal")
@click.argument(OPERATION, required=False)
@click.argument(RESOURCE, required=False)
@click.argument("name", required=False)
@click.option("--producer", is_flag=True, help="What a producer needs for each --topic.")
@click.option("--consumer", is_flag=True, help="What a consumer needs, with --topic and --group.")
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Repeatable.")
@click.option("--group", "groups", metavar="NAME", multiple=True, help="Repeatable.")
@click.option(
    "--transactional-id", "transactional_ids", metavar="NAME", multiple=True, help="Repeatable."
)
@HOST
@LITERAL
@DRY_RUN
@broker_options
@refusing
def allow(
    principal: str,
    operation: str | None,
    resource_type: str | None,
    name: str | None,
    *,
    producer: bool,
    consumer: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactional_ids: tuple[str, ...],
    host: str,
    literal: bool,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Allow PRINCIPAL to do OPERATION on RESOURCE_TYPE NAME, or what a client needs.

    \b
    barnabas acls allow alice read topic 'orders.*'
    barnabas acls allow alice --producer --topic orders
    barnabas acls allow alice --consumer --topic orders --group billing
    """  # noqa: D301
    convenience = Convenience(producer, consumer, topics, groups, transactional_ids)
    if producer or consumer:
        if operation is not None:
            raise click.UsageError("Give OPERATION RESOURCE_TYPE NAME, or --producer, --consumer.")
        rights = convenience.rights()
    elif topics or groups or transactional_ids:
        raise click.UsageError("--topic, --group, --transactional-id: with --producer, --consumer.")
    else:
        rights = [_one(operation, resource_type, name)]
    entries = entries_of(principal, rights, host, is_allow=True, literal=literal)
    _create(entries, bootstrap, timeout_s, dry_run=dry_run, as_json=as_json)


@acls.command()
@click.argument("principal")
@click.argument(OPERATION)
@click.argument(RESOURCE)
@click.argument("name", required=False)
@HOST
@LITERAL
@DRY_RUN
@broker_options
@refusing
def deny(
    principal: str,
    operation: str,
    resource_type: str,
    name: str | None,
    *,
    host: str,
    literal: bool,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Deny PRINCIPAL to do OPERATION on RESOURCE_TYPE NAME. That beats whatever allows it."""
    rights: list[Right] = [(operation, resource_type, name)]
    entries = entries_of(principal, rights, host, is_allow=False, literal=literal)
    _create(entries, bootstrap, timeout_s, dry_run=dry_run, as_json=as_json)


@acls.command("list")
@click.argument(RESOURCE, required=False)
@click.argument("name", required=False)
@click.option("--principal", metavar="PRINCIPAL", help="Only those of this principal.")
@broker_options
@refusing
def list_acls(
    resource_type: str | None,
    name: str | None,
    *,
    principal: str | None,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    """List the ACLs: all, or those of RESOURCE_TYPE, or those that are for its NAME."""
    from broker.security.acl.acl_codes import PatternType
    from broker.security.acl.never_matches import never_matches
    from client.kafka import acl_requests

    wanted = AclCodes(
        pattern=PatternType.MATCH if name is not None else PatternType.ANY,
        name=name,
        principal=principal_of(principal) if principal is not None else None,
    )
    if resource_type is not None:
        wanted = wanted._replace(resource_type=resource_type_of(resource_type))
    with connect(bootstrap, timeout_s) as connection:
        found = [entry_of_codes(one) for one in acl_requests.describe(connection, wanted)]
    rows = [{**row_of(entry), "never_matches": never_matches(entry) or None} for entry in found]
    if as_json:
        show_json(rows)
        return
    columns = ["Principal", "Permission", "Operation", "Resource", "Name", "Host", "Note"]
    show_table(
        columns,
        [
            [
                row["principal"],
                row["permission"],
                row["operation"],
                row["resource_type"],
                row["name"] + "*" if row["pattern"] == "prefixed" else row["name"],
                row["host"],
                f"never has an effect: {row['never_matches']}" if row["never_matches"] else "",
            ]
            for row in rows
        ],
    )


@acls.command()
@click.argument("principal")
@click.argument(OPERATION, required=False)
@click.argument(RESOURCE, required=False)
@click.argument("name", required=False)
@click.option("--allow", "only_allow", is_flag=True, help="Only those that allow.")
@click.option("--deny", "only_deny", is_flag=True, help="Only those that deny.")
@click.option("--host", metavar="ADDRESS", help="Only those for this address.")
@LITERAL
@deletes
@broker_options
@refusing
def remove(
    principal: str,
    operation: str | None,
    resource_type: str | None,
    name: str | None,
    *,
    only_allow: bool,
    only_deny: bool,
    host: str | None,
    literal: bool,
    deletion: Deletion,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Remove the ACLs of PRINCIPAL: all, or those with this OPERATION, RESOURCE_TYPE and NAME."""
    from broker.security.acl.acl_codes import PermissionType
    from broker.security.acl.acl_words import in_words
    from client.kafka import acl_requests

    if only_allow and only_deny:
        raise click.UsageError("Give --allow or --deny, or neither for both.")
    wanted = AclCodes(principal=principal_of(principal), host=host)
    if only_allow or only_deny:
        permission = PermissionType.ALLOW if only_allow else PermissionType.DENY
        wanted = wanted._replace(permission=permission)
    if resource_type is not None:
        kind = resource_type_of(resource_type)
        wanted = wanted._replace(resource_type=kind)
        if name is not None:
            resource, pattern = name_of(kind, name, literal=literal)
            wanted = wanted._replace(name=resource, pattern=pattern)
    operations = None if operation is None else operations_of(operation)
    with connect(bootstrap, timeout_s) as connection:
        found = [
            one
            for one in acl_requests.describe(connection, wanted)
            if operations is None or one.operation in operations
        ]
        if not found:
            fail("There is no such ACL. `barnabas acls list` shows all.")
        deletion.run(
            "acl",
            [row_of(entry_of_codes(one)) for one in found],
            lambda row: in_words(_entry_of_row(row, found)),
            lambda: acl_requests.delete(connection, found),
        )


# -- creating --------------------------------------------------------------------------------------


def _one(operation: str | None, resource_type: str | None, name: str | None) -> Right:
    if operation is None or resource_type is None:
        raise click.UsageError(
            "Say what: OPERATION RESOURCE_TYPE NAME, such as `read topic orders`, or --producer or"
            " --consumer."
        )
    return operation, resource_type, name


def _create(
    entries: Sequence[AclEntry], bootstrap: str, timeout_s: float, *, dry_run: bool, as_json: bool
) -> None:
    from broker.security.acl.acl_words import in_words
    from broker.security.acl.never_matches import never_matches
    from client.kafka import acl_requests

    if not dry_run:
        with connect(bootstrap, timeout_s) as connection:
            reasons = acl_requests.create(connection, [AclCodes(*entry) for entry in entries])
        refused = [
            f"not created: {in_words(entry)}: {reason}"
            for entry, reason in zip(entries, reasons, strict=True)
            if reason
        ]
        if refused:
            fail(*refused)
    if as_json:
        show_json({"created": not dry_run, "acls": [row_of(entry) for entry in entries]})
    for entry in entries:
        if not as_json:
            click.echo(f"{'Would create: ' if dry_run else ''}{in_words(entry)}.")
        if reason := never_matches(entry):
            click.secho(f"This ACL never has an effect: {reason}.", fg="yellow", err=True)


def _entry_of_row(row: dict[str, Any], among: Sequence[AclCodes]) -> AclEntry:
    return next(entry for entry in map(entry_of_codes, among) if row_of(entry) == row)


acls.add_command(check)
