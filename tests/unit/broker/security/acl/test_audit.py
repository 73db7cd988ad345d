"""Audit lines: as many a second as are bearable, each denial counted, names cut."""

import logging

from broker.runtime.metrics import Metrics
from broker.security.acl.acl_codes import AclOperation, ResourceType
from broker.security.acl.audit import LINES_PER_SECOND_MAX, Audit
from broker.security.acl.explanation import Explanation, NearMiss
from broker.security.acl.rule import DEFAULT_DENY, Access
from tests.support.acl_entries import ALICE, HOST, acl


class Clock:
    now_ns = 0

    def monotonic_ns(self):
        return self.now_ns


def plain():
    return Explanation("Denied")


def lines_of(caplog):
    return [record.getMessage() for record in caplog.records]


def test_lines_are_limited_and_denials_are_counted(caplog):
    clock, metrics = Clock(), Metrics()
    audit = Audit(clock, metrics)
    access = Access(ALICE, HOST, AclOperation.READ, ResourceType.TRANSACTIONAL_ID, "x")
    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        for _ in range(LINES_PER_SECOND_MAX + 5):
            audit.denied(access, DEFAULT_DENY, "Produce", 1, plain)
        assert len(caplog.records) == LINES_PER_SECOND_MAX
        clock.now_ns += 10**9
        audit.denied(access, DEFAULT_DENY, "Produce", 1, plain)
    assert "TransactionalId:LITERAL:x" in lines_of(caplog)[0]
    assert lines_of(caplog)[-1].endswith("DefaultDeny (5 such lines were left out)")
    assert metrics.authorizations_denied == LINES_PER_SECOND_MAX + 6
    assert metrics.audit_lines_dropped == 5


def test_a_long_name_is_cut(caplog):
    audit = Audit(Clock(), Metrics())
    access = Access(ALICE, HOST, AclOperation.READ, ResourceType.GROUP, "g" * 30_000)
    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        audit.denied(access, DEFAULT_DENY, "JoinGroup", 1, plain)
    assert len(lines_of(caplog)[0]) < 600


def test_the_explanation_stands_behind_kafkas_words(caplog):
    audit = Audit(Clock(), Metrics())
    access = Access(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "orders")
    near = (NearMiss(acl(name="Orders"), ("the case of a name counts",)),)

    def explained():
        return Explanation("Denied", near, "", "barnabas acls allow alice read topic orders")

    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        audit.denied(access, DEFAULT_DENY, "Fetch", 1, explained)
    assert lines_of(caplog)[0].endswith(
        "based on rule DefaultDeny; nearly: User:alice may read topic Orders from any address, but"
        " the case of a name counts; to allow it: barnabas acls allow alice read topic orders"
    )


def test_nothing_is_explained_in_vain():
    audit, explained = Audit(Clock(), Metrics()), []
    access = Access(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "orders")

    def explain():
        explained.append(1)
        return plain()

    for _ in range(LINES_PER_SECOND_MAX + 5):
        audit.denied(access, DEFAULT_DENY, "Fetch", 1, explain)
    assert len(explained) == LINES_PER_SECOND_MAX
