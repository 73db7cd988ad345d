"""ACLs of a broker: in force at once, durable before the answer, and there after a restart."""

import asyncio
import logging

import pytest

from broker import acls as module
from broker.acls import entry_of
from broker.metadata.topic_rules import TopicError
from broker.runtime.steps import finished
from broker.security.acl.acl_codes import AclOperation, PatternType, ResourceType
from broker.security.acl.acl_filter import AclFilter
from protocol.acl_records import AccessControlEntryRecord
from protocol.record_batch import read_header
from tests.support.acl_entries import ALICE, HOST, acl
from tests.support.authorizing import AUTHORIZED
from tests.support.broker_rig import Rig

BY = "User:admin"


@pytest.fixture
async def rig(tmp_path):
    made = Rig(tmp_path / "data", **AUTHORIZED)
    yield made
    await made.close()


def may_read(rig, name="orders"):
    kind, read = ResourceType.TOPIC, AclOperation.READ
    return rig.services.authorizer.allows(ALICE, HOST, read, kind, name)


def found(rig, **wanted):
    return finished(rig.services.acls.find(AclFilter(**wanted)))


async def test_a_change_holds_before_it_is_durable(rig):
    creating = asyncio.create_task(rig.services.acls.create([acl()], BY))
    await asyncio.sleep(0)
    assert may_read(rig)
    await creating
    assert rig.services.controller.metadata_log.is_durable
    deleting = asyncio.create_task(rig.services.acls.delete([acl()], BY))
    await asyncio.sleep(0)
    assert not may_read(rig)
    await deleting
    assert rig.services.controller.metadata_log.is_durable
    assert found(rig) == []


async def test_an_acl_that_exists_is_written_once(rig):
    before = rig.services.controller.metadata_log.end_offset
    await rig.services.acls.create([acl()], BY)
    await rig.services.acls.create([acl()], BY)
    await asyncio.gather(*(rig.services.acls.create([acl(name="t")], BY) for _ in range(3)))
    assert rig.services.controller.metadata_log.end_offset == before + 2


async def test_an_acl_that_is_gone_is_deleted_without_a_record(rig):
    await rig.services.acls.create([acl()], BY)
    before = rig.services.controller.metadata_log.end_offset
    await asyncio.gather(*(rig.services.acls.delete([acl()], BY) for _ in range(3)))
    assert rig.services.controller.metadata_log.end_offset == before + 1


async def test_it_is_there_after_a_restart(tmp_path):
    first = Rig(tmp_path / "data", **AUTHORIZED)
    await first.services.acls.create([acl(), acl(name="gone")], BY)
    await first.services.acls.delete([acl(name="gone")], BY)
    await first.close()
    second = Rig(tmp_path / "data", **AUTHORIZED)
    assert found(second) == [acl()]
    assert may_read(second)
    await second.close()


async def test_without_an_authorizer_acls_are_kept_unused(tmp_path):
    first = Rig(tmp_path / "data", **AUTHORIZED)
    await first.services.acls.create([acl()], BY)
    await first.close()
    second = Rig(tmp_path / "data")
    assert second.services.acls is None
    assert second.services.authorizer is None
    assert len(second.services.controller.image.acls) == 1
    await second.close()


async def test_many_take_effect_in_several_turns_and_denials_first(rig, monkeypatch):
    monkeypatch.setattr(module, "CHANGED_PER_TURN", 10)
    many = [acl(name=f"t{number}", deny=number > 40) for number in range(95)]
    order = []
    for verb in ("add", "remove"):
        monkeypatch.setattr(rig.services.authorizer, verb, order.append)
    turns = 0

    async def count():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    await rig.services.acls.create(many, BY)
    assert turns > 9
    counting.cancel()
    assert [one.is_allow for one in order] == [False] * 54 + [True] * 41
    order.clear()
    await rig.services.acls.delete(many, BY)
    assert [one.is_allow for one in order] == [True] * 41 + [False] * 54


async def test_many_of_one_request_are_one_batch(rig):
    many = [acl(name=f"t{number}") for number in range(500)]
    log = rig.services.controller.metadata_log.log
    for change in (rig.services.acls.create, rig.services.acls.delete):
        position, before = log.segments.active.size, log.end_offset
        await change(many, BY)
        written = log.segments.active.log_file.read(position, log.segments.active.size - position)
        assert read_header(written).size == len(written)
        assert log.end_offset - before == 500


