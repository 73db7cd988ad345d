"""Which comparisons with other programs take their turn in a run of `.ci/run`.

All of them take longer than a run may. With TURNS=1 those run whose subject changed in the last
CHANGES commits (all, where git knows of no such commit, as in a shallow clone), and a third of the
rest, chosen by the hash of the commit that is tested; the end of the run names the others.
`make interop` runs all.

The subject of a module is a list of patterns in SUBJECTS (of `fnmatch`: a star matches slashes
too). What nearly all of them rest on (PROTOCOL, LOG) is in each entry that needs it, and a change
to a module itself, or to the helpers beside it, counts as well.

`python -m tests.interop.turns NAME` exits with 0 if NAME takes its turn, with 1 if not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHANGES = 5
HELPERS = ("tests/interop/oracle/*", "tests/interop/*clients.py")

PROTOCOL = (
    "protocol/kafka/*",
    "protocol/messages/*",
    "protocol/records.py",
    "broker/network/connection.py",
)
LOG = (
    "storage/log*.py",
    "storage/data_directory.py",
    "storage/segments/*",
    "storage/opening/*",
    "protocol/record_batch.py",
)
GROUPS = ("broker/groups/*", "broker/handlers/*group.py", "broker/handlers/offset_*.py")
METADATA = ("broker/metadata/*", "protocol/metadata_records.py")
ADMIN = ("broker/handlers/*config*.py", "broker/handlers/*topics.py", "broker/configs/*")
MSGPACK = ("protocol/msgpack/*", "docs/msgpack.md")
TRANSACTIONS = (
    "broker/transactions/*",
    "broker/groups/*",
    "broker/handlers/*tx*.py",
    "broker/handlers/*transactions.py",
    "broker/handlers/produce.py",
    "protocol/control_records.py",
    "protocol/transaction_records.py",
)
CLIENT = ("client/*",)

SUBJECTS: dict[str, tuple[str, ...]] = {
    "test_auto_created": ("broker/handlers/metadata.py", "broker/handlers/produce.py", *METADATA),
    "test_fetch_sessions": ("broker/fetch_sessions/*", "broker/handlers/fetch.py", *PROTOCOL),
    "test_refused_logins": (
        "broker/network/logins/*",
        "broker/security/sasl/*",
        "broker/security/oauth/*",
        "protocol/scram.py",
    ),
    "test_scram_peers": ("protocol/scram.py", "client/logins.py", "broker/security/sasl/*"),
    "test_backup": (
        "client/files/*",
        "client/commands/backup.py",
        "tests/support/backup_load.py",
        *LOG,
    ),
    "test_bench_peers": ("benchmarks/*",),
    "test_client_telemetry": (
        "broker/telemetry/*",
        "broker/handlers/*telemetry*.py",
        "broker/exposition/client*.py",
        "config/telemetry_keys.py",
    ),
    "test_clients": (*PROTOCOL, "protocol/compression.py", "broker/handlers/produce.py"),
    "test_compaction": ("storage/compaction/*", "broker/maintenance/*"),
    "test_compaction_of_transactions": ("storage/compaction/*", *TRANSACTIONS),
    "test_configs": (*ADMIN, "config/*"),
    "test_connect": (*TRANSACTIONS, "tests/interop/programs/java/Counting.java"),
    "test_directory_of_all_kinds": (*LOG, *METADATA, "storage/producers/*"),
    "test_dump": ("client/files/*", "client/commands/dump.py", *LOG),
    "test_dump_agrees": ("client/files/*", "client/commands/dump.py"),
    "test_epochs_used_up": TRANSACTIONS,
    "test_group_refusals": GROUPS,
    "test_groups": (*GROUPS, *PROTOCOL),
    "test_groups_agree": GROUPS,
    "test_groups_change_kind": GROUPS,
    "test_groups_command": (*CLIENT, "broker/handlers/*group*.py"),
    "test_groups_move": (*GROUPS, "protocol/group_records.py"),
    "test_image": ("*",),  # each time: it runs the unit tests on the newest Python
    "test_kafka_python_suite": (*PROTOCOL, "broker/handlers/*"),
    "test_kafka_tools": (*ADMIN, *GROUPS, "broker/handlers/*"),
    "test_metadata_snapshots": METADATA,
    "test_quotas": ("broker/quotas/*", "broker/handlers/*quotas.py", *METADATA),
    "test_msgpack_page": MSGPACK,
    "test_named_again": (*PROTOCOL, "broker/handlers/fetch.py"),
    "test_boards": ("broker/exposition/*", "docs/grafana/*"),
    "test_top_on_kafka": ("client/top/*", "client/commands/top.py"),
    "test_neighbours": (*TRANSACTIONS, *PROTOCOL, "tests/interop/programs/java/*"),
    "test_python_neighbours": (
        *GROUPS,
        *TRANSACTIONS,
        "requirements-neighbours.lock",
        "tests/interop/programs/python/*",
    ),
    "test_schema_registry": (*GROUPS, *PROTOCOL),
    "test_page_holds": ("broker/console/*", "broker/http/*"),
    "test_page": ("broker/console/*", "broker/http/*", "requirements-browser.lock"),
    "test_old_segments": ("protocol/legacy*.py", "storage/segments/*"),
    "test_other_languages": (*PROTOCOL, "tests/interop/programs/*"),
    "test_our_member": ("client/msgpack/membership.py", "client/msgpack/group*.py", *GROUPS),
    "test_our_transactions": (
        "client/kafka/*",
        "client/transactions/*",
        "client/commands/*",
        *TRANSACTIONS,
    ),
    "test_read_only": ("broker/read_only/*", "storage/files/overlay.py", *LOG, *METADATA),
    "test_record_fields": (*MSGPACK, "protocol/records.py"),
    "test_refusals": (*ADMIN, *METADATA),
    "test_retention_of_the_kit": (
        "broker/testing/*",
        "broker/maintenance/housekeeping.py",
        "storage/retention.py",
        "storage/trimming.py",
    ),
    "test_rights": ("broker/rights/*", "broker/security/acl/*", "broker/handlers/*"),
    "test_streams": (*TRANSACTIONS, *LOG, "broker/handlers/delete_records.py"),
    "test_tls_clients": ("broker/security/*", "broker/network/*", *ADMIN),
    "test_testing_page": ("docs/testing.md", "broker/testing/*", "client/cli.py"),
    "test_topic_formats": ("broker/handlers/produce.py", "*/recompression.py"),
    "test_transactions_expire": TRANSACTIONS,
    "test_transactional_copier": (*TRANSACTIONS, *LOG),
    "test_transactions_answers": (*TRANSACTIONS, *LOG, *PROTOCOL),
    "test_transactions_clients": (*TRANSACTIONS, "tests/interop/programs/*"),
    "test_transactions_command": TRANSACTIONS,
    "test_transactions_move": (*TRANSACTIONS, *LOG),
    "test_transactions_prepared": (*TRANSACTIONS, *LOG),
    "test_acl_rule": ("broker/security/acl/*",),
    "test_acls": (
        "broker/security/acl/*",
        "broker/acls.py",
        "broker/handlers/*acls.py",
        "protocol/acl_records.py",
        *CLIENT,
        *METADATA,
    ),
    "test_secure_clients": (
        "broker/security/*",
        "broker/network/*",
        "client/addresses.py",
        "client/logins.py",
        "tests/interop/programs/*",
    ),
    "test_security_moves": ("broker/security/*", "broker/quotas/*", *METADATA),
    "test_users": (
        "broker/security/users/*",
        "broker/handlers/*scram*.py",
        "protocol/scram_records.py",
        *CLIENT,
        *METADATA,
    ),
    "interop-pipelines": ("pipelines/*",),
}


def of_git(*arguments: str) -> str:
    """What git says; "" where it cannot."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def is_changed(name: str, changed: Sequence[str]) -> bool:
    """Whether a changed file belongs to the subject of `name`."""
    patterns = (*SUBJECTS[name], *HELPERS, f"tests/interop/{name}.py")
    return any(fnmatch(path, pattern) for path in changed for pattern in patterns)


def due(commit: str, changed: Sequence[str] | None) -> set[str]:
    """The names whose turn it is at `commit`; all, where what `changed` is not known."""
    if changed is None or not commit:
        return set(SUBJECTS)
    found = {name for name in SUBJECTS if is_changed(name, changed)}
    rest = sorted(set(SUBJECTS) - found)
    return found | set(rest[int(commit[:8], 16) % 3 :: 3])


@cache
def due_now() -> frozenset[str]:
    """The names whose turn it is at the commit that is checked out."""
    commit = of_git("rev-parse", "HEAD").strip()
    before = of_git("rev-parse", "--verify", f"HEAD~{CHANGES}").strip()
    changed = of_git("diff", "--name-only", before).splitlines() if before else None
    return frozenset(due(commit, changed))


def is_turn_taking() -> bool:
    """Whether this run leaves any out."""
    return os.environ.get("TURNS") == "1"


def waiting() -> list[str]:
    """The modules of comparisons that this run leaves out."""
    if not is_turn_taking():
        return []
    return sorted(name for name in set(SUBJECTS) - due_now() if name.startswith("test_"))


if __name__ == "__main__":
    sys.exit(0 if not is_turn_taking() or sys.argv[1] in due_now() else 1)
