"""Two `barnabas consume --group` share 16 partitions; members and the broker are killed under them.

While no member joins or leaves, each record reaches exactly one member. No record is ever left out;
a record is repeated only if a killed member had printed it without committing. The killed broker
loses no committed offset.
"""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.two_dialects import WAIT_S, TwoDialects, command, run
from tests.support.under_test import against_kafka

pytestmark = pytest.mark.skipif(against_kafka(), reason="Apache Kafka has no msgpack dialect")

PARTITIONS = 16
COUNT = 400
SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "200",
}
Told = tuple[int, int]


class Member:
    """A member process; its output goes to a file."""

    def __init__(self, broker: TwoDialects, path: Path, *options: str) -> None:
        self._path = path
        self._output = path.open("wb")
        arguments = ["consume", "lines", "--group", "g", "--follow", "--json", *options]
        self.process = command(broker, *arguments, stdout=self._output, stderr=subprocess.DEVNULL)

    def told(self) -> list[Told]:
        """(partition, offset) of each record, in order; a torn last line is skipped."""
        lines = self._path.read_text().split("\n")[:-1]
        return [(one["partition"], one["offset"]) for one in map(json.loads, lines)]

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the exit."""
        self.process.send_signal(number)
        code = self.process.wait(WAIT_S)
        self._output.close()
        return code


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TwoDialects]:
    settings = {**SETTINGS, **getattr(request, "param", {})}
    with TwoDialects(tmp_path / "data", settings) as one:
        yield one


@pytest.fixture
def members(broker: TwoDialects, tmp_path: Path) -> Iterator[Callable[..., Member]]:
    """Start members; all are stopped at the end."""
    made: list[Member] = []

    def make(*options: str) -> Member:
        made.append(Member(broker, tmp_path / f"member-{len(made)}", *options))
        return made[-1]

    yield make
    for member in made:
        if member.process.poll() is None:
            member.end(signal.SIGKILL)


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.1)


def group(broker: TwoDialects) -> dict[str, Any]:
    """The group as described; without members while it does not exist."""
    with command(broker, "groups", "describe", "g", "--json") as process:
        out, told = process.communicate(timeout=WAIT_S)
    if process.returncode:
        assert told.startswith(b"no group 'g'"), told
        return {"members": [], "partitions": []}
    (found,) = json.loads(out)
    return dict(found)


def shares(broker: TwoDialects) -> list[int]:
    return sorted(len(one["partitions"]) for one in group(broker)["members"])


def committed(broker: TwoDialects) -> dict[int, int]:
    return {
        one["partition"]: one["committed"]
        for one in group(broker)["partitions"]
        if one["committed"] is not None
    }


def produce(broker: TwoDialects) -> None:
    lines = b"".join(b"%d\n" % number for number in range(COUNT))
    run(broker, "produce", "lines", "--partitioner", "round_robin", data=lines)


def everything(rounds: int) -> set[Told]:
    """The (partition, offset) of all records after `rounds` rounds of producing."""
    each = rounds * COUNT // PARTITIONS
    return {(number, offset) for number in range(PARTITIONS) for offset in range(each)}


def test_members_and_broker_are_killed_and_nothing_is_lost(
    broker: TwoDialects, members: Callable[..., Member]
) -> None:
    run(broker, "topics", "create", "lines", "--partitions", str(PARTITIONS))
    first, second = members(), members()
    until(lambda: shares(broker) == [8, 8])

    def told() -> Counter[Told]:
        return Counter(place for one in (first, second, *later) for place in one.told())

    later: list[Member] = []
    produce(broker)
    until(lambda: told().keys() == everything(1))
    assert set(told().values()) == {1}
    assert len(first.told()) == len(second.told()) == COUNT // 2

    first.end(signal.SIGKILL)
    produce(broker)
    until(lambda: told().keys() == everything(2))
    until(lambda: shares(broker) == [16])
    repeated = {place for place, count in told().items() if count > 1}
    assert repeated <= set(first.told()) & set(second.told())

    later.append(members())
    until(lambda: shares(broker) == [8, 8])
    before = told()
    produce(broker)
    until(lambda: told().keys() == everything(3))
    assert set((told() - before).values()) == {1}

    until(lambda: sum(committed(broker).values()) == 3 * COUNT)
    kept = committed(broker)
    broker.kill()
    broker.start()
    until(lambda: shares(broker) == [8, 8])
    assert committed(broker) == kept
    before = told()
    produce(broker)
    until(lambda: told().keys() == everything(4))
    assert set((told() - before).values()) == {1}
    for member in (second, *later):
        assert member.end(signal.SIGTERM) == 143
    found = group(broker)
    assert (found["state"], found["members"]) == ("Empty", [])
    assert {one["lag"] for one in found["partitions"]} == {0}


@pytest.mark.parametrize(
    "broker",
    [{"group.consumer.session.timeout.ms": "12000"}],  # a start may take some seconds
    ids=["session of 12 s"],
    indirect=True,
)
def test_a_static_member_returns_to_its_partitions(
    broker: TwoDialects, members: Callable[..., Member]
) -> None:
    run(broker, "topics", "create", "lines", "--partitions", str(PARTITIONS))
    static, other = members("--instance-id", "one"), members()
    until(lambda: shares(broker) == [8, 8])

    def held() -> list[Any]:
        return [
            one["partitions"] for one in group(broker)["members"] if one["instance_id"] == "one"
        ]

    before, epoch = held(), group(broker)["epoch"]
    assert static.end(signal.SIGINT) == 130
    back = members("--instance-id", "one")
    produce(broker)
    until(lambda: len(back.told()) == len(other.told()) == COUNT // 2)
    assert held() == before
    assert group(broker)["epoch"] == epoch  # no rebalance happened

    back.end(signal.SIGKILL)
    again = members("--instance-id", "one")  # waits for the killed member's session timeout
    produce(broker)
    until(lambda: {*back.told(), *again.told(), *other.told()} == everything(2))
    until(lambda: shares(broker) == [8, 8])  # the order of joining decides which half


def test_a_member_that_writes_into_a_full_pipe_stays_and_stops_on_a_signal(
    broker: TwoDialects,
) -> None:
    produce(broker)
    produce(broker)  # more than a pipe holds
    arguments = ["consume", "lines", "--group", "g", "--follow", "--json"]
    with command(broker, *arguments) as reader:
        assert reader.stdout is not None
        until(lambda: shares(broker) == [PARTITIONS])
        epoch = group(broker)["epoch"]
        time.sleep(4)  # longer than a session
        assert (shares(broker), group(broker)["epoch"]) == ([PARTITIONS], epoch)
        reader.send_signal(signal.SIGTERM)
        assert reader.wait(WAIT_S) == 143
    assert shares(broker) == []
    read = run(broker, "consume", "lines", "--group", "g", "--json").splitlines()
    places = {(one["partition"], one["offset"]) for one in map(json.loads, read)}
    assert places | {
        (number, offset)
        for number, committed_offset in committed(broker).items()
        for offset in range(committed_offset)
    } == everything(2)


def test_reset_offsets_moves_a_group_back(broker: TwoDialects) -> None:
    produce(broker)
    assert len(run(broker, "consume", "lines", "--group", "g").split()) == COUNT
    assert run(broker, "consume", "lines", "--group", "g") == b""
    shown = run(broker, "groups", "reset-offsets", "g", "--shift-by", "-2", "--dry-run")
    assert b"Would set 16 offsets" in shown
    assert run(broker, "consume", "lines", "--group", "g") == b""
    run(broker, "groups", "reset-offsets", "g", "--shift-by", "-2")
    assert len(run(broker, "consume", "lines", "--group", "g").split()) == 2 * PARTITIONS
    run(broker, "groups", "delete", "g", "--yes")
    assert json.loads(run(broker, "groups", "list", "--json")) == []
