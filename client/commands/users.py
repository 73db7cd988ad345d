"""`barnabas users`: the users that log in by SCRAM, in a running broker or a stopped directory.

A place has the users: a running broker, Barnabas or Apache Kafka, or the directory of --data. Both
list and change them in the same way, so that a command is written once.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Callable
from typing import Any

import click

from client.commands.careful_command import CarefulGroup
from client.commands.deletion import Deletion, deletes
from client.commands.output import broker_options, connect, fail, refusing, show_json, show_table
from client.user_credentials import (
    UserChanges,
    UserRefused,
    UserRow,
    mechanism_name,
    read_password,
    salted,
)
from protocol.scram_records import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramMechanism,
)

DEFAULT_MECHANISM = ScramMechanism.SCRAM_SHA_512.sasl_name
STDIN = "-"

_NAME = click.argument("name", metavar="NAME")
_PASSWORD_FILE = click.option(
    "--password-file",
    metavar="FILE",
    help="A file whose only line is the password; - is standard input. Without it, ask for it.",
)
_ITERATIONS = click.option(
    "--iterations",
    metavar="COUNT",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="How often the password is hashed. With another than the default, a stranger can tell the"
    " name of a user from any other name.",
)
_MECHANISMS = click.option(
    "--mechanism",
    "mechanisms",
    metavar="NAME",
    type=click.Choice(list(SCRAM_MECHANISMS)),
    multiple=True,
    help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable.",
)


@click.group(cls=CarefulGroup)
def users() -> None:
    """List, add and remove users who log in by SCRAM, and change their passwords.

    With --data DIR, in the data directory of a stopped broker, else in a running one.
    """


class Place:
    """Where the users are: a running broker, or a directory."""

    def __init__(self, bootstrap: str, timeout_s: float, directory: str | None) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._directory = directory

    def rows(self) -> list[UserRow]:
        """Return all credentials, sorted."""
        if self._directory is not None:
            from client.files.recorded_users import recorded_users

            found: list[UserRow] = _in_directory(self._directory, recorded_users)
            return found
        from client.kafka.users import users as listed

        with connect(self._bootstrap, self._timeout_s) as connection:
            return listed(connection)

    def change(
        self,
        names: tuple[str, ...],
        changes: Callable[[list[UserRow]], UserChanges],
        *,
        may_be_new: bool = False,
    ) -> None:
        """Make the changes that `changes` returns for the credentials of the users `names`."""

        def of_names(known: list[UserRow]) -> UserChanges:
            return changes([one for one in known if one.user in names])

        if self._directory is not None:
            from client.files.recorded_users import change_recorded_users

            change = functools.partial(
                change_recorded_users, changes=of_names, may_be_new=may_be_new
            )
            _in_directory(self._directory, change)
            return
        from client.kafka.users import alter
        from client.kafka.users import users as listed

        with connect(self._bootstrap, self._timeout_s) as connection:
            try:
                alter(connection, of_names(listed(connection, names)))
            except UserRefused as error:
                fail(str(error))


def _in_directory(directory: str, call: Callable[[str], Any]) -> Any:
    from client.files.stopped_directory import NotRecorded
    from storage.errors import DirectoryLocked, StorageError

    try:
        return call(directory)
    except DirectoryLocked as error:
        raise click.ClickException(f"{error} Or do it without --data.") from None
    except (NotRecorded, StorageError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or directory}: {error.strerror}") from None


def _placed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --data and the options of commands that ask a broker; the command gets `place`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any, bootstrap: str, timeout_s: float, directory: str | None, **others: Any
    ) -> Any:
        return function(*args, place=Place(bootstrap, timeout_s, directory), **others)

    command = broker_options(refusing(wrapped))
    return click.option(
        "--data",
        "directory",
        metavar="DIR",
        type=click.Path(),
        help="Use the data directory of a stopped broker.",
    )(command)


@users.command("list")
@_placed
def list_(*, place: Place, as_json: bool) -> None:
    """List users with their mechanisms."""
    rows = place.rows()
    if as_json:
        show_json(
            [
                {"user": user, "mechanism": mechanism_name(code), "iterations": iterations}
                for user, code, iterations in rows
            ]
        )
    elif not rows:
        click.echo("There are no users; `barnabas users add NAME` adds one.")
    else:
        table = [[user, mechanism_name(code), iterations] for user, code, iterations in rows]
        show_table(["User", "Mechanism", "Iterations"], table)


@users.command()
@_NAME
@_MECHANISMS
@_ITERATIONS
@_PASSWORD_FILE
@_placed
def add(
    name: str,
    *,
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: str | None,
    place: Place,
    as_json: bool,
) -> None:
    """Add the user NAME, or a mechanism to a user.

    The mechanism is SCRAM-SHA-512 unless --mechanism names others. Clients must use the same.
    """
    wanted = [SCRAM_MECHANISMS[one] for one in dict.fromkeys(mechanisms or (DEFAULT_MECHANISM,))]
    password = _password(name, password_file)

    def changes(known: list[UserRow]) -> UserChanges:
        for one in known:
            if one.mechanism in wanted:
                raise UserRefused(
                    f"User {name} has {mechanism_name(one.mechanism)} already;"
                    f" `barnabas users passwd {name}` changes the password."
                )
        return UserChanges((), [salted(name, each, password, iterations) for each in wanted])

    place.change((name,), changes, may_be_new=True)
    _done("Added", name, [one.sasl_name for one in wanted], as_json=as_json)


@users.command()
@_NAME
@_ITERATIONS
@_PASSWORD_FILE
@_placed
def passwd(
    name: str, *, iterations: int, password_file: str | None, place: Place, as_json: bool
) -> None:
    """Change the password of the user NAME, for all mechanisms that the user has.

    Connections that are open stay; `barnabas users remove` ends them.
    """
    changed: list[str] = []
    password = _password(name, password_file)

    def changes(known: list[UserRow]) -> UserChanges:
        if not known:
            raise UserRefused(f"There is no user {name}; `barnabas users add {name}` adds it.")
        each = [one for one in ScramMechanism if one in {row.mechanism for row in known}]
        changed.extend(one.sasl_name for one in each)
        return UserChanges((), [salted(name, one, password, iterations) for one in each])

    place.change((name,), changes)
    _done("Changed the password of", name, changed, as_json=as_json)


@users.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@_MECHANISMS
@_placed
@deletes
def remove(
    names: tuple[str, ...], *, mechanisms: tuple[str, ...], place: Place, deletion: Deletion
) -> None:
    """Remove the users NAME..., or only the mechanisms of --mechanism; end their connections."""
    from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion

    codes = {SCRAM_MECHANISMS[one] for one in mechanisms} or set(ScramMechanism)
    rows = [row for row in place.rows() if row.user in names and row.mechanism in codes]
    missing = [name for name in names if name not in {row.user for row in rows}]
    if missing:
        fail(*(f"There is no user {name} with such a mechanism." for name in missing))

    def changes(_known: list[UserRow]) -> UserChanges:
        gone = [ScramCredentialDeletion(name=row.user, mechanism=row.mechanism) for row in rows]
        return UserChanges(gone, ())

    def delete() -> list[str]:
        place.change(names, changes)
        return []

    deletion.run(
        "credential",
        [{"user": row.user, "mechanism": mechanism_name(row.mechanism)} for row in rows],
        lambda row: f"{row['mechanism']} of user {row['user']}",
        delete,
    )


def _done(verb: str, name: str, mechanisms: list[str], *, as_json: bool) -> None:
    if as_json:
        show_json({"user": name, "mechanisms": mechanisms})
    else:
        click.echo(f"{verb} user {name} with {', '.join(mechanisms)}.")


def _password(name: str, file: str | None) -> str:
    """Read the password from a file, or ask for it. Raises click.UsageError."""
    if file is None:
        if not sys.stdin.isatty():
            raise click.UsageError("Not a terminal; pass --password-file FILE, or - for stdin.")
        asked: str = click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt="Once more"
        )
        return asked
    try:
        if file == STDIN:
            return read_password(sys.stdin.buffer.read(), "standard input")
        with open(file, "rb") as stream:
            if os.fstat(stream.fileno()).st_mode & stat.S_IROTH:
                click.echo(f"{file} can be read by every user; `chmod 600 {file}`", err=True)
            return read_password(stream.read(), file)
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
