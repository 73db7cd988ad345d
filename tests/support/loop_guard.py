"""Finds file calls that may wait for the disk where the event loop waits with them.

`storage.files.filesystem.ON_THE_LOOP` declares what the loop's thread may call while a broker
serves. `GuardedFileSystem` is the real file system that notes every other call made there, with its
stack. In-process rigs use it by themselves, and brokers of their own process are started through
`tests.support.guarded_broker`, which writes each as a line that begins with `MARK`.
`tests/conftest.py` fails the test in which one was made. So do calls of `LONG_WORK`: functions
whose work grows with what the broker holds. So does a turn of the loop that does more than
`storage.files.filesystem.TURN_MAX` of something.

A thread is the loop's when a loop runs in it. Nothing is noted before `serving` is set, nor what a
test itself does with the storage of its rig: the caller of storage must be the broker.
"""

import asyncio
import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from storage.files.filesystem import ON_THE_LOOP, TURN_MAX, Buffer, File, FileSystem
from storage.files.os_filesystem import OsFile, OsFileSystem
from storage.segments.log_file import LogFile

MARK = "FILE CALL ON THE LOOP"
STACK_DEPTH = 14

# Functions that belong in a thread, as their callers know them: module and name.
LONG_WORK = (
    (
        "storage.producers.snapshot_files",
        "encode_snapshot",
    ),  # some µs a producer, of which there are many
    ("storage.producers.snapshot_files", "encode_history"),
)


class Violation(NamedTuple):
    """One call: the operation as `ON_THE_LOOP` would name it, the file, and who called."""

    operation: str
    path: str
    stack: str

    def __str__(self) -> str:
        return f"{MARK}: {self.operation}({self.path})\n{self.stack}"


_violations: list[Violation] = []


def note(violation: Violation) -> None:
    """Keep a violation for the test that runs; `report` may be replaced to write it at once."""
    _violations.append(violation)


report: Callable[[Violation], None] = note


def take_violations() -> list[Violation]:
    """Return what was noted since the last call."""
    taken = _violations[:]
    _violations.clear()
    return taken


def operations(protocol: type) -> list[str]:
    """The operations of a protocol of the seam, as `ON_THE_LOOP` names them."""
    return [
        f"{protocol.__name__}.{name}"
        for name, member in vars(protocol).items()
        if callable(member) and not name.startswith("_")
    ]


def _may_wait(protocol: type) -> list[str]:
    return [name.split(".")[1] for name in operations(protocol) if name not in ON_THE_LOOP]


def _is_the_brokers(frame: FrameType | None) -> bool:
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        package = module.partition(".")[0]
        if package not in ("storage", "protocol") and module != __name__:
            return package in ("broker", "__main__")
        frame = frame.f_back
    return False


def _judge(operation: str, path: str) -> None:
    if asyncio._get_running_loop() is None:
        return
    frame = sys._getframe(2)
    if _is_the_brokers(frame):
        _report(operation, path, frame)


def _report(operation: str, path: str, frame: FrameType | None) -> None:
    stack = "".join(traceback.format_list(traceback.extract_stack(frame)[-STACK_DEPTH:]))
    report(Violation(operation, path, stack))


_done: dict[str, int] = {}  # in this turn of the loop, of what `TURN_MAX` bounds


def _count(work: str, amount: int, path: str) -> None:
    """Count what the broker does on the loop; a turn that does too much of it is a violation."""
    loop = asyncio._get_running_loop()
    frame = sys._getframe(2)
    if loop is None or not GuardedFileSystem.serving_count or not _is_the_brokers(frame):
        return
    if not _done:
        loop.call_soon(_done.clear)
    before = _done.get(work, 0)
    _done[work] = before + amount
    if before <= TURN_MAX[work] < before + amount:
        _report(f"more than {TURN_MAX[work]} {work} a turn", path, frame)


def _counted(method: Callable[..., Any], operation: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, path: str, *args: Any) -> Any:
        _count(operation, 1, path)
        return method(self, path, *args)

    return call


def _counted_scan(self: LogFile, *args: Any, **options: Any) -> Iterator[Any]:
    for found in _scan(self, *args, **options):
        _count("batches walked", 1, self.path)
        yield found


_scan = LogFile.scan


def _guarded(method: Callable[..., Any], operation: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if self.serving:
            _judge(operation, self.path if isinstance(self, OsFile) else str(args[0]))
        return method(self, *args, **options)

    return call


def _guarded_work(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if GuardedFileSystem.serving_count:
            _judge(name, "long work")
        return function(*args, **options)

    return call


def guard_work() -> None:
    """Watch `LONG_WORK` and what `TURN_MAX` bounds in this process, for good."""
    LogFile.scan = _counted_scan  # type: ignore[method-assign]
    for module_name, name in LONG_WORK:
        module = importlib.import_module(module_name)
        setattr(module, name, _guarded_work(getattr(module, name), f"{module_name}.{name}"))


class GuardedFile(OsFile):
    """An open file of a guarded file system."""

    __slots__ = ("_filesystem",)

    @property
    def serving(self) -> bool:
        return self._filesystem.serving

    def pread_nowait(self, size: int, position: int) -> Buffer | None:
        _count("bytes read", size, self.path)
        return OsFile.pread_nowait(self, size, position)


class GuardedFileSystem(OsFileSystem):
    """The operating system's files, watched once `serving` is set."""

    serving_count = 0  # of all

    def __init__(self) -> None:
        self._serving = False

    @property
    def serving(self) -> bool:
        return self._serving

    @serving.setter
    def serving(self, serving: bool) -> None:
        GuardedFileSystem.serving_count += serving - self._serving
        self._serving = serving

    def open(self, path: str, *, create: bool = False, write: bool = True) -> OsFile:
        plain = super().open(path, create=create, write=write)
        file = GuardedFile(path, plain._fd)
        plain._fd = -1  # one owner
        file._filesystem = self
        return file


for _name in _may_wait(File):
    setattr(GuardedFile, _name, _guarded(getattr(OsFile, _name), f"File.{_name}"))
for _name in ("rename", "unlink"):
    setattr(GuardedFileSystem, _name, _counted(getattr(OsFileSystem, _name), f"FileSystem.{_name}"))
for _name in _may_wait(FileSystem):
    if _name != "lock":  # before anything listens
        setattr(
            GuardedFileSystem, _name, _guarded(getattr(OsFileSystem, _name), f"FileSystem.{_name}")
        )
