"""The rows of a list are shared: for how long, and what ends that."""

from broker.console.walks import KEPT_NS, SharedRows, Turns
from broker.runtime.clock import MS_NS, ManualClock


async def test_a_list_that_others_hold_up_is_kept_for_its_own_work() -> None:
    clock, made = ManualClock(), []

    async def make(turns: Turns) -> list[int]:
        made.append(turns)
        clock.advance(10_000)  # of others, between two slices
        await turns.look()
        return [len(made)]

    rows = SharedRows(clock, make)
    assert await rows.get() == await rows.get() == [1]
    clock.advance(KEPT_NS // MS_NS)
    assert await rows.get() == [2]


async def test_a_list_is_walked_over_again_after_a_change_during_the_walk() -> None:
    clock, made = ManualClock(), 0

    async def make(_: Turns) -> list[int]:
        nonlocal made
        made += 1
        if made == 1:
            rows.forget()
        return [made]

    rows = SharedRows(clock, make)
    assert await rows.get() == [1]
    assert await rows.get() == [2]
    assert await rows.get() == [2]


async def test_a_list_of_much_work_is_kept_for_longer_but_not_for_long() -> None:
    clock, made = ManualClock(), 0

    async def make(turns: Turns) -> list[int]:
        nonlocal made
        made += 1
        turns.slices = 10**9
        return [made]

    rows = SharedRows(clock, make)
    for seconds, number in ((0, 1), (29, 1), (1, 2)):
        clock.advance(seconds * 1_000)
        assert await rows.get() == [number]
