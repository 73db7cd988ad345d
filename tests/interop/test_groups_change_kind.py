"""Groups that change their kind, lose a static member for a while, commit in rare characters.

The same requests go to an Apache Kafka 4.3 and to Barnabas; what each group is called afterwards,
and what a member may then do, must be equal.
"""

from collections.abc import Iterator

import pytest

from protocol.errors import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.interop.both_brokers import both_brokers
from tests.interop.group_requests import (
    NEW,
    SETTINGS,
    State,
    commit,
    join,
    modern,
    settle,
)

pytestmark = pytest.mark.interop

FIRST, SECOND = ("A" * 21 + "Q", "B" * 21 + "Q")  # ids, as members of the new protocol make them
LIVE = {"group.consumer.migration.policy": "bidirectional"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[State]]:
    with both_brokers(tmp_path_factory, {**SETTINGS, **LIVE}) as connections:
        yield [settle(connection) for connection in connections]


def kind_and_state(state: State, group: str) -> tuple[str, str]:
    answer = state.call(ListGroupsRequest(), ListGroupsResponse, 5)
    (found,) = [one for one in answer.groups if one.group_id == group]
    return found.group_type.lower(), found.group_state


def code(answer: tuple[int, str]) -> str:
    return ErrorCode(answer[0]).name


def same(found: list[object]) -> object:
    kafkas, ours = found
    assert ours == kafkas, f"Kafka: {kafkas}; Barnabas: {ours}"
    return ours


def with_one_static_away(state: State) -> object:
    codes = [
        code(modern("away", FIRST, 0, instance_id="one", **NEW)(state)),
        code(modern("away", FIRST, -2, instance_id="one")(state)),
    ]
    return codes, kind_and_state(state, "away")


def test_a_group_with_a_static_member_away_is_called_the_same(both: list[State]) -> None:
    assert same([with_one_static_away(state) for state in both]) == (
        ["NONE", "NONE"],
        ("consumer", "Reconciling"),
    )


@pytest.mark.parametrize("leaves", [True, False], ids=["that is away", "that is there"])
def test_the_last_new_member_replaced_by_a_classic_one(both: list[State], *, leaves: bool) -> None:
    group = f"swap {leaves}"

    def swap(state: State) -> object:
        codes = [code(modern(group, FIRST, 0, instance_id="one", **NEW)(state))]
        if leaves:
            codes.append(code(modern(group, FIRST, -2, instance_id="one")(state)))
        codes.append(code(join(group, group_instance_id="one")(state)))
        return codes, kind_and_state(state, group)[0]

    codes, kind = same([swap(state) for state in both])  # type: ignore[misc]
    assert (set(codes), kind) == ({"NONE"}, "classic")


@pytest.mark.parametrize("spoken", ["range", "roundrobin", "sticky"])
def test_a_group_that_is_classic_again_speaks_all_that_its_members_do(
    both: list[State], spoken: str
) -> None:
    group = f"again {spoken}"

    def again(state: State) -> object:
        codes = [
            code(modern(group, FIRST, 0, **NEW)(state)),
            code(join(group, group_instance_id="one", protocols=["range", "roundrobin"])(state)),
            code(modern(group, FIRST, -1)(state)),
            code(join(group, protocols=[spoken])(state)),
        ]
        return codes, kind_and_state(state, group)[0]

    expected = "INCONSISTENT_GROUP_PROTOCOL" if spoken == "sticky" else "MEMBER_ID_REQUIRED"
    assert same([again(state) for state in both]) == (
        ["NONE", "NONE", "NONE", expected],
        "classic",
    )


@pytest.mark.parametrize(
    ("character", "count", "expected"),
    [
        ("\U0001f600", 2048, "NONE"),
        ("\U0001f600", 2049, "OFFSET_METADATA_TOO_LARGE"),
        ("\u20ac", 4096, "NONE"),
        ("\u20ac", 4097, "OFFSET_METADATA_TOO_LARGE"),
    ],
)
def test_metadata_is_measured_in_utf16_units(
    both: list[State], character: str, count: int, expected: str
) -> None:
    ask = commit("metadata", metadata=character * count)
    assert same([code(ask(state)) for state in both]) == expected
