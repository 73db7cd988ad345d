"""The nursery: a warm process that forks fresh brokers, and ends with the program that started it.

    program ── a line of JSON to standard input ──> nursery ── fork ──> broker, broker, …
            <─ a line of JSON from standard output ─        <── socket pairs ──

It has one thread and no event loop, since its children must find neither. It serves one command at
a time. While there is none it compiles codecs, copies snapshots that may be restored next, and
removes what has been left.

Nothing may be left behind when the program ends, however it ends. So the nursery ends its children
and removes its directory when standard input ends, when the program's process has gone (a pidfd
tells; a child of the program may hold the pipe open), and on SIGTERM. Brokers die with the nursery.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from broker.testing import warm
from broker.testing.command_refused import CommandRefused, check_names, command_of
from broker.testing.message_line import Message, MessageReader, line_of
from broker.testing.own_directory import OwnDirectory
from broker.testing.removal_queue import RemovalQueue
from broker.testing.ward import USUAL, Ward

RECEIVE_BYTES: Final = 64 * 1024
BROKERS_MAX: Final = 256


def run(directory: str | None, parent: int) -> int:
    """Serve until the program with the process id `parent` ends; return the exit code."""
    warm.load()
    root = OwnDirectory(directory)
    nursery = Nursery(root.path)
    try:
        _serve(nursery, parent)
    finally:
        nursery.end_all()
        root.remove()
    return 0


def _serve(nursery: Nursery, parent: int) -> None:
    """Answer commands until the program ends."""
    poller = select.poll()
    poller.register(0, select.POLLIN)
    told = _watch(parent)
    if told is not None:
        poller.register(told, select.POLLIN)
    if os.getppid() != parent:
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    reader = MessageReader()
    idle: Iterator[None] = warm.compile_codecs()
    has_more = True
    while True:
        ready = [number for number, _ in poller.poll(0 if has_more else None)]
        if told in ready:
            return
        if not ready:
            has_more = next(idle, idle) is not idle or nursery.tidy()
            continue
        has_more = True
        data = os.read(0, RECEIVE_BYTES)
        if not data:
            return
        for message in reader.feed(data):
            _write(line_of(nursery.answer(message)))


def _watch(parent: int) -> int | None:
    """Return a descriptor that is readable once `parent` has ended; None if there is none here."""
    try:
        return os.pidfd_open(parent)
    except OSError:
        return None


def _leave(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


class Nursery:
    """The brokers of one program. `root` holds a directory for each."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._wards: dict[int, Ward] = {}
        self._removals = RemovalQueue(os.path.join(root, "removed"))
        self._next = 0
        self._commands: dict[str, Callable[[Message], Message]] = {
            "start": self._start,
            "end": self._end,
            "kill": lambda message: self._ward(message).kill(),
            "stop": lambda message: self._ward(message).stop(),
            "restart": lambda message: self._ward(message).restart(),
            "snapshot": lambda message: self._ward(message).snapshot(str(message.get("name"))),
            "restore": lambda message: self._ward(message).restore(str(message.get("name"))),
            "cut_power": lambda message: self._ward(message).cut_power(),
            "look": lambda message: self._ward(message).look(),
            "ask": lambda message: self._ward(message).child.ask(message["command"]),
        }

    def answer(self, message: Message) -> Message:
        """Obey one command; the answer has its number, if it has one."""
        name = str(message.pop("do", ""))
        number = {"id": message.pop("id")} if "id" in message else {}
        try:
            return {**command_of(name, self._commands)(message), **number}
        except (CommandRefused, OSError) as error:
            return {"refused": str(error), **number}

    def tidy(self) -> bool:
        """Do a little of what can wait; return whether there is more of it."""
        return any(ward.tidy() for ward in self._wards.values()) or self._removals.step()

    def end_all(self) -> None:
        """End all brokers."""
        for ward in self._wards.values():
            ward.end()
        self._wards.clear()

    def _start(self, message: Message) -> Message:
        check_names("start", message, ("settings",))
        if len(self._wards) >= BROKERS_MAX:
            raise CommandRefused(f"{BROKERS_MAX} brokers are there, the most: end some")
        self._next += 1
        home = os.path.join(self._root, str(self._next))
        os.mkdir(home, 0o700)
        log_path = os.path.join(home, "broker.log")
        settings = {**USUAL, **message.get("settings", {})}
        ward = Ward(os.path.join(home, "data"), settings, log_path, removals=self._removals)
        try:
            where = ward.start()
        except BaseException:
            ward.end()
            shutil.rmtree(home, ignore_errors=True)
            raise
        self._wards[self._next] = ward
        return {**where, "broker": self._next, "directory": ward.directory, "log": log_path}

    def _end(self, message: Message) -> Message:
        ward = self._ward(message)
        ward.end()
        del self._wards[message["broker"]]
        home = os.path.dirname(ward.directory)
        try:
            self._removals.take(home)
        except OSError:
            shutil.rmtree(home, ignore_errors=True)
        return {}

    def _ward(self, message: Message) -> Ward:
        ward = self._wards.get(message.get("broker", 0))
        if ward is None:
            raise CommandRefused(f"there is no broker {message.get('broker')}")
        return ward
