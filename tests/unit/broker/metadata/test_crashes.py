"""The controller on real logs and a failing disk: acknowledged changes survive.

One history runs again and again; each time another call of one operation of the disk fails, the
power fails, and a new start must hold every acknowledged change (docs/design.md, goal 1).
"""

import itertools
import random
from dataclasses import replace
from functools import partial

import pytest

from broker.metadata.controller import Controller
from broker.metadata.metadata_log import METADATA_TOPIC_ID, open_metadata_log
from broker.metadata.topic_rules import Placement
from config.topic import TopicConfig
from protocol.acl_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from protocol.quota_records import ClientQuotaRecord, QuotaRecordEntity
from protocol.scram_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from storage.errors import StorageError
from storage.files.filenames import METADATA_DIRECTORY, METADATA_TOPIC, log_name
from storage.log_manager import LogManager, ManagerSettings
from tests.support.log_house import delete_log
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.metadata_node import create_topic, drop_logs, open_logs

DATA = "/data"
NOW_MS = 1_700_000_000_000
KINDS_OF_GRANTS = ("acl", "user", "quota")
PLACEMENT = Placement(1, 1, 1, clamp=False)
OPERATIONS = [
    *((op, "lost") for op in ("open", "mkdir", "rename", "replace", "unlink", "sync_directory")),
    *((op, how) for op in ("pwrite", "fdatasync") for how in ("lost", "kept", "torn", "zeros")),
]


class Started:
    """A log manager, a metadata log and a controller, put together as the broker does."""

    def __init__(self, filesystem):
        settings = ManagerSettings(
            random_bytes=random.Random(3).randbytes,
            open_files_max=50,
            producer_expiration_ms=86_400_000,
            node_id=1,
        )
        self.logs = LogManager(filesystem, DATA, settings, lambda: NOW_MS)
        self.logs.open()
        self.metadata_log = open_metadata_log(
            filesystem,
            DATA,
            self._open_metadata,
            1,
            NOW_MS,
            recovery_point=self.logs.recovery_point(METADATA_TOPIC, 0) or 0,
        )
        self.controller = Controller(
            self.metadata_log,
            placement=PLACEMENT,
            topic_defaults=TopicConfig(),
            directory_id=self.logs.directory.meta.directory_id,
            has_directory=self.logs.directory.has_partition,
            is_blocked=lambda topic: topic in self.logs.in_the_way.topics,
            random_bytes=random.Random(len(self.metadata_log.image.topics) + 5).randbytes,
        )
        self.controller.take_leadership(NOW_MS, unclean=not self.logs.directory.was_clean)
        self.metadata_log.flush()
        for topic in list(self.controller.image.topics.values()):
            opened = open_logs(self.controller, self.logs, topic)
            assert len(opened) == len(topic.partitions)

    def _open_metadata(self, config, leader_epoch):
        return self.logs.open_log(
            METADATA_TOPIC, 0, METADATA_TOPIC_ID, config, leader_epoch, create=True
        )

    def create(self, name, count):
        topic, _end_offset = create_topic(self.controller, name, NOW_MS, partition_count=count)
        self.metadata_log.flush()
        open_logs(self.controller, self.logs, topic)

    def delete(self, name):
        topic, _end_offset = self.controller.delete_topic(name, NOW_MS)
        self.metadata_log.flush()
        drop_logs(self.controller, partial(delete_log, self.logs), topic)

    def grant(self, name):
        """Record an ACL, a user or a quota, as the name says."""
        self.metadata_log.append([added(name)], NOW_MS)
        self.metadata_log.flush()

    def revoke(self, name):
        self.metadata_log.append([self._removed(name)], NOW_MS)
        self.metadata_log.flush()

    def _removed(self, name):
        kind = name.partition(" ")[0]
        if kind == "user":
            return RemoveUserScramCredentialRecord(name=name, mechanism=1)
        if kind == "quota":
            return replace(added(name), remove=True)
        return RemoveAccessControlEntryRecord(id=self.metadata_log.image.acls.id_of(added(name)))

    def granted(self):
        image = self.metadata_log.image
        return {
            *(record.resource_name for record in image.acls.records()),
            *(record.name for record in image.scram.records()),
            *(record.entity[0].entity_name for record in image.quotas.records()),
        }

    def producer_ids(self):
        block = self.controller.next_producer_id_block(NOW_MS)
        self.metadata_log.flush()
        return block.start

    def epochs(self):
        return {
            (topic.name, partition.partition): partition.leader_epoch
            for topic in self.controller.image.topics.values()
            for partition in topic.partitions
        }


class Told:
    """The changes that were acknowledged to the history, and those that have no answer yet."""

    def __init__(self):
        self.topics = {}
        self.doubtful = set()
        self.granted = set()
        self.doubtful_grants = set()
        self.id_blocks = []

    def change(self, name, count, action):
        self.doubtful.add(name)
        action()
        self.topics.pop(name, None)
        if count:
            self.topics[name] = count
        self.doubtful.discard(name)

    def change_grant(self, name, action, *, is_added):
        self.doubtful_grants.add(name)
        action(name)
        (self.granted.add if is_added else self.granted.discard)(name)
        self.doubtful_grants.discard(name)


