"""The paths of a produce and of a fetch, as docs/design.md draws them, in a running broker.

A profile function notes each function of the house that is entered between the first byte of a
request and the end of its work, and its thread. The client has made the same request once
before, so that no codec is compiled on the way.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from broker.handlers import HANDLERS
from broker.lifecycle.environment import system_environment
from broker.lifecycle.shutdown import EXIT_CLEAN
from broker.server import Broker
from tests.support import raw_batches
from tests.support.raw_client import RawClient
from tests.support.rig_fetch import look_up_always
from tests.unit.broker.test_server import loaded, port_of, served

ROOT = Path(__file__).parents[3]
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
HOUSE = ("broker/", "storage/", "protocol/")
# What runs when it is due, whatever is requested meanwhile: periodic duties, and the job that
# imports the handlers after the start, in the pool.
UNASKED = ("broker/maintenance/", "broker/handlers/__init__.py")
POOL = "broker/runtime/blocking_pool.py"
TIMERS = {"broker/runtime/owners.py"}  # entered, too, for what is due meanwhile


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time as few requests as a busy broker times."""
    monkeypatch.setattr("broker.runtime.request_times.EACH_NS", 1 << 60)


class Step(NamedTuple):
    """A function of the house and where it runs."""

    thread: str
    path: str
    name: str


class Drawing(NamedTuple):
    steps: list[Step]
    passed: set[str]


def drawing(what: str) -> Drawing:
    """The steps that design.md draws, and the files that it names below them."""
    section = DESIGN.partition(f"### The way of a {what}, file by file\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^(loop|pool)  (\S+\.py) +(\S+)", section, re.M)
    passed = section.partition("Also entered: ")[2]
    return Drawing([Step(*row) for row in rows], set(re.findall(r"`([\w/]+\.py)`", passed)))


def path_of(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(f"{ROOT}/")


def is_unasked(frame: FrameType | None) -> bool:
    """Return whether a call comes from work that runs without a request."""
    while frame is not None:
        if path_of(frame).startswith(UNASKED):
            return True
        frame = frame.f_back
    return False


class Trace:
    """Notes the functions of the house that are entered while it is on, in any thread."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.is_on = False

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self.is_on:
            return
        path = path_of(frame)
        if path.startswith(HOUSE) and path != POOL and not is_unasked(frame):
            is_loop = threading.current_thread() is threading.main_thread()
            self.steps.append(Step("loop" if is_loop else "pool", path, frame.f_code.co_qualname))


@contextmanager
def profiled(trace: Trace) -> Iterator[None]:
    threading.setprofile(trace.note)  # for the threads that the broker starts from here on
    sys.setprofile(trace.note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def traced(directory: Path, ask: Callable[[RawClient], object]) -> list[Step]:
    """Return what a broker enters from the first byte of `ask` until some time after its answer."""
    trace = Trace()
    with profiled(trace):
        broker = Broker(loaded(directory), system_environment())
        running = await served(broker)

        def client() -> None:
            with RawClient("127.0.0.1", port_of(broker)) as connection:
                assert connection.create_topic("t") == 0
                connection.produce("t", raw_batches.batch([b"first"]))
                ask(connection)
                time.sleep(0.05)  # until the broker is at rest
                trace.is_on = True
                ask(connection)
                time.sleep(0.05)  # what follows the answer belongs to its way
                trace.is_on = False

        for handler in HANDLERS:  # else a thread imports them meanwhile
            handler.load()
        await asyncio.to_thread(client)
        broker._signals.received(signal.SIGTERM)
        assert await running == EXIT_CLEAN
    return trace.steps


def assert_in_order(drawn: list[Step], steps: list[Step]) -> None:
    place = 0
    for step in drawn:
        assert step in steps[place:], f"{step} does not run here; see docs/design.md"
        place = steps.index(step, place) + 1


def assert_as_drawn(steps: list[Step], what: str) -> None:
    drawn = drawing(what)
    assert len(drawn.steps) > 10, "the drawing was not found"
    assert_in_order(drawn.steps, steps)
    # In the pool, a checkpoint may run at the same time.
    on_the_loop = {path for thread, path, _ in steps if thread == "loop"}
    entered = {path for path in on_the_loop if not path.startswith("protocol/")}
    named = {path for _, path, _ in drawn.steps} | drawn.passed
    assert entered - named == set(), "files that docs/design.md does not name"
    assert drawn.passed - entered - TIMERS == set(), "files that are no longer used"


async def test_a_produce_goes_as_drawn(tmp_path: Path) -> None:
    steps = await traced(
        tmp_path / "data", lambda client: client.produce("t", raw_batches.batch([b"b"]))
    )
    assert_as_drawn(steps, "produce")


async def test_a_fetch_goes_as_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up_always(monkeypatch)
    steps = await traced(tmp_path / "data", lambda client: client.fetch("t", 0))
    assert_as_drawn(steps, "fetch")


async def test_a_fetch_that_reads_on_goes_as_drawn(tmp_path: Path) -> None:
    steps = await traced(tmp_path / "data", lambda client: client.fetch("t", 0))
    drawn = drawing("fetch that reads on").steps
    assert len(drawn) > 10
    assert_in_order(drawn, steps)
    assert "broker/partitions/fetch_reading.py:FetchReading.__init__" not in {
        f"{path}:{name}" for _, path, name in steps
    }
