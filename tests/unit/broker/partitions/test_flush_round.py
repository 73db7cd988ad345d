"""A round of flushes: which have ended, which remain, and when the round is stuck."""

from typing import Any

from broker.partitions.flush_round import FlushRound

SECOND = 1_000_000_000


class Flush:
    """A flush with a given outcome."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    def run(self) -> None:
        if self.error is not None:
            raise self.error


def jobs(*errors: BaseException | None) -> list[Any]:
    return [(number, Flush(error)) for number, error in enumerate(errors)]


def test_each_flush_ends_in_its_own_way() -> None:
    failure = OSError(5, "Input/output error")
    made = FlushRound(jobs(None, failure, MemoryError("none left")), 0)
    made.run()
    ended = made.take_ended()
    assert [number for number, _, _ in ended] == [0, 1, 2]
    assert [ended[0][2], ended[1][2]] == [None, failure]
    assert "MemoryError" in str(ended[2][2])
    assert made.take_ended() == made.take_rest() == []


def test_a_withdrawn_flush_does_not_run() -> None:
    made = FlushRound(jobs(None, None), 0)
    assert len(made.take_rest()) == 2
    made.run()
    assert made.take_ended() == []


def test_a_round_that_makes_progress_is_not_stuck() -> None:
    made = FlushRound(jobs(None), 0)
    assert not made.is_stuck(SECOND, SECOND)
    assert made.is_stuck(SECOND + 1, SECOND)
    made.run()
    assert not made.is_stuck(2 * SECOND, SECOND), "one has ended since the last look"
    assert not made.is_stuck(3 * SECOND, SECOND)
    assert made.is_stuck(3 * SECOND + 1, SECOND)
