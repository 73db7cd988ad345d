"""The ACL rule beside Kafka's own StandardAuthorizer, on 10,000 random sets of ACLs.

One Java process is given all sets and questions; each answer must be ours. Sets are drawn from a
few names, so that prefixes, literals, `*`, denials and hosts cover one another.
"""

import random
import subprocess
from collections.abc import Iterator

import pytest

from broker.runtime.metrics import Metrics
from broker.security.acl.acl_codes import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from broker.security.acl.acl_entry import AclEntry
from broker.security.acl.authorizer import Authorizer
from broker.security.acl.rule import Access, Policy
from tests.interop.java_process import compiled
from tests.interop.oracle.kafka import libs

pytestmark = pytest.mark.interop

SETS = 10_000
ACLS_MAX = 9
QUESTIONS = 6
SEED = 18
PATIENCE_S = 300
TYPES = [ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID]
OPERATIONS = [one for one in AclOperation if one > AclOperation.ALL]
PRINCIPALS = ["User:a", "User:b", "User:A", "User:*", "Group:a", "User:", "User:CN=a,O=b"]
ASKING = ["User:a", "User:b", "User:CN=a,O=b"]
HOSTS = ["*", "*", "10.0.0.1", "10.0.0.2", "10.0.0.0/8", "localhost", ""]
NAMES = ["a", "ab", "abc", "abcd", "b", "B", "a.b", "*", "a*", "hardcode", "h", "ü"]


class Clock:
    """Stands still: nothing is logged here."""

    def monotonic_ns(self) -> int:
        return 0


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    libs()
    return compiled("Acls", tmp_path_factory.mktemp("classes"))


def told(command: list[str], lines: list[str]) -> list[str]:
    done = subprocess.run(
        command,
        input="\n".join(lines).encode(),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


def entry_of(dice: random.Random) -> AclEntry:
    return AclEntry(
        dice.choice(TYPES),
        dice.choice(NAMES),
        dice.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        dice.choice(PRINCIPALS),
        dice.choice(HOSTS),
        dice.choice([AclOperation.ALL, *OPERATIONS]),
        dice.choice([PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY]),
    )


def words_of(entry: AclEntry) -> list[str]:
    kind, name, pattern, principal, host, operation, permission = entry
    return [kind.name, name, pattern.name, principal, host, operation.name, permission.name]


def questions(dice: random.Random) -> Iterator[Access]:
    for _ in range(QUESTIONS):
        yield Access(
            dice.choice(ASKING),
            dice.choice(["10.0.0.1", "10.0.0.2"]),
            dice.choice(OPERATIONS),
            dice.choice(TYPES),
            dice.choice([name for name in NAMES if name != "*"]),
        )


def test_random_sets_are_decided_alike(command: list[str]) -> None:
    dice = random.Random(SEED)
    lines, ours, asked = [], [], []
    for number in range(SETS):
        supers = dice.choice([frozenset(), frozenset(), frozenset({"User:b"})])
        policy = Policy(supers, dice.random() < 0.3)
        authorizer = Authorizer(policy, Clock(), Metrics())  # type: ignore[arg-type]
        lines.append(f"new\t{';'.join(supers)}\t{str(policy.allows_without_acl).lower()}")
        for entry in {entry_of(dice): None for _ in range(dice.randrange(ACLS_MAX))}:
            authorizer.add(entry)
            lines.append("\t".join(["acl", *words_of(entry)]))
        for access in questions(dice):
            principal, host, operation, kind, name = access
            lines.append(f"ask\t{principal}\t{host}\t{operation.name}\t{kind.name}\t{name}")
            ours.append(authorizer.allows(*access))
            asked.append(f"set {number}: {lines[-1]}")
            lines.append(f"any\t{principal}\t{host}\t{operation.name}\t{kind.name}")
            ours.append(authorizer.allows_any(principal, host, operation, kind))
            asked.append(f"set {number}: {lines[-1]}")
    kafkas = [answer == "ALLOWED" for answer in told(command, lines)]
    assert len(kafkas) == len(ours) == SETS * QUESTIONS * 2
    different = [one for one, a, b in zip(asked, ours, kafkas, strict=True) if a != b]
    assert different == []
    assert 0.1 < sum(ours) / len(ours) < 0.9  # the sets are neither all open nor all closed


def test_an_acl_has_kafkas_text(command: list[str]) -> None:
    dice = random.Random(SEED)
    some = [entry_of(dice) for _ in range(50)]
    texts = told(command, ["\t".join(["text", *words_of(entry)]) for entry in some])
    assert texts == [str(entry) for entry in some]


def test_java_writes_addresses_of_ipv6_in_full(command: list[str]) -> None:
    """An ACL for Java's form of an address is for the client here, too; Kafka knows no other."""
    acl = ["acl", "TOPIC", "t", "LITERAL", "User:a", "0:0:0:0:0:0:0:1", "READ", "ALLOW"]
    short = [*acl[:5], "::1", *acl[6:]]
    ask = "ask\tUser:a\t::1\tREAD\tTOPIC\tt"
    lines = ["new\t\tfalse", "\t".join(acl), ask, "new\t\tfalse", "\t".join(short), ask]
    assert told(command, lines) == ["ALLOWED", "DENIED"]
    for host in ("0:0:0:0:0:0:0:1", "::1"):
        authorizer = Authorizer(Policy(), Clock(), Metrics())  # type: ignore[arg-type]
        read, allow = AclOperation.READ, PermissionType.ALLOW
        literal = PatternType.LITERAL
        authorizer.add(AclEntry(ResourceType.TOPIC, "t", literal, "User:a", host, read, allow))
        assert authorizer.allows("User:a", "::1", read, ResourceType.TOPIC, "t")
