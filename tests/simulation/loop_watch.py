"""Objects to what the loop's side does with the disk while the broker serves.

Two things are wrong there: a call that `ON_THE_LOOP` does not list, and more work in one turn of
the loop than `TURN_MAX` allows. `tests.support.loop_guard` tells of work that is no file call.
Only calls of the broker count, not those of a judge or a test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from storage.files.filesystem import ON_THE_LOOP, TURN_MAX, File, FileSystem
from tests.support import loop_guard

FRAMES_MAX: Final = 8
_NOT_CALLERS: Final = (
    "tests.simulation.loop_watch",
    "tests.simulation.disk",
    "tests.support.memory_file",
    "tests.support.loop_guard",
)


class LoopWatch:
    """See the module. `is_on_loop` says whether the caller runs in the loop's thread."""

    def __init__(self, is_on_loop: Callable[[], bool]) -> None:
        self.violations: list[str] = []  # each once
        self._is_on_loop = is_on_loop
        self._serving = False
        self._turn: dict[str, int] = {}  # work of this turn

    @property
    def serving(self) -> bool:
        """Whether the broker serves; before and after, all calls are allowed."""
        return self._serving

    @serving.setter
    def serving(self, serving: bool) -> None:
        if serving and not self._serving:
            loop_guard.guard_work()
            loop_guard.watchers.append(self.count)
        elif self._serving and not serving:
            loop_guard.watchers.remove(self.count)
        self._serving = serving
        self._turn.clear()

    def end_turn(self) -> None:
        """Begin to count the work of the next turn."""
        if self._turn:
            self._turn.clear()

    def count(self, work: str, amount: int, path: str) -> None:
        """Count work that `TURN_MAX` bounds; other work does not belong on the loop at all."""
        if not self._serving or not self._is_on_loop():
            return
        if work not in TURN_MAX:
            self._object(work, path)
            return
        before = self._turn.get(work, 0)
        self._turn[work] = before + amount
        if before <= TURN_MAX[work] < before + amount:
            self._object(f"more than {TURN_MAX[work]} {work} a turn", path)

    def judge(self, operation: str, path: str) -> None:
        """Note a call that the loop may not make."""
        if self._serving and self._is_on_loop():
            self._object(operation, path)

    def _object(self, what: str, path: str) -> None:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and _module(frame).startswith(_NOT_CALLERS):
            frame = frame.f_back
        if not loop_guard.is_the_brokers(frame):
            return
        lines = [f"{what}({path})"]
        while frame is not None and len(lines) <= FRAMES_MAX:
            if _module(frame).partition(".")[0] in ("broker", "storage"):
                lines.append(f"  {_module(frame)}:{frame.f_lineno} {frame.f_code.co_name}")
            frame = frame.f_back
        violation = "\n".join(lines)
        if len(lines) > 1 and violation not in self.violations:
            self.violations.append(violation)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def watch_class(cls: type, protocol: type[File | FileSystem]) -> None:
    """Let a class's methods tell its `watch` of each call that the loop may not make."""
    for operation in loop_guard.operations(protocol):
        name = operation.split(".")[1]
        if operation not in ON_THE_LOOP and name != "lock":  # the broker locks before it listens
            setattr(cls, name, _judged(getattr(cls, name), operation))
        elif operation in TURN_MAX:
            setattr(cls, name, _counted(getattr(cls, name), operation))


def _judged(method: Callable[..., Any], operation: str) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **options: Any) -> Any:
        watch: LoopWatch = self.watch
        if watch.serving:
            watch.judge(operation, getattr(self, "path", None) or str(args[0]))
        return method(self, *args, **options)

    return call


def _counted(method: Callable[..., Any], operation: str) -> Callable[..., Any]:
    def call(self: Any, path: str, *args: Any) -> Any:
        self.watch.count(operation, 1, path)
        return method(self, path, *args)

    return call
