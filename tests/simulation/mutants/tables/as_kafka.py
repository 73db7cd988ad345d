"""Answers that are not Kafka's, and requests that ask for too much."""

from tests.simulation.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "times-show-what-is-not-durable",
        "ListOffsets by time or by the largest timestamp names a record that is not durable",
        "broker/handlers/list_offsets.py",
        """\
    if timestamp in NOTHING_WAITED_FOR or log.high_watermark >= log.end_offset:
""",
        """\
    if timestamp != LATEST or log.high_watermark >= log.end_offset:
""",
        (
            (
                "broker/handlers/list_offsets.py",
                """\
    progress.services.commit.wait(partition, found.offset + 1, progress.left_ms, visible)
""",
                """\
    visible(ErrorCode.NONE)
""",
            ),
        ),
    ),
    Mutant(
        "waiters-answered-in-their-order",
        "a durable duplicate waits behind requests for later offsets",
        "broker/partitions/group_commit.py",
        """\
            if not waiters or waiters[-1].end_offset <= end_offset:
                waiters.append(waiter)
            else:  # a duplicate of an earlier batch: durable before the last waiters
                insort(waiters, waiter, key=_end_offset)
""",
        """\
            waiters.append(waiter)
""",
        only_with=frozenset({"network cut", "slow disk", "stuck disk"}),
    ),
    Mutant(
        "replaced-static-member-keeps-the-group",
        "a static member that comes back with the classic protocol, the last of the new one, does"
        " not turn the group classic",
        "broker/groups/consumer/classic_members.py",
        """\
        if replaced is None or replaced.classic is not None:
""",
        """\
        if replaced is not body:
""",
        only_with=frozenset({"returning member"}),
    ),
    Mutant(
        "text-must-be-utf-8",
        "a client id that is not UTF-8 closes the connection",
        "protocol/kafka/dialect.py",
        """\
        return frame[position:end].tobytes().decode("utf-8", JAVA), end
""",
        """\
        return frame[position:end].tobytes().decode("utf-8"), end
""",
    ),
    Mutant(
        "group-with-an-absent-static-member-is-stable",
        "a consumer group says Stable while a static member is away",
        "broker/groups/consumer/membership.py",
        """\
            if member.state != MemberState.STABLE or member.member_epoch != state.target_epoch:
""",
        """\
            if member.state != MemberState.STABLE:
""",
        only_with=frozenset({"consumer member", "mixed member"}),
    ),
    Mutant(
        "metadata-counted-in-code-points",
        "the metadata of a commit may be longer than offset.metadata.max.bytes in UTF-16",
        "broker/groups/group_log.py",
        """\
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
""",
        """\
    return len(text)
""",
    ),
    Mutant(
        "downgraded-members-support-one-protocol",
        "a group that turns classic remembers only the chosen protocol of each member",
        "broker/groups/consumer/migration.py",
        """\
    for member in roster:
        roster.set_protocols(member, spoken[member.member_id])
""",
        """\
    _ = spoken
""",
        only_with=frozenset({"remaining member"}),
    ),
    Mutant(
        "names-forge-log-lines",
        "what a client sends ends a line of the log, and begins one of its own",
        "broker/runtime/log_lines.py",
        """\
    if text.isprintable():
        return text
""",
        """\
    if text:
        return text
""",
    ),
    Mutant(
        "offsets-named-often-answered-often",
        "an OffsetFetch that names a partition many times is answered as often",
        "broker/groups/commits.py",
        """\
            if (topic.name, number) in answered:
                continue
""",
        "",
        (
            (
                "broker/handlers/offset_fetch.py",
                """\
    return list(once.values())[::-1]
""",
                """\
    return groups if once else []
""",
            ),
        ),
    ),
    Mutant(
        "configs-named-often-answered-often",
        "a DescribeConfigs that names a resource many times is answered as often",
        "broker/handlers/describe_configs.py",
        """\
        if place in answered:
            yield 0
            continue
""",
        "",
    ),
    Mutant(
        "no-connection-may-be-allowed",
        "max.connections=0 is accepted at run time, and locks every client out",
        "config/broker_keys.py",
        """\
        check=at_least(1),  # Kafka accepts 0, and then no client can connect to undo it
""",
        """\
        check=at_least(0),
""",
    ),
    Mutant(
        "tombstones-kept-for-ever-overflow",
        "delete.retention.ms of for ever leaves 64 bits: compaction fails, and calls the log"
        " damaged",
        "storage/compaction/copier.py",
        """\
        return min(self._rules.now_ms + self._rules.delete_retention_ms, TIMESTAMP_MAX)
""",
        """\
        return self._rules.now_ms + self._rules.delete_retention_ms
""",
    ),
    Mutant(
        "compaction-may-have-no-thread",
        "log.cleaner.threads=0 is accepted at run time, and compaction ends without a word",
        "config/cleaner_keys.py",
        """\
        check=at_least(1),
""",
        """\
        check=at_least(0),
""",
        (
            (
                "config/cleaner_keys.py",
                """\
        if self.log_cleaner_dedupe_buffer_size // threads <= BUFFER_PER_THREAD_MIN:
""",
                """\
        if threads and self.log_cleaner_dedupe_buffer_size // threads <= BUFFER_PER_THREAD_MIN:
""",
            ),
            (
                "broker/configs/changes.py",
                """\
    if wanted < now // 2:
""",
                """\
    if 0 < wanted < now // 2:
""",
            ),
        ),
    ),
    Mutant(
        "memory-of-compaction-unchecked",
        "a buffer for the keys of compaction of one byte is accepted at run time",
        "config/cleaner_keys.py",
        """\
        if self.log_cleaner_dedupe_buffer_size // threads <= BUFFER_PER_THREAD_MIN:
""",
        """\
        if self.log_cleaner_dedupe_buffer_size <= 0:
""",
    ),
    Mutant(
        "localhost-never-matches",
        "a limit of connections for localhost is accepted, and never applies",
        "config/broker.py",
        """\
    if text.lower() == "localhost":
        return "127.0.0.1"
""",
        """\
    if text.lower() == "localhost":
        return text
""",
    ),
    Mutant(
        "retention-of-a-commit-overflows",
        "an OffsetCommit with a retention of for ever fails",
        "broker/groups/commits.py",
        """\
        expires_ms = min(now_ms + body.retention_time_ms, INT64_MAX)
""",
        """\
        expires_ms = now_ms + body.retention_time_ms
""",
    ),
    Mutant(
        "full-width-digits-refused",
        "a number in full-width digits, which Java reads, is refused",
        "config/values.py",
        """\
    if digits and digits.isdecimal() and ord(max(digits)) <= _PLANE_MAX:
""",
        """\
    if digits and digits.isdecimal() and digits.isascii():
""",
    ),
)
