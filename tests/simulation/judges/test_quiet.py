"""The judge of the log objects to each kind of line that it must not accept."""

import asyncio
import gc
import logging

import pytest

from broker.runtime.clock import SystemClock
from broker.runtime.metrics import Metrics
from broker.runtime.owners import FailureLog
from tests.simulation.judges.quiet import ACCEPT, DISK, FLIP, FULL, SLOW, Quiet, listening
from tests.support import failures

logger = logging.getLogger("barnabas.anything")
FULL_DISK = "the disk of /data is full, 3 bytes left: [Errno 28] No space left on device"
STORAGE = "FETCH v11 from 10.0.0.1:5 (client 'c', correlation id 3) failed, answered "


def heard(call):
    with listening(Quiet()) as quiet:
        call()
    return quiet


def test_usual_lines_are_no_objection():
    def say():
        logger.info("listening on %s", "PLAINTEXT://127.0.0.1:9092")
        logger.debug("closing %s:%d: %s", "::1", 4, "the peer\nhas gone \x1b[31m")
        logger.warning("closing connection of %s", "line\u2028of its own")

    quiet = heard(say)
    assert quiet.judge(set()) == []
    assert quiet.messages[0] == "listening on PLAINTEXT://127.0.0.1:9092"
    quiet.end_life(Metrics())
    assert quiet.judge(set()) == []
    assert quiet.messages == []


def test_a_line_that_cannot_be_formatted():
    text, arguments = "%d bytes of %s", ("no number",)
    (found,) = heard(lambda: logger.debug(text, *arguments)).judge(set())
    assert "cannot format '%d bytes of %s'" in found


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_a_forged_line(level):
    quiet = Quiet()
    quiet.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    with listening(quiet):
        logger.log(level, "unknown topic %s", "x\n2026-01-01 00:00:00.000+00:00 INFO forged")
    (found,) = quiet.judge({DISK})
    assert "not one line" in found


def test_a_trace_that_is_not_indented():
    quiet = Quiet()
    whole = quiet.formatter
    quiet.setFormatter(logging.Formatter("2026-01-01 00:00:00.000+00:00 ERROR %(message)s"))
    with listening(quiet):
        logger.warning("of %s", "a fault", exc_info=ValueError("x"))
    assert "not one line" in quiet.judge({DISK})[0]
    quiet = Quiet()
    assert type(quiet.formatter) is type(whole)
    with listening(quiet):
        try:
            raise ValueError("two\nlines")
        except ValueError:
            logger.warning("of %s", "a fault", exc_info=True)
    assert quiet.judge({DISK}) == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        (FULL_DISK, {FULL}),
        (STORAGE + "KAFKA_STORAGE_ERROR: EIO", {DISK, FLIP}),
        ("cannot accept on PLAINTEXT://h:1, will retry: too many", {ACCEPT}),
        ("the disk of /data does not answer: exiting without it. Acknowledged", {SLOW}),
        ("/data/t-0: gone. It is offline until it can be opened.", {DISK, FLIP}),
        ("t-0 is offline for writes, reads end at the last durable offset, 4: x.", {DISK, FULL}),
        ("cleaning failed, will retry: EIO", {DISK}),
    ],
)
def test_an_error_needs_its_fault(line, faults):
    quiet = heard(lambda: logger.error("%s", line))
    for fault in (DISK, FULL, SLOW, FLIP, ACCEPT):
        if fault in faults:
            assert quiet.judge({fault}) == []
    others = {DISK, FULL, SLOW, FLIP, ACCEPT} - faults - {DISK, FULL, FLIP}
    (found,) = quiet.judge(others)
    assert found == f"an ERROR that no fault explains: {line}"


def test_an_unknown_error_is_never_explained():
    everything = {DISK, FULL, SLOW, FLIP, ACCEPT}
    quiet = heard(lambda: logger.error("a batch could not be prepared"))
    assert len(quiet.judge(everything)) == 1
    quiet = heard(lambda: logger.error(STORAGE + "UNKNOWN_SERVER_ERROR: KeyError(3)"))
    assert len(quiet.judge(everything)) == 1
    quiet = heard(lambda: logger.warning("not at rest at the stop, please report this: 1 task"))
    assert len(quiet.judge(everything)) == 1


def test_unexpected_failures():
    metrics = Metrics()

    async def fail():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(FailureLog(metrics, SystemClock()))
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)

    quiet = heard(lambda: asyncio.run(fail()))
    assert failures.take(), "the reports of `FailureLog` would fail this test"
    assert "unexpected failure" in quiet.judge(set())[0]
    quiet.end_life(metrics)
    assert quiet.judge(set())[-1] == "1 unexpected failures were counted"


def test_what_asyncio_and_the_interpreter_report():
    async def forget():
        future = asyncio.get_running_loop().create_future()
        future.set_exception(KeyError("lost"))
        del future
        gc.collect()

    (found,) = heard(lambda: asyncio.run(forget())).judge(set())
    assert "never retrieved" in found

    def never_run():
        forget()
        gc.collect()

    (found,) = heard(never_run).judge(set())
    assert "was never awaited" in found

    class Raises:
        def __del__(self):
            raise OSError("on the way out")

    (found,) = heard(lambda: bool(Raises())).judge(set())
    assert "on the way out" in found


def test_nobody_listens_to_a_burial():
    with listening(Quiet()) as quiet:
        quiet.hears = False
        logger.error("unexpected failure of anything")
        quiet.complain("anything")
        quiet.hears = True
    assert quiet.judge(set()) == []


def test_violations_of_the_disk_are_objections():
    assert Quiet().judge(set(), ["fdatasync(/data/t-0/1.log)"]) == [
        "on the loop: fdatasync(/data/t-0/1.log)"
    ]


def test_loggers_are_as_before():
    before = [(one.handlers[:], one.level, one.propagate) for one in map(logging.getLogger, NAMES)]
    heard(lambda: None)
    after = [(one.handlers[:], one.level, one.propagate) for one in map(logging.getLogger, NAMES)]
    assert after == before


NAMES = ("barnabas", "asyncio")
