"""What belongs to one history: the machine, the broker that lives on it, and what clients saw.

Clients, faults and judges get it. `life` is the broker's present life, None while it is down.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol.wire import ZERO_UUID
from storage.errors import StorageError
from storage.files import filenames

if TYPE_CHECKING:
    from broker.server import Broker
    from config.load import Loaded
    from tests.simulation.bit_flip import Flip
    from tests.simulation.clock import SimClock
    from tests.simulation.disk import SimDisk
    from tests.simulation.life import Life
    from tests.simulation.network import Network
    from tests.simulation.old_logs import OldLog
    from tests.simulation.plan import Plan
    from tests.simulation.record import Record
    from tests.simulation.world import Waiter, World

KAFKA_PORT = 9092
MSGPACK_PORT = 9094
LOGIN_PORT = 9093  # in histories with logins
MSGPACK_LOGIN_PORT = 9096  # the same
TLS_LOGIN_PORT = 9098  # the same
TLS_PORT = 9097  # in histories with TLS


@dataclass(slots=True)
class Context:
    """See the module."""

    plan: Plan
    world: World
    disk: SimDisk
    network: Network
    clock: SimClock
    record: Record
    loaded: Loaded
    lives: list[Life] = field(default_factory=list)
    life: Life | None = None
    is_finale: bool = False
    # Kinds of faults that have happened so far, in the words of the judge of quiet.
    injected: set[str] = field(default_factory=set)
    flips: list[Flip] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)  # directories of partitions with flipped bits
    has_lost_files: bool = False  # so that brokers know of producers what the logs tell
    spoilt: dict[str, bytes] = field(default_factory=dict)  # files that faults changed, by path
    ends_ns: list[int] = field(default_factory=list)  # of lives
    old_logs: list[OldLog] = field(default_factory=list)
    ruin: str = ""  # why the next start must be refused
    power_cuts_ns: list[int] = field(default_factory=list)
    # Jumps of the clock after which brokers forget producers: producer.id.expiration.ms and more.
    clock_leaps: int = 0
    # What the clients know of topics, by name; the clients' modules say what is in it.
    topics: Any = None
    wishes: list[Waiter] = field(default_factory=list)  # that faults await: what a story wishes

    def wish(self, what: str) -> None:
        """Let a fault happen now that waits for that; "" lets it wait no longer."""
        if self.wishes:
            self.wishes.pop().set(what)

    def flips_in(self, topic: str, partition: int, topic_id: bytes) -> list[Flip]:
        """Return the bits that have flipped in a partition of the topic with that id."""
        name = filenames.partition_directory(topic, partition)
        ids = (topic_id, ZERO_UUID)  # no id: its file was lost
        return [one for one in self.flips if one.partition == name and one.topic_id in ids]

    def start_of(self, topic: str, partition: int) -> int | None:
        """Return where a log begins now, or will soon; None if no broker serves it."""
        broker = self.broker
        if broker is None:
            return None
        try:
            served = broker._assembly.services.partitions.get(topic, partition)
        except StorageError:
            return None
        return served.log.next_start_offset

    @property
    def broker(self) -> Broker | None:
        """The broker that serves now."""
        life = self.life
        return life.broker if life is not None and life.is_serving else None