async def test_changes_that_cross_are_each_made_once(rig, monkeypatch):
    monkeypatch.setattr(module, "CHANGED_PER_TURN", 10)
    many = [acl(name=f"t{number}") for number in range(60)]
    acls = rig.services.acls
    before = rig.services.controller.metadata_log.end_offset
    await asyncio.gather(acls.create(many[:50], BY), acls.create(many[10:], BY))
    assert set(found(rig)) == set(many)
    assert rig.services.controller.metadata_log.end_offset == before + 60
    await asyncio.gather(acls.delete(many, BY), acls.delete(many[30:], BY), acls.create(many, BY))
    assert len(found(rig)) == 60
    assert len(rig.services.controller.image.acls) == 60
    assert may_read(rig, "t3")


async def begin_with(rig, count):
    """Begin to create many ACLs, and return the task when their records are written."""
    many = [acl(name=f"t{number}") for number in range(count)]
    creating = asyncio.create_task(rig.services.acls.create(many, BY))
    while many[0] not in rig.services.acls:
        await asyncio.sleep(0)
    return creating


async def test_a_client_that_leaves_does_not_stop_what_it_began(rig, monkeypatch):
    monkeypatch.setattr(module, "CHANGED_PER_TURN", 10)
    creating = await begin_with(rig, 100)
    creating.cancel()
    steps = rig.services.acls.find(AclFilter())
    for _ in steps:
        await asyncio.sleep(0)
    assert may_read(rig, "t99")


async def test_what_is_recorded_is_found(rig, monkeypatch):
    monkeypatch.setattr(module, "CHANGED_PER_TURN", 10)
    creating = await begin_with(rig, 100)
    steps = rig.services.acls.find(AclFilter())
    assert next(steps) == 0
    await creating
    assert len(finished(steps)) == 100


async def test_too_large_ones_are_refused(rig):
    log = rig.services.controller.metadata_log
    before = log.end_offset
    large = [acl(name=f"{number}".ljust(30_000, "x")) for number in range(300)]
    with pytest.raises(TopicError, match="send several requests"):
        await rig.services.acls.create(large, BY)
    assert found(rig) == []
    assert log.end_offset == before


async def test_too_many_are_refused(rig):
    many = [acl(name=f"t{number}") for number in range(10_001)]
    with pytest.raises(TopicError):
        await rig.services.acls.create(many, BY)
    assert found(rig) == []


async def test_finding_takes_steps_and_sees_one_state(rig, monkeypatch):
    monkeypatch.setattr(module, "COMPARED_PER_TURN", 10)
    await rig.services.acls.create([acl(name=f"t{number}") for number in range(35)], BY)
    steps = rig.services.acls.find(AclFilter())
    next(steps)
    await rig.services.acls.create([acl(name="late")], BY)
    assert len(finished(steps)) == 35


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"resource_type": ResourceType.TOPIC},
        {"resource_type": ResourceType.GROUP},
        {"name": "orders"},
        {"resource_type": ResourceType.TOPIC, "name": "orders"},
        {"resource_type": ResourceType.TOPIC, "name": "orders", "pattern": PatternType.MATCH},
        {"resource_type": ResourceType.TOPIC, "name": "orders", "pattern": PatternType.LITERAL},
        {"name": "orders", "pattern": PatternType.MATCH},
        {"resource_type": ResourceType.TOPIC, "name": "ord", "pattern": PatternType.PREFIXED},
    ],
)
async def test_what_is_found_is_what_a_walk_over_all_finds(rig, wanted):
    entries = [
        acl(), acl("group", "orders"), acl(name="*"), acl(name="ord", prefixed=True), acl(name="x"),
        acl(name="orders", prefixed=True), acl("group", "*"),
    ]  # fmt: skip
    await rig.services.acls.create(entries, BY)
    expected = {entry for entry in entries if AclFilter(**wanted).matches(entry)}
    assert set(found(rig, **wanted)) == expected


async def test_one_that_never_matches_is_warned_of(rig, caplog):
    with caplog.at_level(logging.INFO, "barnabas.authorizer"):
        await rig.services.acls.create([acl(host="10.0.0.0/8"), acl()], BY)
    (warning,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "is a network" in warning.getMessage()
    assert any(f"{BY} created" in one.getMessage() for one in caplog.records)


async def test_acls_of_a_newer_kafka_do_not_disturb(rig):
    image = rig.services.controller.image.acls
    for number in (1, 2):
        image.apply(
            AccessControlEntryRecord(
                id=bytes([number]) * 16,
                resource_type=2,
                resource_name="orders",
                pattern_type=3,
                principal=ALICE,
                host="*",
                operation=90 + number,
                permission_type=3,
            )
        )
    (entry,) = found(rig)
    assert entry.operation is AclOperation.UNKNOWN
    assert not may_read(rig)
    await rig.services.acls.delete([entry], BY)
    assert found(rig) == []
    assert len(image) == 0


def test_a_record_becomes_an_acl():
    record = AccessControlEntryRecord(
        id=bytes(16),
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal=ALICE,
        host="*",
        operation=3,
        permission_type=3,
    )
    assert entry_of(record) == acl()
