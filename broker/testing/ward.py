"""One broker for tests over its lives: its directory, its settings, and the child that runs it.

The first life takes free ports; every further one listens on the same, so that clients find it
again. The parent of the children is the process that has the `Ward`.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from broker.testing.command_refused import CommandRefused
from broker.testing.directory_copy import copying, finish
from broker.testing.hatched import ANSWER_SECONDS, Hatched
from broker.testing.hatching import hatch
from broker.testing.kept_directories import KeptDirectories
from broker.testing.message_line import Message
from broker.testing.removal_queue import RemovalQueue
from config.errors import ConfigError
from config.load import Loaded, load

# A fetch of a session names only what is new to it: rules for topics would not meet the rest.
NO_SESSIONS: Final = {"max.incremental.fetch.session.cache.slots": "0"}
NO_PORTS: Final = {"listeners": "PLAINTEXT://127.0.0.1:0", "barnabas.http.listener": ""}
# What a broker for tests has unless its settings say otherwise.
USUAL: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,MSGPACK://127.0.0.1:0",
    "barnabas.http.listener": "127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "0",
    **NO_SESSIONS,
}
LAST_LOOK_SECONDS: Final = 5.0


class Ward:
    """A broker that may be killed and started again. Its methods raise CommandRefused."""

    def __init__(
        self,
        directory: str,
        settings: Mapping[str, str],
        log_path: str | None = None,
        read: Callable[[Mapping[str, str]], Loaded] | None = None,
        beside: str | None = None,
        removals: RemovalQueue | None = None,
    ) -> None:
        """`read` returns the configuration with given settings; without it they are all.

        `beside` is this broker's own directory for snapshots and for files that lose their names;
        `removals` is where others' directories go, too.
        """
        self.directory = directory
        self._beside = beside or os.path.dirname(directory)
        self._removals = removals or RemovalQueue(os.path.join(self._beside, "removed"))
        self._snapshots = KeptDirectories(os.path.join(self._beside, "snapshots"), self._removals)
        self.log_path = log_path
        self._settings = dict(settings)
        self._owns_settings = read is None
        self._read = read or self._read_settings
        self._child: Hatched | None = None
        self.where: Message = {}
        self._is_down = False  # as a command wanted
        self._state: Message = {}  # rules and requests, as the last life has left them

    @property
    def child(self) -> Hatched:
        """The running child."""
        if self._child is None or self._child.exit_code is not None:
            raise CommandRefused("the broker does not run: restart it first")
        return self._child

    @property
    def has_failed(self) -> bool:
        """Whether the child has ended, and no command has told it to."""
        return self._child is not None and not self._is_down and not self.is_running

    @property
    def exit_code(self) -> int:
        """The code with which the last child has ended."""
        code = self._child.exit_code if self._child is not None else None
        return 0 if code is None else code

    @property
    def is_running(self) -> bool:
        """Whether a child runs."""
        return self._child is not None and self._child.exit_code is None

    def start(self) -> Message:
        """Begin a life; return where the broker listens."""
        if self.is_running:
            raise CommandRefused("the broker runs already: stop or kill it first")
        from broker.testing.controlled_broker import run_controlled

        stash = os.path.join(self._beside, "unsynced")
        shutil.rmtree(stash, ignore_errors=True)  # what the last life has left there is final
        run = partial(run_controlled, self._loaded(), self._state, stash)
        self._child = hatch(run, self.log_path)
        self.where = self._child.ready()
        self._is_down = False
        self._keep_ports()
        return self.where

    def kill(self) -> Message:
        """End the life as `kill -9` does, also of a broker that is stuck: then counts are lost."""
        child = self.child
        with suppress(CommandRefused):
            self.look(LAST_LOOK_SECONDS)
        self._is_down = True
        child.kill()
        return {}

    def stop(self) -> Message:
        """Stop the broker in order; one that is stuck is killed after a while."""
        child = self.child
        with suppress(CommandRefused):
            self.look(LAST_LOOK_SECONDS)
        self._is_down = True
        return {"exit_code": child.stop()}

    def end_in_order(self) -> int:
        """Stop the broker, if it runs, and have no other life; return its exit code."""
        return self.child.stop() if self.is_running else 0

    def look(self, seconds: float = ANSWER_SECONDS) -> Message:
        """Return the rules with their counts, and what clients have asked, also if it has ended."""
        if self.is_running:
            self._state = self.child.ask({"do": "state"}, seconds)
        return self._state

    def restart(self) -> Message:
        """Stop the broker in order, if it runs, and begin another life."""
        if self.is_running:
            self.stop()
        return self.start()

    def snapshot(self, name: str) -> Message:
        """Copy the directory as it is now; the broker stands still meanwhile."""
        place = self._snapshots.new_place(name)
        try:
            self._copy(place)
        except BaseException:
            self._snapshots.drop(name)
            raise
        self._snapshots.prepare(name)
        return {}

    def _copy(self, place: str) -> None:
        if not self.is_running:
            finish(copying(self.directory, place))
            return
        self._copy_running(place)
        self._make_clean(place)

    def _copy_running(self, place: str) -> None:
        self.child.ask({"do": "settle"})
        self.child.signal(signal.SIGSTOP)
        try:
            finish(copying(self.directory, place))
        finally:
            self.child.signal(signal.SIGCONT)

    def _make_clean(self, place: str) -> None:
        """Start and stop another broker on a copy: a restore need not recover it each time."""
        if not self._owns_settings:
            return
        log_path = os.path.join(os.path.dirname(place), "log")
        other = Ward(place, {**self._settings, **NO_PORTS}, log_path)
        try:
            other.start()
            other.stop()
        except CommandRefused:  # by settings for other ports: then each restore recovers
            return
        finally:
            other.end()

    def restore(self, name: str) -> Message:
        """End the life, and begin another one on the copy of a snapshot."""
        self._snapshots.check(name)
        if self.is_running:
            self.kill()
        self._snapshots.put(name, self.directory)
        return self.start()

    def tidy(self) -> bool:
        """Do a little of what can wait; return whether there is more of it."""
        return self._snapshots.step() or self._removals.step()

    def cut_power(self) -> Message:
        """End the life, and take back what the disk was not told to keep."""
        child = self.child
        self.look()
        self._is_down = True
        answer = child.ask({"do": "cut_power"})
        child.kill()  # it does that itself, sooner or later
        return answer

    def end(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._child.kill()

    def _read_settings(self, settings: Mapping[str, str]) -> Loaded:
        return load(
            set_values=[f"{name}={value}" for name, value in settings.items()],
            data_dir=self.directory,
        )

    def _loaded(self) -> Loaded:
        try:
            return self._read(self._settings)
        except ConfigError as error:
            raise CommandRefused(str(error)) from None

    def _keep_ports(self) -> None:
        """Listen on the same ports in the next life."""
        listeners = self.where["listeners"].values()
        self._settings["listeners"] = ",".join(one["text"] for one in listeners)
        if self.where["http"] is not None:
            host = self.where["http"]["host"]
            self._settings["barnabas.http.listener"] = f"{host}:{self.where['http']['port']}"
