"""The checker is tested: it catches every kind of mutated history, and flags no near miss."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.support.history_checker import (
    FAIL,
    INFO,
    OK,
    FinalLog,
    History,
    Op,
    Poll,
    Send,
    check,
)
from tests.support.thorough import share_of, turn_of

A, B = ("a", 0), ("b", 0)


def value(number: int) -> bytes:
    return b"k%d:%d" % (number % 3, number)


def send(*offsets: tuple[int, int | None], process: int = 1, outcome: str = OK, **kwargs) -> Op:
    """(number, offset) of each record, to A."""
    return Op(process, outcome, sends=[Send(A, value(n), at) for n, at in offsets], **kwargs)


def poll(*records: tuple[int, int], process: int = 9, outcome: str = OK, **kwargs) -> Op:
    """(offset, number) of each record, from A."""
    position = records[0][0] if records else 0
    polls = [Poll(A, position, [(at, value(n)) for at, n in records])]
    return Op(process, outcome, polls=polls, **kwargs)


def final(*records: tuple[int, int], start: int = 0) -> dict:
    return {A: FinalLog(start, [(at, value(n)) for at, n in records])}


def names(*ops: Op, **kwargs) -> set[str]:
    return check(History(list(ops), **kwargs)).names


THREE = ((0, 0), (1, 1), (2, 2))

# name, a history with the anomaly, a near miss without it
CASES: list[tuple[str, History, History]] = [
    (
        "inconsistent-offsets",
        History([send((0, 0)), send((1, 0), outcome=INFO), poll((0, 1))]),
        History([send((0, 0)), send((1, 0), outcome=INFO), poll((0, 0))]),
    ),
    (
        "duplicate",
        History([send((0, 0)), poll((0, 0), (1, 0))]),
        History([send((0, 0)), poll((0, 0)), poll((0, 0), process=8)]),
    ),
    (
        "G1a",
        History([send((0, None), outcome=FAIL), poll((0, 0))]),
        History([send((0, None), outcome=INFO), poll((0, 0))]),
    ),
    (
        "lost-write",
        History([send((0, 0)), send((1, 1)), poll((1, 1))]),
        History([send((0, 0)), send((1, 1)), poll((0, 0))]),
    ),
    (
        "lost-write",  # its batch was read in part, so all of it was written
        History([send((0, 0), (1, 1), outcome=INFO), poll((1, 1))]),
        History([send((0, 0), (1, 1), outcome=INFO), poll((0, 0))]),
    ),
    (
        "unseen",
        History([send((0, 0)), send((1, 1))], final=final((0, 0))),
        History([send((0, 0)), send((1, None), outcome=INFO)], final=final((0, 0))),
    ),
    (
        "unseen",
        History([send((0, 0)), send((1, 1))], final=final((1, 1))),
        History([send((0, 0)), send((1, 1))], final=final((1, 1), start=1)),
    ),
    (
        "vanished",
        History([send((0, None), outcome=INFO), poll((0, 0))], final=final()),
        History([send((0, None), outcome=INFO), poll()], final=final()),
    ),
    (
        "int-poll-skip",
        History([send(*THREE), poll((0, 0), (2, 2)), poll(*THREE, process=8)]),
        # offsets that never held a value, such as a marker's, are not skipped records
        History([send((0, 0), (1, 1), (2, 3)), poll((0, 0), (1, 1), (3, 2))]),
    ),
    (
        "int-nonmonotonic-poll",
        History([send(*THREE), poll((0, 0), (2, 2), (1, 1))]),
        History([send(*THREE), poll((0, 0), (1, 1), (2, 2))]),
    ),
    (
        "poll-skip",
        History([send(*THREE), poll((0, 0)), poll((2, 2)), poll(*THREE, process=8)]),
        History([send(*THREE), poll((0, 0)), poll((2, 2), seeks=True), poll(*THREE, process=8)]),
    ),
    (
        "nonmonotonic-poll",
        History([send(*THREE), poll((0, 0), (1, 1)), poll((1, 1))]),
        History([send(*THREE), poll((0, 0), (1, 1)), poll((1, 1), process=8)]),
    ),
    (
        "poll-skip",  # a poll that failed does not advance
        History([send(*THREE), poll((0, 0)), poll((1, 1), outcome=INFO), poll((2, 2))]),
        History([send(*THREE), poll((0, 0)), poll((1, 1), outcome=INFO), poll((1, 1))]),
    ),
    (
        "nonmonotonic-send",
        History([send((0, 1)), send((1, 0)), poll((0, 1), (1, 0))]),
        History([send((0, 1)), send((1, 0), process=2), poll((0, 1), (1, 0))]),
    ),
    (
        "int-nonmonotonic-send",
        History([send((0, 1), (1, 0))]),
        History([send((0, 1), outcome=INFO), send((1, 0), outcome=INFO)]),
    ),
    (
        "precommitted-read",
        History([Op(1, OK, sends=[Send(A, b"x", 0)], polls=[Poll(A, 0, [(0, b"x")])])]),
        History([Op(1, OK, sends=[Send(A, b"x", 0)], polls=[Poll(A, 0, [])])]),
    ),
    (
        "G1c",
        History(
            [
                Op(1, OK, sends=[Send(A, b"x", 0)], polls=[Poll(B, 0, [(0, b"y")])]),
                Op(2, OK, sends=[Send(B, b"y", 0)], polls=[Poll(A, 0, [(0, b"x")])]),
            ]
        ),
        History(
            [
                Op(1, OK, sends=[Send(A, b"x", 0)]),
                Op(2, OK, sends=[Send(B, b"y", 0)], polls=[Poll(A, 0, [(0, b"x")])]),
                Op(3, OK, polls=[Poll(B, 0, [(0, b"y")])]),
            ]
        ),
    ),
    (
        "realtime-lag",
        History([send((0, 0), completed_s=1.0), poll(invoked_s=12.0)]),
        History([send((0, 0), completed_s=1.0), poll(invoked_s=10.0)]),
    ),
]


@pytest.mark.parametrize(
    ("name", "bad", "near"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)]
)
def test_the_checker_flags_the_anomaly_and_not_its_near_miss(
    name: str, bad: History, near: History
) -> None:
    assert name in check(bad, lag_s_allowed=10).names
    assert check(near, lag_s_allowed=10).anomalies == []


# -- power cuts ------------------------------------------------------------------------------------


def cut_history(
    *, volatile: bool, polled: bool, end: int, key_is_volatile: bool = False
) -> History:
    """Acknowledge offsets 0 and 1, perhaps poll 1; a cut leaves `end`; write it again."""
    history = History(volatile_keys=frozenset({A} if key_is_volatile else ()))
    history.ops += [send((0, 0)), send((1, 1), is_volatile=volatile)]
    if polled:
        history.ops.append(poll((0, 0), (1, 1)))
    history.cut({A: end})
    history.ops.append(send((2, end), process=2))
    left = [(at, at) for at in range(end)] + [(end, 2)]
    history.ops.append(poll(*left, process=7, seeks=True))
    history.final = final(*left)
    return history


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (cut_history(volatile=True, polled=False, end=1), set()),
        (cut_history(volatile=True, polled=False, end=2), set()),
        (cut_history(volatile=False, polled=False, end=1), {"inconsistent-offsets", "unseen"}),
        (
            cut_history(volatile=True, polled=True, end=1),
            {"inconsistent-offsets", "vanished", "unseen"},
        ),
        (cut_history(volatile=True, polled=True, end=1, key_is_volatile=True), set()),
        (cut_history(volatile=False, polled=True, end=1, key_is_volatile=True), set()),
        (cut_history(volatile=True, polled=False, end=0), {"inconsistent-offsets", "unseen"}),
    ],
)
def test_a_power_cut_takes_only_what_was_volatile(history: History, expected: set[str]) -> None:
    assert check(history).names - {"lost-write", "duplicate"} == expected


def test_a_power_cut_loses_nothing_that_a_clean_stop_synced() -> None:
    def told(*, stop: bool) -> set[str]:
        history = History([send((0, 0), is_volatile=True)])
        if stop:
            history.harden()
        history.cut({A: 0})
        history.final = final()
        return check(history).names

    assert told(stop=False) == set()
    assert told(stop=True) == {"unseen"}


def test_a_stop_after_a_cut_revives_nothing() -> None:
    history = History([send((0, 0), is_volatile=True)])
    history.cut({A: 0})
    history.harden()
    history.cut({A: 0})
    history.final = final()
    assert check(history).anomalies == []


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ([(1, 1), (2, 2), (3, 3)], set()),  # 0 has the key of 3
        ([(0, 0), (1, 1), (2, 2)], {"unseen"}),
        ([(2, 2), (3, 3)], {"unseen"}),
    ],
)
def test_a_compacted_log_keeps_the_newest_record_of_each_key(
    left: list[tuple[int, int]], expected: set[str]
) -> None:
    history = History([send((0, 0), (1, 1), (2, 2), (3, 3))], compacted_keys=frozenset({A}))
    history.final = final(*left)
    assert check(history).names == expected


@pytest.mark.parametrize(
    ("volatile", "compacted", "expected"),
    [(True, True, set()), (True, False, {"unseen"}), (False, True, {"unseen"})],
)
def test_a_hole_from_a_power_cut_is_an_anomaly_except_on_a_compacted_key(
    volatile: bool, compacted: bool, expected: set[str]
) -> None:
    history = History([send((0, 0)), send((1, 1), is_volatile=volatile)])
    history.compacted_keys = frozenset({A} if compacted else ())
    history.cut({A: 2})
    history.final = final((0, 0))
    assert check(history).names == expected


# -- mutations -------------------------------------------------------------------------------------


def good_history(ops: int, seed: int = 1) -> History:
    """Operations of producers and consumers of two keys on a correct broker."""
    chance = random.Random(seed)
    history = History()
    logs: dict = {A: [], B: []}
    positions = {(process, key): 0 for process in (11, 12) for key in logs}
    number = 0
    for index in range(ops):
        key = chance.choice((A, B))
        log = logs[key]
        now = index / 1000
        if chance.random() < 0.5:
            values = [value(number + n) for n in range(chance.randint(1, 3))]
            number += len(values)
            base = len(log)
            outcome = chance.choices((OK, INFO, FAIL), (90, 6, 4))[0]
            is_known = outcome == OK
            if outcome == OK or (outcome == INFO and chance.random() < 0.5):
                log += values
            sends = [Send(key, v, base + n if is_known else None) for n, v in enumerate(values)]
            history.ops.append(Op(chance.randint(1, 4), outcome, sends, (), now, now))
        else:
            process = chance.choice((11, 12))
            position = positions[process, key]
            records = list(enumerate(log[position : position + 8], position))
            positions[process, key] += len(records)
            history.ops.append(Op(process, OK, (), [Poll(key, position, records)], now, now))
    for key, log in logs.items():
        records = list(enumerate(log))
        history.final[key] = FinalLog(0, records)
        history.ops.append(Op(0, OK, (), [Poll(key, 0, records)], ops, ops, seeks=True))
    return history


Mutation = Callable[[History, random.Random], None]


def _some(history: History, chance: random.Random, kind: str, least: int = 1) -> int:
    """Return the index of an acknowledged send, or of a consumer's poll with enough records."""
    places = [
        place
        for place, op in enumerate(history.ops)
        if op.outcome == OK
        and (
            (kind == "send" and len(op.sends) >= least)
            or (kind == "poll" and op.process and op.polls and len(op.polls[0].records) >= least)
        )
    ]
    return chance.choice(places[len(places) // 4 : len(places) * 3 // 4])


def _records(history: History, chance: random.Random, change: Callable, least: int = 3) -> None:
    """Let `change` alter the records of a poll."""
    place = _some(history, chance, "poll", least)
    (old,) = history.ops[place].polls
    records = change(list(old.records))
    history.ops[place] = replace(history.ops[place], polls=[old._replace(records=records)])


def _sends(history: History, chance: random.Random, change: Callable, least: int = 1) -> None:
    place = _some(history, chance, "send", least)
    history.ops[place] = replace(history.ops[place], sends=change(list(history.ops[place].sends)))


def _everywhere(history: History, chance: random.Random, change: Callable) -> None:
    """Change key A's log, as all readers see it afterwards."""
    place = _some(history, chance, "send")
    victim = history.ops[place].sends[0]
    for number, op in enumerate(history.ops):
        polls = [
            poll._replace(records=change(list(poll.records), victim))
            if poll.key == victim.key
            else poll
            for poll in op.polls
        ]
        history.ops[number] = replace(op, polls=polls)
    log = history.final[victim.key]
    history.final[victim.key] = log._replace(records=change(list(log.records), victim))


def _swap(records: list) -> list:
    (a, x), (b, y) = records[0], records[1]
    return [(a, y), (b, x), *records[2:]]


def _cut_final(history: History, chance: random.Random) -> None:
    start, records = history.final[A]
    history.final[A] = FinalLog(start, records[:-40])


def _drop_final(history: History, chance: random.Random) -> None:
    start, records = history.final[A]
    at = chance.randrange(len(records) // 2)
    history.final[A] = FinalLog(start, [*records[:at], *records[at + 1 :]])


def _revive(history: History, chance: random.Random) -> None:
    """Let a poll return, at its end, a record whose send failed."""
    dead = {op.sends[0].key: op.sends[0].value for op in history.ops if op.outcome == FAIL}
    place = _some(history, chance, "poll", 2)
    (old,) = history.ops[place].polls
    records = [*old.records[:-1], (old.records[-1][0], dead[old.key])]
    history.ops[place] = replace(history.ops[place], polls=[old._replace(records=records)])


def _repeat_poll(history: History, chance: random.Random) -> None:
    place = _some(history, chance, "poll", 1)
    history.ops.insert(place + 1, history.ops[place])


def _lose_poll(history: History, chance: random.Random) -> None:
    del history.ops[_some(history, chance, "poll", 1)]


def _deny(history: History, chance: random.Random) -> None:
    """Record an acknowledged send as failed."""
    place = _some(history, chance, "send")
    history.ops[place] = replace(history.ops[place], outcome=FAIL)


def _send_again(history: History, chance: random.Random) -> None:
    """Let the broker append a retry again."""
    place = _some(history, chance, "send")
    sent = history.ops[place].sends[0]
    end = len(history.final[sent.key].records)
    start, records = history.final[sent.key]
    history.final[sent.key] = FinalLog(start, [*records, (end, sent.value)])
    polls = [Poll(sent.key, 0, history.final[sent.key].records)]
    history.ops.append(Op(0, OK, (), polls, seeks=True))


def _exchange_sends(history: History, chance: random.Random) -> None:
    """Swap the offsets that two sends of one producer got."""
    places = [n for n, op in enumerate(history.ops) if op.outcome == OK and len(op.sends) == 1]
    first = places[len(places) // 2]
    of_same = (
        n
        for n in places[len(places) // 2 + 1 :]
        if history.ops[n].sends[0].key == history.ops[first].sends[0].key
    )
    second = next(of_same)
    one, other = history.ops[first].sends[0], history.ops[second].sends[0]
    history.ops[first] = replace(history.ops[first], sends=[one._replace(offset=other.offset)])
    history.ops[second] = replace(history.ops[second], sends=[other._replace(offset=one.offset)])


def _reorder_producer(history: History, chance: random.Random) -> None:
    """Put a later send of one process first."""
    sends = [op for op in history.ops if op.outcome == OK and op.sends]
    op = chance.choice(sends[: len(sends) // 2])
    later = next(o for o in reversed(sends) if o.sends[0].key == op.sends[0].key and o is not op)
    earlier = history.ops.index(op)
    history.ops.insert(earlier, history.ops.pop(history.ops.index(later)))
    history.ops[earlier] = replace(later, process=op.process)


MUTATIONS: dict[str, Mutation] = {
    "a poll drops one within": lambda h, c: _records(h, c, lambda r: [r[0], *r[2:]]),
    "a poll drops its last": lambda h, c: _records(h, c, lambda r: r[:-1], 2),
    "a poll drops its first": lambda h, c: _records(h, c, lambda r: r[1:], 2),
    "a poll has one twice": lambda h, c: _records(h, c, lambda r: [r[0], *r]),
    "a poll has two swapped": lambda h, c: _records(h, c, _swap),
    "a poll is backwards": lambda h, c: _records(h, c, lambda r: r[::-1]),
    "a poll is shifted by one": lambda h, c: _records(h, c, lambda r: [(a + 1, v) for a, v in r]),
    "a poll has another's value": lambda h, c: _records(h, c, lambda r: [(r[0][0], b"?"), *r[1:]]),
    "a poll is given twice": _repeat_poll,
    "a poll is left out": _lose_poll,
    "a failed send is read": _revive,
    "an acknowledged send is called failed": _deny,
    "a send is told the offset before": lambda h, c: _sends(
        h, c, lambda s: [x._replace(offset=x.offset - 1) for x in s]
    ),
    "a send is told the offset behind": lambda h, c: _sends(
        h, c, lambda s: [x._replace(offset=x.offset + 1) for x in s]
    ),
    "a send is told the offsets backwards": lambda h, c: _sends(
        h,
        c,
        lambda s: [x._replace(offset=y.offset) for x, y in zip(s, s[::-1], strict=True)],
        2,
    ),
    "two sends are told each other's offsets": _exchange_sends,
    "a producer's sends stand in another order": _reorder_producer,
    "a retry is stored again": _send_again,
    "an acknowledged value was never there": lambda h, c: _everywhere(
        h, c, lambda records, victim: [r for r in records if r[1] != victim.value]
    ),
    "an acknowledged value became another": lambda h, c: _everywhere(
        h, c, lambda records, victim: [(a, b"?" if v == victim.value else v) for a, v in records]
    ),
    "the end is lost": _cut_final,
    "one in the middle is lost at the end": _drop_final,
}


def mutated(original: History, seed: int, mutation: Mutation) -> set[str]:
    """Return the anomalies of a mutated copy; mutations replace operations and modify none."""
    history = History(list(original.ops), final=dict(original.final))
    mutation(history, random.Random(seed))
    return check(history).names


def test_a_good_history_has_no_anomalies() -> None:
    for seed in range(5):
        verdict = check(good_history(3000, seed))
        assert verdict.anomalies == []
        assert verdict.acknowledged_count > 2000
        assert verdict.polled_count > verdict.acknowledged_count


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutated_history_is_caught(name: str) -> None:
    missed = [
        seed
        for seed in share_of(range(10))
        if not mutated(good_history(600, seed), seed, MUTATIONS[name])
    ]
    assert missed == []


@pytest.mark.faults
def test_every_mutation_of_a_history_of_a_hundred_thousand_operations_is_caught() -> None:
    history = good_history(100_000)
    assert not check(history).anomalies
    kinds = turn_of(list(MUTATIONS))
    assert [kind for kind in kinds if not mutated(history, 7, MUTATIONS[kind])] == []


def test_an_empty_history_has_no_anomalies() -> None:
    assert check(History()).anomalies == []
    empty: Sequence[Op] = [poll(), send()]
    assert names(*empty, final=final()) == set()
