"""Requests to groups that must be refused: the same to Apache Kafka 4.3 and to Barnabas.

One table. Each row is asked of both brokers, on the same groups (`group_requests.settle`). The
codes must be those of the row, and equal words must come with them wherever the API carries any.
"""

from collections.abc import Iterator

import pytest

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import TopicPartitions
from tests.interop.both_brokers import both_brokers
from tests.interop.group_requests import (
    MODERN_ID,
    NEW,
    SETTINGS,
    Ask,
    State,
    beat,
    commit,
    delete,
    describe,
    describe_consumers,
    fetch,
    find,
    forget,
    join,
    join_with_a_megabyte,
    leave,
    leave_alone,
    list_groups,
    modern,
    settle,
    sync,
)

pytestmark = pytest.mark.interop

# Each row: a description, the request, the code of the answer.
REFUSALS: list[tuple[str, Ask, str]] = [
    ("find no group", find(""), "NONE"),
    ("find no group, singly", find("", version=3), "NONE"),
    ("find another kind", find("g", 9), "INVALID_REQUEST"),
    ("join no group", join(""), "INVALID_GROUP_ID"),
    (
        "join with a session of 5,999 ms",
        join("g", session_timeout_ms=5_999),
        "INVALID_SESSION_TIMEOUT",
    ),
    (
        "join with a session of 1,800,001 ms",
        join("g", session_timeout_ms=1_800_001),
        "INVALID_SESSION_TIMEOUT",
    ),
    ("join with a session of no time", join("g", session_timeout_ms=0), "INVALID_SESSION_TIMEOUT"),
    ("join as an unknown member", join("classic", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("join a group that is not there, as a member", join("missing", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("join without an id", join("classic"), "MEMBER_ID_REQUIRED"),
    ("join without protocols", join("g", protocols=[]), "INCONSISTENT_GROUP_PROTOCOL"),
    ("join without a type", join("g", protocol_type=""), "INCONSISTENT_GROUP_PROTOCOL"),
    (
        "join with another type",
        join("classic", protocol_type="connect", version=3),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    (
        "join with another protocol",
        join("classic", protocols=["other"], version=3),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    (
        "join as a fenced static member",
        join("static", "fenced", group_instance_id="one"),
        "FENCED_INSTANCE_ID",
    ),
    (
        "join as an unknown static member",
        join("static", "nobody", group_instance_id="two"),
        "UNKNOWN_MEMBER_ID",
    ),
    (
        "join a consumer group with another type",
        join("modern", protocol_type="connect"),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    (
        "join a consumer group with garbage",
        join("modern", metadata=b"\0\1x", version=3),
        "UNKNOWN_SERVER_ERROR",
    ),
    ("join with a megabyte", join_with_a_megabyte, "UNKNOWN_SERVER_ERROR"),
    ("sync no group", sync("", "nobody"), "INVALID_GROUP_ID"),
    ("sync a group that is not there", sync("missing", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("sync as an unknown member", sync("classic", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("sync a wrong generation", sync("classic", "classic", 7), "ILLEGAL_GENERATION"),
    (
        "sync another type",
        sync("classic", "classic", protocol_type="connect"),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    (
        "sync without a protocol",
        sync("classic", "classic", protocol_name=None),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    (
        "sync another protocol",
        sync("classic", "classic", protocol_name="other"),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    (
        "sync as a fenced static member",
        sync("static", "fenced", group_instance_id="one"),
        "FENCED_INSTANCE_ID",
    ),
    (
        "sync as an unknown static member",
        sync("static", "static", group_instance_id="two"),
        "UNKNOWN_MEMBER_ID",
    ),
    ("sync an empty group", sync("empty", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("sync a consumer group", sync("modern", MODERN_ID), "UNKNOWN_MEMBER_ID"),
    ("beat for no group", beat("", "nobody"), "INVALID_GROUP_ID"),
    ("beat for a group that is not there", beat("missing", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("beat as an unknown member", beat("classic", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("beat in a wrong generation", beat("classic", "classic", 7), "ILLEGAL_GENERATION"),
    ("beat in generation -1", beat("classic", "classic", -1), "ILLEGAL_GENERATION"),
    (
        "beat as a fenced static member",
        beat("static", "fenced", group_instance_id="one"),
        "FENCED_INSTANCE_ID",
    ),
    (
        "beat as an unknown static member",
        beat("static", "static", group_instance_id="two"),
        "UNKNOWN_MEMBER_ID",
    ),
    ("beat in an empty group", beat("empty", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("beat in a consumer group", beat("modern", MODERN_ID), "UNKNOWN_MEMBER_ID"),
    ("leave no group", leave("", "nobody"), "INVALID_GROUP_ID"),
    ("leave a group that is not there", leave("missing", "nobody"), "UNKNOWN_MEMBER_ID"),
    (
        "leave a group that is not there, alone",
        leave_alone("missing", "nobody"),
        "UNKNOWN_MEMBER_ID",
    ),
    ("leave as an unknown member", leave("classic", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("leave as an unknown member, alone", leave_alone("classic", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("leave as a fenced static member", leave("static", "fenced", "one"), "FENCED_INSTANCE_ID"),
    ("leave as an unknown static member", leave("static", "", "two"), "UNKNOWN_MEMBER_ID"),
    ("leave an empty group", leave("empty", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("leave a consumer group as nobody", leave("modern", "nobody"), "UNKNOWN_MEMBER_ID"),
    ("commit to no group", commit(""), "NONE"),
    ("commit for an unknown topic", commit("empty", topic="missing"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ("commit for an unknown partition", commit("empty", partition=9), "UNKNOWN_TOPIC_OR_PARTITION"),
    ("commit for a partition below 0", commit("empty", partition=-1), "UNKNOWN_TOPIC_OR_PARTITION"),
    ("commit for an unknown id", commit("empty", topic=b"x" * 16, version=10), "UNKNOWN_TOPIC_ID"),
    ("commit for no id", commit("empty", topic=bytes(16), version=10), "UNKNOWN_TOPIC_ID"),
    ("commit 4,096 bytes of metadata", commit("empty", metadata="m" * 4096), "NONE"),
    (
        "commit 4,097 bytes of metadata",
        commit("empty", metadata="m" * 4097),
        "OFFSET_METADATA_TOO_LARGE",
    ),
    ("commit 2,049 letters of two bytes", commit("empty", metadata="é" * 2049), "NONE"),
    ("commit a negative offset", commit("empty", offset=-7), "NONE"),
    ("commit as an unknown member", commit("classic", "nobody", 1), "UNKNOWN_MEMBER_ID"),
    ("commit in a wrong generation", commit("classic", "classic", 7), "ILLEGAL_GENERATION"),
    ("commit from outside", commit("classic"), "UNKNOWN_MEMBER_ID"),
    ("commit as a member without a generation", commit("classic", "classic"), "ILLEGAL_GENERATION"),
    ("commit to a group that is not there", commit("missing", "nobody", 1), "GROUP_ID_NOT_FOUND"),
    (
        "commit to a group that is not there, in version 8",
        commit("missing", "nobody", 1, version=8),
        "ILLEGAL_GENERATION",
    ),
    ("commit as a member of an empty group", commit("empty", "nobody", 1), "UNKNOWN_MEMBER_ID"),
    (
        "commit as a fenced static member",
        commit("static", "fenced", 1, instance="one"),
        "FENCED_INSTANCE_ID",
    ),
    (
        "commit as an unknown static member",
        commit("static", "static", 1, instance="two"),
        "UNKNOWN_MEMBER_ID",
    ),
    ("commit as an unknown consumer", commit("modern", "nobody", 1), "UNKNOWN_MEMBER_ID"),
    ("commit with an old epoch", commit("modern", MODERN_ID, 0), "STALE_MEMBER_EPOCH"),
    (
        "commit with an old epoch, in version 8",
        commit("modern", MODERN_ID, 0, version=8),
        "UNSUPPORTED_VERSION",
    ),
    ("commit with an epoch to come", commit("modern", MODERN_ID, 99), "STALE_MEMBER_EPOCH"),
    ("commit from outside of consumers", commit("modern"), "UNKNOWN_MEMBER_ID"),
    ("fetch of no group", fetch(""), "NONE"),
    ("fetch of a group that is not there", fetch("missing"), "NONE"),
    ("fetch of a group that is not there, as a member", fetch("missing", "nobody", 1), "NONE"),
    ("fetch as an unknown member", fetch("classic", "nobody", 1), "NONE"),
    ("fetch as an unknown consumer", fetch("modern", "nobody", 1), "UNKNOWN_MEMBER_ID"),
    ("fetch with an old epoch", fetch("modern", MODERN_ID, 0), "STALE_MEMBER_EPOCH"),
    ("fetch with an epoch to come", fetch("modern", MODERN_ID, 99), "STALE_MEMBER_EPOCH"),
    ("fetch of an unknown topic", fetch("empty", topic="missing"), "NONE"),
    ("fetch of an unknown id", fetch("empty", topic=b"x" * 16, version=10), "UNKNOWN_TOPIC_ID"),
    ("describe no group", describe("", 6), "NONE"),
    ("describe a group that is not there", describe("missing", 6), "GROUP_ID_NOT_FOUND"),
    ("describe a group that is not there, in version 5", describe("missing", 5), "NONE"),
    ("describe a consumer group as a classic one", describe("modern", 6), "GROUP_ID_NOT_FOUND"),
    ("describe a consumer group as a classic one, in version 5", describe("modern", 5), "NONE"),
    ("describe an empty group", describe("empty", 6), "NONE"),
    ("describe no consumer group", describe_consumers(""), "INVALID_GROUP_ID"),
    (
        "describe a consumer group that is not there",
        describe_consumers("missing"),
        "GROUP_ID_NOT_FOUND",
    ),
    (
        "describe a classic group as a consumer group",
        describe_consumers("classic"),
        "GROUP_ID_NOT_FOUND",
    ),
    ("list by an unknown state", list_groups(states_filter=["Nonsense"]), "NONE"),
    ("list by an unknown type", list_groups(types_filter=["nonsense"]), "NONE"),
    ("list all", list_groups(), "NONE"),
    ("list stable ones", list_groups(states_filter=["stable", "Empty"]), "NONE"),
    ("list consumer groups", list_groups(types_filter=["Consumer"]), "NONE"),
    ("delete no group", delete(""), "NONE"),
    ("delete a group that is not there", delete("missing"), "GROUP_ID_NOT_FOUND"),
    ("delete a group with members", delete("classic"), "NON_EMPTY_GROUP"),
    ("delete a consumer group with members", delete("modern"), "NON_EMPTY_GROUP"),
    ("forget offsets of no group", forget(""), "INVALID_GROUP_ID"),
    ("forget offsets of a group that is not there", forget("missing"), "GROUP_ID_NOT_FOUND"),
    ("forget a subscribed topic", forget("classic"), "GROUP_SUBSCRIBED_TO_TOPIC"),
    ("forget a topic consumers subscribed", forget("modern"), "GROUP_SUBSCRIBED_TO_TOPIC"),
    ("forget offsets of another kind with members", forget("connect"), "NON_EMPTY_GROUP"),
    ("forget an unknown topic", forget("empty", "missing"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ("forget an unknown partition", forget("empty", partition=9), "UNKNOWN_TOPIC_OR_PARTITION"),
    ("consume in no group", modern("", MODERN_ID, 0, **NEW), "INVALID_REQUEST"),
    ("consume without an id", modern("g", "", 0, **NEW), "INVALID_REQUEST"),
    ("consume without an id, in version 0", modern("g", "", 1, 0, **NEW), "INVALID_REQUEST"),
    ("consume with an epoch of -3", modern("g", MODERN_ID, -3), "INVALID_REQUEST"),
    (
        "consume without a timeout",
        modern("g", MODERN_ID, 0, **{**NEW, "rebalance_timeout_ms": -1}),
        "INVALID_REQUEST",
    ),
    (
        "consume without topics",
        modern("g", MODERN_ID, 0, **{**NEW, "subscribed_topic_names": None}),
        "INVALID_REQUEST",
    ),
    (
        "consume without partitions",
        modern("g", MODERN_ID, 0, **{**NEW, "topic_partitions": None}),
        "INVALID_REQUEST",
    ),
    (
        "consume with partitions at once",
        modern(
            "g",
            MODERN_ID,
            0,
            **{**NEW, "topic_partitions": [TopicPartitions(topic_id=b"x" * 16, partitions=[0])]},
        ),
        "INVALID_REQUEST",
    ),
    (
        "consume with an empty instance",
        modern("g", MODERN_ID, 0, instance_id="", **NEW),
        "INVALID_REQUEST",
    ),
    ("consume with an empty rack", modern("g", MODERN_ID, 0, rack_id="", **NEW), "INVALID_REQUEST"),
    (
        "consume with an empty assignor",
        modern("g", MODERN_ID, 0, server_assignor="", **NEW),
        "UNSUPPORTED_ASSIGNOR",
    ),
    (
        "consume with another assignor",
        modern("g", MODERN_ID, 0, server_assignor="best", **NEW),
        "UNSUPPORTED_ASSIGNOR",
    ),
    (
        "consume what no expression is",
        modern("g", MODERN_ID, 0, subscribed_topic_regex="[", **NEW),
        "INVALID_REGULAR_EXPRESSION",
    ),
    (
        "consume by a lookahead",
        modern("g", MODERN_ID, 0, subscribed_topic_regex="(?=a)", **NEW),
        "INVALID_REGULAR_EXPRESSION",
    ),
    (
        "consume as a static member to leave, without an instance",
        modern("modern", MODERN_ID, -2),
        "INVALID_REQUEST",
    ),
    ("consume as an unknown member", modern("modern", "nobody", 1), "UNKNOWN_MEMBER_ID"),
    ("consume in a group that is not there", modern("missing", MODERN_ID, 1), "GROUP_ID_NOT_FOUND"),
    ("consume with an epoch to come", modern("modern", MODERN_ID, 99), "FENCED_MEMBER_EPOCH"),
    (
        "consume under a taken instance",
        modern("modern", "other", 0, instance_id="one", **NEW),
        "UNRELEASED_INSTANCE_ID",
    ),
    (
        "consume under a fenced instance",
        modern("modern", "other", 1, instance_id="one"),
        "FENCED_INSTANCE_ID",
    ),
    ("leave as an unknown consumer", modern("modern", "nobody", -1), "UNKNOWN_MEMBER_ID"),
    ("leave a classic group as a consumer", modern("classic", MODERN_ID, -1), "GROUP_ID_NOT_FOUND"),
    (
        "consume in a group of another kind",
        modern("connect", MODERN_ID, 0, **NEW),
        "GROUP_ID_NOT_FOUND",
    ),
    (
        "consume in a group of nothing but offsets",
        modern("empty", MODERN_ID, 1),
        "GROUP_ID_NOT_FOUND",
    ),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[State]]:
    """Kafka and Barnabas, each with the topic and the groups."""
    with both_brokers(tmp_path_factory, SETTINGS) as connections:
        yield [settle(connection) for connection in connections]


# The codes are Kafka's, the texts are not: those of another regular expression compiler, of codes
# in general, and of a group that is of another type.
OWN_WORDS = {
    "find another kind",
    "consume what no expression is",
    "consume by a lookahead",
}


@pytest.mark.parametrize(("name", "ask", "code"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refusals_are_kafkas(both: list[State], name: str, ask: Ask, code: str) -> None:
    (kafkas_code, kafkas_text), (our_code, our_text) = (ask(state) for state in both)
    assert kafkas_code == ErrorCode[code], (kafkas_code, kafkas_text)
    assert our_code == kafkas_code, (our_code, our_text)
    if name in OWN_WORDS:
        assert our_text
        assert our_text != kafkas_text, "the words are Kafka's now"
    else:
        assert our_text == kafkas_text
