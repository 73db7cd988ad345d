"""Finds file calls on the event loop that may wait for the disk, and other work too long for it.

`storage.files.filesystem.ON_THE_LOOP` declares what the loop's thread may call while a broker
serves. `GuardedFileSystem` is the real file system; it notes every other call in that thread, with
its stack. In-process rigs use it directly. Brokers in their own process are started through
`tests.support.guarded_broker`, which writes each call as a line that begins with `MARK`.
Four things fail the test (`tests/conftest.py`): such a file call, a call of a function in
`LONG_WORK`, whose work grows with the broker's data, a compressed batch of a producer that is
opened there, and a turn of the loop that does more than `storage.files.filesystem.TURN_MAX` allows.

A thread is the loop's if a loop runs in it. Nothing is noted before `serving` is set, nor are a
test's own calls to the storage of its rig: the caller of storage must be the broker.
"""

import asyncio
import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from protocol import recompression, record_walks
from storage.files.filesystem import ON_THE_LOOP, TURN_MAX, Buffer, File, FileSystem
from storage.files.os_filesystem import OsFile, OsFileSystem
from storage.segments.log_file import LogFile

MARK = "FILE CALL ON THE LOOP"
STACK_DEPTH = 14

# Functions that belong in a thread, by the module and name that their callers use.
LONG_WORK = (
    (
        "storage.producers.snapshot_files",
        "encode_snapshot",
    ),  # some µs per producer, and there are many producers
    ("storage.producers.snapshot_files", "encode_history"),
)


class Violation(NamedTuple):
    """One call: the operation by its name in `ON_THE_LOOP`, the file, and the caller's stack."""

    operation: str
    path: str
    stack: str

    def __str__(self) -> str:
        return f"{MARK}: {self.operation}({self.path})\n{self.stack}"


_violations: list[Violation] = []


def note(violation: Violation) -> None:
    """Keep a violation for the running test; `report` may be replaced to write it at once."""
    _violations.append(violation)


report: Callable[[Violation], None] = note


def take_violations() -> list[Violation]:
    """Return the violations noted since the last call."""
    taken = _violations[:]
    _violations.clear()
    return taken


def operations(protocol: type) -> list[str]:
    """Return the operations of a file system protocol, by their names in `ON_THE_LOOP`."""
    return [
        f"{protocol.__name__}.{name}"
        for name, member in vars(protocol).items()
        if callable(member) and not name.startswith("_")
    ]


def _may_wait(protocol: type) -> list[str]:
    return [name.split(".")[1] for name in operations(protocol) if name not in ON_THE_LOOP]


def is_the_brokers(frame: FrameType | None) -> bool:
    """Whether the broker made a call, perhaps through storage; `frame` is its caller's."""
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
    if is_the_brokers(frame):
        _report(operation, path, frame)


def _report(operation: str, path: str, frame: FrameType | None) -> None:
    stack = "".join(traceback.format_list(traceback.extract_stack(frame)[-STACK_DEPTH:]))
    report(Violation(operation, path, stack))


# The loop of each file system whose broker serves; None: it was told outside of a loop.
_serving: dict["GuardedFileSystem", asyncio.AbstractEventLoop | None] = {}


def is_one_serving() -> bool:
    """Whether a broker of this process serves: one that was killed has a closed loop."""
    for filesystem, loop in [*_serving.items()]:
        if loop is not None and loop.is_closed():
            del _serving[filesystem]
    return bool(_serving)


# Other guards that want to hear of such work: (work, amount, path). They know their own loop.
watchers: list[Callable[[str, int, str], None]] = []
_done: dict[str, int] = {}  # work in this turn of the loop that `TURN_MAX` bounds


def _count(work: str, amount: int, path: str) -> None:
    """Count work of the broker on the loop; too much of it in one turn is a violation."""
    loop = asyncio._get_running_loop()
    frame = sys._getframe(2)
    if loop is None or not is_one_serving() or not is_the_brokers(frame):
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
        for watcher in watchers:
            watcher("batches walked", 1, self.path)
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
        if is_one_serving():
            _judge(name, "long work")
        for watcher in watchers:
            watcher(name, 1, "long work")
        return function(*args, **options)

    return call


def _guarded_decompress(codec: int, *args: Any) -> bytes:
    """Only batches that are not compressed may be opened on the loop."""
    if codec:
        if is_one_serving():
            _judge("a compressed batch is opened", "long work")
        for watcher in watchers:
            watcher("a compressed batch is opened", 1, "long work")
    return _decompress(codec, *args)


_decompress = recompression.decompress


def guard_work() -> None:
    """Watch `LONG_WORK` and the work that `TURN_MAX` bounds, until this process ends."""
    if LogFile.scan is _counted_scan:
        return
    LogFile.scan = _counted_scan  # type: ignore[method-assign]
    for opens in (recompression, record_walks):
        opens.decompress = _guarded_decompress  # type: ignore[attr-defined]
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

    def __init__(self) -> None:
        self._serving = False

    @property
    def serving(self) -> bool:
        return self._serving

    @serving.setter
    def serving(self, serving: bool) -> None:
        self._serving = serving
        if serving:
            _serving[self] = asyncio._get_running_loop()
        else:
            _serving.pop(self, None)

    def open(self, path: str, *, create: bool = False, write: bool = True) -> OsFile:
        plain = super().open(path, create=create, write=write)
        file = GuardedFile(path, plain._fd)
        plain._fd = -1  # the descriptor has one owner
        file._filesystem = self
        return file


for _name in _may_wait(File):
    setattr(GuardedFile, _name, _guarded(getattr(OsFile, _name), f"File.{_name}"))
for _name in ("rename", "unlink"):
    setattr(GuardedFileSystem, _name, _counted(getattr(OsFileSystem, _name), f"FileSystem.{_name}"))
for _name in _may_wait(FileSystem):
    if _name != "lock":  # the broker locks before it listens
        setattr(
            GuardedFileSystem, _name, _guarded(getattr(OsFileSystem, _name), f"FileSystem.{_name}")
        )
