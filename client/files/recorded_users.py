"""The users in a data directory, read and changed while the broker is stopped.

A broker whose listeners all ask for logins has its first user before its first start. The rules are
the broker's own (`broker.metadata.scram_plans`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.metadata.image import ClusterImage
from broker.metadata.scram_plans import plan_users
from client.files.stopped_directory import NotRecorded, change_records
from client.user_credentials import UserChanges, UserRefused, UserRow


def recorded_users(directory: str) -> list[UserRow]:
    """Return the credentials in a directory. Raises as `change_recorded_users` does."""

    def plan(image: ClusterImage) -> tuple[list[Any], list[UserRow]]:
        return [], _listed(image)

    return change_records(directory, plan)


def change_recorded_users(
    directory: str, changes: Callable[[list[UserRow]], UserChanges], *, may_be_new: bool = False
) -> None:
    """Make the changes that `changes(users)` returns, all or none.

    Raises NotRecorded with a refusal, StorageError (a broker uses the directory, or it is damaged),
    OSError; `may_be_new` as for `change_records`.
    """

    def plan(image: ClusterImage) -> tuple[list[Any], None]:
        try:
            removals, credentials = changes(_listed(image))
        except UserRefused as refused:
            raise NotRecorded(str(refused)) from None
        records: list[Any] = []
        codes = {one.mechanism for one in removals} | {one.mechanism for one in credentials}
        for code in sorted(codes):
            made = plan_users(
                image.scram,
                [one for one in removals if one.mechanism == code],
                [one for one in credentials if one.mechanism == code],
            )
            for user, error in made.outcomes.items():
                if error is not None:
                    raise NotRecorded(f"user {user!r} was not changed: {error.message}.")
            records += made.records
        return records, None

    change_records(directory, plan, may_be_new=may_be_new)


def _listed(image: ClusterImage) -> list[UserRow]:
    return sorted(
        UserRow(user, code, credential.iterations)
        for user in image.scram.names()
        for code, credential in image.scram.of(user).items()
    )