def added(name):
    kind = name.partition(" ")[0]
    if kind == "user":
        return UserScramCredentialRecord(
            name=name, mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096
        )
    if kind == "quota":
        entity = [QuotaRecordEntity(entity_type="user", entity_name=name)]
        return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1.0)
    return AccessControlEntryRecord(
        id=name.encode().ljust(16, b"-"),
        resource_type=2,
        resource_name=name,
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )


def run_history(filesystem, told):
    first = Started(filesystem)
    told.change("a", 2, lambda: first.create("a", 2))
    told.id_blocks.append(first.producer_ids())
    told.change("b", 1, lambda: first.create("b", 1))
    for kind in KINDS_OF_GRANTS:
        told.change_grant(f"{kind} x", first.grant, is_added=True)
        told.change_grant(f"{kind} y", first.grant, is_added=True)
    first.logs.close(clean=True)
    second = Started(filesystem)
    told.change("a", 0, lambda: second.delete("a"))
    told.change("a", 3, lambda: second.create("a", 3))
    told.id_blocks.append(second.producer_ids())
    told.change("b", 0, lambda: second.delete("b"))
    for kind in KINDS_OF_GRANTS:
        told.change_grant(f"{kind} x", second.revoke, is_added=False)
        told.change_grant(f"{kind} z", second.grant, is_added=True)


def check(filesystem, told):
    started = Started(filesystem)
    topics = started.controller.image.topics
    for name, count in told.topics.items():
        if name not in told.doubtful:
            assert len(topics[name].partitions) == count
    assert set(topics) <= set(told.topics) | told.doubtful
    doubtful = told.doubtful_grants
    assert told.granted - doubtful <= started.granted() <= told.granted | doubtful
    assert started.producer_ids() > max(told.id_blocks, default=-1)
    assert len(started.controller.image.feature_levels) == 6
    for topic in topics.values():
        for partition in topic.partitions:
            log = started.logs.get(topic.name, partition.partition)
            assert (log.topic_id, log.leader_epoch) == (topic.topic_id, partition.leader_epoch)


def new_disk():
    filesystem = MemoryFileSystem()
    filesystem.mkdir("/data")
    filesystem.sync_directory("/")
    return filesystem


@pytest.mark.parametrize(("op", "unsynced"), OPERATIONS)
def test_acknowledged_changes_survive_a_failure_and_a_power_cut(op, unsynced):
    for nth in itertools.count(1):
        filesystem = new_disk()
        told = Told()
        filesystem.fail(op, nth)
        try:
            run_history(filesystem, told)
        except (OSError, StorageError):
            completed = False
        else:
            completed = True
        filesystem.heal()
        filesystem.crash(unsynced)
        check(filesystem, told)
        if completed and nth > filesystem.counts[op]:
            return
        assert nth < 500, "the history never completed"


@pytest.mark.parametrize("unsynced", ["lost", "kept", "torn", "zeros"])
def test_of_many_acls_of_one_request_all_survive_a_power_cut_or_none(unsynced):
    filesystem = new_disk()
    started = Started(filesystem)
    names = [f"acl {number}" for number in range(500)]
    started.metadata_log.append(map(added, names), NOW_MS)
    filesystem.crash(unsynced)
    started = Started(filesystem)
    assert len(started.granted()) == (500 if unsynced == "kept" else 0)
    if unsynced != "kept":
        started.metadata_log.append(map(added, names), NOW_MS)
        started.metadata_log.flush()
    started.metadata_log.append(map(started._removed, names), NOW_MS)
    filesystem.crash(unsynced)
    assert len(Started(filesystem).granted()) == (0 if unsynced == "kept" else 500)


def test_a_flipped_bit_of_what_was_flushed_refuses_to_start_after_a_crash():
    filesystem = new_disk()
    run_history(filesystem, Told())
    path = f"{DATA}/{METADATA_DIRECTORY}/{log_name(0)}"
    size = filesystem.size(path)
    filesystem.crash("lost")
    for position in range(0, size, 7):
        byte = filesystem.live_bytes(path)[position]
        filesystem.edit(path, position, bytes([byte ^ 0x04]))
        before = filesystem.live_bytes(path)
        with pytest.raises(StorageError, match="Nothing was changed"):
            Started(filesystem)
        assert filesystem.live_bytes(path) == before
        filesystem.kill()
        filesystem.edit(path, position, bytes([byte]))
    Started(filesystem)


def test_every_unclean_start_stamps_new_epochs():
    filesystem = new_disk()
    started = Started(filesystem)
    started.create("a", 2)
    seen = [started.epochs()]
    for _start in range(3):
        filesystem.crash("kept")
        seen.append(Started(filesystem).epochs())
    assert seen == [{("a", 0): epoch, ("a", 1): epoch} for epoch in range(4)]
