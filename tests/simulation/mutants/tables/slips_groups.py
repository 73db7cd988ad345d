"""Slips in groups: sessions, generations, assignments, committed offsets."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "heartbeat-does-not-renew-the-session",
        "members of a classic group expire although they send heartbeats",
        "broker/groups/classic/classic_group.py",
        """\
        self.rebalance.renew_session(member)
        if state is ClassicGroupState.PREPARING_REBALANCE:
""",
        """\
        if state is ClassicGroupState.PREPARING_REBALANCE:
""",
    ),
    Mutant(
        "alarm-rings-once",
        "the alarm of a group is not set again after it rang: silent members never expire",
        "broker/groups/alarm.py",
        """\
            raise
        self.at_latest(due_ns)
""",
        """\
            raise
        _ = due_ns
""",
    ),
    Mutant(
        "commit-of-an-old-generation-accepted",
        "a member of an earlier generation commits offsets",
        "broker/groups/classic/classic_group.py",
        """\
        if generation != self.generation.generation_id:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)
""",
        "",
    ),
    Mutant(
        "commit-of-an-old-epoch-accepted",
        "a member of a consumer group commits offsets in an earlier epoch",
        "broker/groups/consumer/commit_checks.py",
        """\
    if generation >= member.member_epoch or not _had(topics, member, places, generation):
        check_epoch(member, generation)
""",
        """\
    return
""",
        only_with=frozenset({"rude members"}),
    ),
    Mutant(
        "sync-of-an-old-generation-accepted",
        "a SyncGroup of an earlier generation is answered",
        "broker/groups/classic/syncing.py",
        """\
    if body.generation_id != generation.generation_id:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
""",
        "",
        only_with=frozenset({"lagging member"}),
    ),
    Mutant(
        "fenced-static-member-served",
        "a static member goes on after another client has taken its place",
        "broker/groups/classic/roster.py",
        """\
            if known != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
""",
        """\
            member_id = known
        member = self.members.get(member_id)
""",
        only_with=frozenset({"replaced member"}),
    ),
    Mutant(
        "assignment-answered-before-it-is-durable",
        "members get their assignment before the log has it",
        "broker/groups/classic/syncing.py",
        """\
        rebalance.host.write(generation.group_id, [generation.record(assignments)], done)
""",
        """\
        rebalance.host.write(generation.group_id, [generation.record(assignments)])
        done(ErrorCode.NONE)
""",
    ),
    Mutant(
        "generation-not-written",
        "the assignment of a generation is answered and not written",
        "broker/groups/classic/syncing.py",
        """\
        rebalance.host.write(generation.group_id, [generation.record(assignments)], done)
""",
        """\
        done(ErrorCode.NONE)
""",
        only_with=frozenset({"classic member", "mixed member"}),
    ),
    Mutant(
        "rebalance-keeps-absent-members",
        "members that did not rejoin in time stay in the next generation",
        "broker/groups/classic/rebalance.py",
        """\
        for member in absent:
            self.remove_member(member.member_id)
""",
        """\
        _ = absent
""",
        only_with=frozenset({"classic member", "mixed member"}),
    ),
    Mutant(
        "partition-given-before-it-is-revoked",
        "a partition goes to its next owner while the present one still has it",
        "broker/groups/consumer/reconciliation.py",
        """\
            if partition in own or target.is_free(topic_id, partition):
""",
        """\
            if partition in own or target.epoch:
""",
    ),
    Mutant(
        "revoking-believed-before-it-is-reported",
        "a member that says nothing about its partitions is taken to have revoked them",
        "broker/groups/consumer/reconciliation.py",
        """\
    if reported is None:
        return True
""",
        """\
    if reported is None:
        return False
""",
        only_with=frozenset({"consumer member", "mixed member"}),
    ),
    Mutant(
        "owners-forget-to-leave",
        "the partitions of a member that left are never free",
        "broker/groups/consumer/state.py",
        """\
                self._own(before, before.assigned, owner=None)
                self._own(before, before.pending_revocation, owner=None)
""",
        "",
        (
            (
                "broker/groups/consumer/state.py",
                """\
        for member, owner in ((before, None), (after, member_id)):
            self._own(member, member.assigned, owner=owner)
""",
                """\
        for member, owner in ((before, None), (after, member_id)):
            if value is None:
                break
            self._own(member, member.assigned, owner=owner)
""",
            ),
        ),
    ),
    Mutant(
        "range-assigns-what-does-not-exist",
        "the range assignor gives one member too many a partition more",
        "broker/groups/consumer/assignors.py",
        """\
            end = start + each + (place < left)
