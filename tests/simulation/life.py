"""One life of the broker: the real `Broker` in the simulated environment, from start to its end.

A life ends in one of these ways, and `End.how` names it:

    stopped    after a signal, in order; `code` is the exit code
    killed     the process is gone between two instructions; what its jobs were doing ends there
    left       the broker has ended its process itself, since the disk did not answer
    refused    the broker does not start, and says why
    failed     it ended by an exception that nobody expected

After each of them the connections are reset, open files are closed and locks are free, as the
system does for a process that has gone. What the disk keeps is for its caller to decide.
"""

from __future__ import annotations

import dataclasses
import functools
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast

from broker.lifecycle.environment import Environment
from broker.network import connection
from broker.runtime import clock as broker_clock
from broker.security.sasl import plain
from broker.server import Broker
from config.load import Loaded, load
from storage.errors import StorageError
from tests.simulation import tls_peer
from tests.simulation.clients import tokens
from tests.simulation.clients.lodgers import salted
from tests.simulation.clock import SimClock
from tests.simulation.disk import SimDisk
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network
from tests.simulation.plan import LISTENERS
from tests.simulation.pool import Baton, BatonExecutor, Killed, threading_of
from tests.simulation.scale import MARK, scaled
from tests.simulation.side_syncs import NO_SYNCS, SimSyncs
from tests.simulation.world import Defect, Stuck, World

DATA: Final = "/data"
WRITE_BUFFER_BYTES: Final = 4 * 1024


class End(NamedTuple):
    """How a life has ended; see the module."""

    how: str
    code: int = 0
    why: str = ""


class Observer(Protocol):
    """Who is told of a life: the judges."""

    def life_serves(self, life: Life) -> None:
        """The broker has started."""
        ...

    def turn(self) -> None:
        """A turn of the loop begins."""
        ...

    def rests(self) -> None:
        """The loop has nothing to do."""
        ...

    def life_is_over(self, life: Life) -> None:
        """The broker has ended, and is buried next."""
        ...