""",
        """\
            end = start + each + (place <= left)
""",
        only_with=frozenset({"classic member", "mixed member"}),
    ),
    Mutant(
        "uniform-assigns-twice",
        "the uniform assignor places partitions that members keep once more",
        "broker/groups/consumer/assignors.py",
        """\
        if partition not in self._taken:
            self._taken.add(partition)
""",
        """\
        if partition:
            self._taken.add(partition)
""",
        (
            (
                "broker/groups/consumer/assignors.py",
                """\
            if (topic_id, partition) not in self._taken:
""",
                """\
            if partition_count:
""",
            ),
        ),
    ),
    Mutant(
        "old-member-epoch-accepted",
        "a heartbeat of an earlier epoch is accepted, whatever partitions it reports",
        "broker/groups/consumer/member_heartbeat.py",
        """\
        and epoch == member.previous_member_epoch
        and reported is not None
        and all(
            numbers <= member.assigned.get(topic_id, {}).keys()
            for topic_id, numbers in reported.items()
        )
""",
        "",
    ),
    Mutant(
        "session-of-the-new-protocol-not-renewed",
        "a heartbeat that says nothing new does not renew its member's session",
        "broker/groups/consumer/consumer_group.py",
        """\
            membership.renew_session(member.member_id)
            answer(
""",
        """\
            answer(
""",
    ),
    Mutant(
        "time-to-revoke-begins-anew",
        "each heartbeat gives a member its whole time to revoke again: one that never revokes"
        " keeps its partitions",
        "broker/groups/consumer/deadlines.py",
        """\
        if known is None or (known.epoch, known.to_revoke) != (epoch, to_revoke):
""",
        """\
        if known is None or True:
""",
        only_with=frozenset({"slow revoker"}),
    ),
    Mutant(
        "all-revocations-of-an-epoch-in-one-time",
        "a member that must revoke more partitions has only what is left of its time for the first",
        "broker/groups/consumer/deadlines.py",
        """\
        if known is None or (known.epoch, known.to_revoke) != (epoch, to_revoke):
""",
        """\
        if known is None or known.epoch != epoch:
""",
        only_with=frozenset({"busy revoker"}),
    ),
    Mutant(
        "second-assignment-of-a-generation-written",
        "a leader that syncs twice leaves another assignment in the log than its members got",
        "broker/groups/classic/syncing.py",
        """\
    if leads and rebalance.assigned_generation_id != generation.generation_id:
""",
        """\
    if leads:
""",
        only_with=frozenset({"hasty leader"}),
    ),
    Mutant(
        "offsets-of-members-expire",
        "the offsets of topics that members read expire",
        "broker/groups/offsets.py",
        """\
            if not read[topic]
""",
        """\
            if topic
""",
        only_with=frozenset({"patient member"}),
    ),
    Mutant(
        "undurable-offsets-are-fetched",
        "an OffsetFetch answers with commits that are not durable",
        "broker/groups/commits.py",
        """\
        groups.when_durable(group_id, told)
""",
        """\
        told(ErrorCode.NONE)
""",
    ),
    Mutant(
        "commit-applied-in-memory-only",
        "the second offset of a commit is acknowledged and not written",
        "broker/groups/commits.py",
        """\
    batch = groups.log.batch_of(records) if records else bytearray()
    return PreparedOffsets(topics, records, batch)
""",
        """\
    batch = groups.log.batch_of(records[:1]) if records else bytearray()
    return PreparedOffsets(topics, records, batch)
""",
    ),
    Mutant(
        "deleted-offsets-come-back",
        "OffsetDelete removes offsets from memory and not from the log",
        "broker/groups/coordinator.py",
        """\
                    first_offset = self.write(group_id, piece)
""",
        """\
                    first_offset = 0
""",
    ),
    Mutant(
        "last-record-of-a-log-not-loaded",
        "loading the groups of a partition ends before the last batch of its log",
        "broker/groups/loading.py",
        """\
    while offset < log.end_offset:
""",
        """\
    while offset < log.end_offset - 1:
""",
    ),
    Mutant(
        "aborted-offsets-count",
        "offsets of a transaction that was aborted count after a restart",
        "broker/groups/replay.py",
        """\
                end_transaction(self._registry, batch.producer_id, is_commit=batch.is_commit)
""",
        """\
                end_transaction(self._registry, batch.producer_id, is_commit=True)
""",
    ),
)