@functools.lru_cache(maxsize=64)
def _loaded(settings: tuple[tuple[str, str], ...]) -> Loaded:
    return load(
        file=None,
        environment={},
        set_values=[f"{name}={value}" for name, value in settings],
        data_dir=DATA,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Tiny(Loaded):
    """A configuration whose `tiny` fields stay so when configs change while the broker runs.

    `scales` are constants of the product that are small (`tests.simulation.scale`).
    """

    tiny: Mapping[str, int] = dataclasses.field(default_factory=dict)
    scales: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # What was made of this one, by the values: each look at them builds a whole configuration.
    made: dict[tuple[tuple[str, str], ...], Loaded] = dataclasses.field(
        default_factory=dict, compare=False, repr=False
    )

    def with_dynamic(self, values: Mapping[str, str]) -> Loaded:
        if not values and not self.dynamic:  # as at most starts
            return self
        place = tuple(values.items())
        found = self.made.get(place)
        if found is None:
            loaded = Loaded.with_dynamic(self, values)
            config = dataclasses.replace(loaded.config, **self.tiny)
            found = self.made[place] = dataclasses.replace(loaded, config=config)
        return found


def loaded_from(settings: Mapping[str, str], tiny: Mapping[str, int]) -> Loaded:
    """Return a configuration; `tiny` holds fields below the limits of their keys, and scales."""
    given = {"barnabas.http.listener": "", "listeners": LISTENERS, **settings}
    if "SSL://" in given["listeners"]:
        given |= tls_peer.settings()
    if tokens.MECHANISM in given.get("sasl.enabled.mechanisms", ""):
        given |= tokens.settings()
    loaded = _loaded(tuple(sorted(given.items())))
    scales = {name: value for name, value in tiny.items() if MARK in name}
    fields = {name: value for name, value in tiny.items() if name not in scales}
    return _Tiny(
        dataclasses.replace(loaded.config, **fields),
        loaded.static,
        loaded.dynamic,
        loaded.warnings,
        loaded.without_effect,
        fields,
        scales,
    )


@functools.cache
def _modules_with_threads() -> list[ModuleType]:
    import broker.maintenance.log_cleaner  # noqa: F401

    names = sorted(
        name
        for name, module in sys.modules.items()
        if name.split(".")[0] in ("broker", "storage")
        and isinstance(getattr(module, "threading", None), ModuleType)
    )
    return [sys.modules[name] for name in names]


@contextmanager
def _nobody_sleeping() -> Iterator[None]:
    """Let a thread that yields the interpreter go on: no other wants it, and it costs time."""
    before = broker_clock.__dict__["time"]
    broker_clock.__dict__["time"] = SimpleNamespace(sleep=lambda _seconds: None)
    try:
        yield
    finally:
        broker_clock.__dict__["time"] = before


@contextmanager
def _small_buffers() -> Iterator[None]:
    """Let answers fill the buffers of connections: a mebibyte is more than a history serves."""
    before = connection.WRITE_HIGH_WATER_BYTES
    connection.WRITE_HIGH_WATER_BYTES = WRITE_BUFFER_BYTES
    try:
        yield
    finally:
        connection.WRITE_HIGH_WATER_BYTES = before


@contextmanager
def _keys_derived_once() -> Iterator[None]:
    """Derive the key of a password once: it takes milliseconds, and is the same each time."""
    before, plain.salted_password = plain.salted_password, salted
    try:
        yield
    finally:
        plain.salted_password = before


class Life:
    """See the module. `run` returns when the life has ended; others act on it meanwhile."""

    def __init__(
        self,
        world: World,
        disk: SimDisk,
        network: Network,
        clock: SimClock,
        loaded: Loaded,
        number: int,
        observer: Observer,
    ) -> None:
        self.number = number
        self.began_ns = world.now_ns
        self.loaded = loaded
        self.is_serving = False
        self.has_served = False
        self.told_to_stop_ns = 0
        self.signal_count = 0
        self.died_between_turns = False  # not in the middle of a step, by a kill
        self.end: End | None = None
        self._own_end: End | None = None  # the process has ended itself
        self.ended = world.waiter()
        self.broker: Broker
        self._world = world
        self._disk = disk
        self._network = network
        self._clock = clock
        self.baton = Baton(world)
        self.loop = SimLoop(world, self._turn, self._rests)
        self.baton.is_alone_until = self.loop.rests_until
        self._observer = observer
        self._end_turn = disk.watch.end_turn
        self._is_over = False

    def run(self) -> End:
        """Run the broker to its end."""
        self._world.note("broker", f"life {self.number} begins")
        self._disk.baton = self.baton
        threads = threading_of(lambda: self.baton, _modules_with_threads())
        scales = self.loaded.scales if isinstance(self.loaded, _Tiny) else {}
        small = _small_buffers()
        with threads, _nobody_sleeping(), _keys_derived_once(), small, scaled(scales):
            end = self._run()
            self._bury()
        self._world.note("broker", f"{end.how} {end.code} {end.why}")
        self.end = end
        self.ended.set(end)
        return end

    def _run(self) -> End:
        """Run; whatever the broker makes of its kill, killed it is."""
        end = self._run_to_its_end()
        return self._own_end or (End("killed") if self.baton.is_dead else end)

    def _run_to_its_end(self) -> End:
        self.broker = Broker(self.loaded, self._environment())
        try:
            return End("stopped", self.loop.run_until_complete(self.broker.run()))
        except Killed:
            return End("killed")
        except Defect as defect:
            trace = "".join(traceback.format_exception(defect.__cause__)[-4:])
            return End("failed", why=f"simulator: {trace}")
        except Stuck as stuck:
            return End("failed", why=str(stuck))
        except (StorageError, OSError) as error:
            return End("refused", why=f"{type(error).__name__}: {error}")
        except Exception as error:
            return End("failed", why=f"{type(error).__name__}: {error}")

    def _bury(self) -> None:
        self._is_over = True
        self._observer.life_is_over(self)
        self.is_serving = False
        self._disk.kill()
        self._network.down()
        self.baton.kill()
        self.loop.bury()
        self._disk.baton = None

    def _environment(self) -> Environment:
        return Environment(
            filesystem=self._disk,
            clock=self._clock,
            random_bytes=self._world.chance(f"random bytes of life {self.number}").randbytes,
            executor=functools.partial(BatonExecutor, self.baton),
            make_syncs=self._make_syncs,
            bind=cast("Any", self._network.listen),
            leave=self._leave,
            keep_from_collector=self._has_started,
        )

    def _make_syncs(self) -> SimSyncs | None:
        chance = self._world.chance(f"syncs of life {self.number}")
        return None if chance.random() < NO_SYNCS else SimSyncs(self, self._disk, chance)

    def _leave(self, code: int) -> NoReturn:
        self._own_end = End("left", code)
        self.baton.die()

    def _has_started(self) -> None:
        self.is_serving = self.has_served = True
        self._disk.serving = True
        self._world.note("broker", "listens")
        self._observer.life_serves(self)

    def _turn(self) -> None:
        self._end_turn()
        if self.is_serving:
            self._observer.turn()

    def _rests(self) -> None:
        if self.is_serving:
            self._observer.rests()

    # -- From outside -------------------------------------------------------------------------

    def receive(self, signal_number: int = signal.SIGTERM) -> None:
        """Send the process a signal."""
        if self._is_over:
            return
        self._world.note("broker", f"receives signal {int(signal_number)}")
        self._disk.serving = False
        self.told_to_stop_ns = self.told_to_stop_ns or self._world.now_ns
        self.signal_count += 1
        self._world.after(0, lambda: None if self._is_over else self.loop.receive(signal_number))

    def kill(self) -> None:
        """End the process: now if it waits, else at its next file call."""
        if self._is_over:
            return
        self.baton.killed_at_ns = self._world.now_ns
        self._world.after(0, self._die)

    def _die(self) -> None:
        if not self._is_over:
            self.died_between_turns = True
            self.baton.die()
