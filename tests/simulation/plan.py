"""The plan of one history: plain data that the seed writes and that shrinking takes apart.

A plan says how the broker is configured, how fast and how well the machine works (`Shape`), which
clients come, and which faults. It does not say what each client does: a client draws that from the
stream of its own name, so that the rest of a history stays as it was when one client is taken out.

Sizes are small, so that logs roll, files are evicted, budgets fill and clients wait all the time.
"""

from __future__ import annotations

import dataclasses
import json
import random
from dataclasses import dataclass, field
from typing import Any, Final, Self

from config.authorizer_keys import STANDARD_AUTHORIZER
from tests.simulation import scale
from tests.simulation.link import NetworkShape

US: Final = 1_000
MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """The machine: times in nanoseconds, chances as shares of one."""

    reading_ns: int = 1 * US  # what reading a clock costs
    drift: float = 1.0  # of the wall clock
    call_ns: int = 5 * US
    fsync_ns: int = 1 * MS
    switch_chance: float = 0.3  # that a file call lets other jobs run
    cold_chance: float = 0.05  # that a page is not in memory
    network: NetworkShape = field(default_factory=NetworkShape)


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """One client: it ends by itself after `steps`. `begins_ms`: when it comes."""

    name: str
    kind: str
    steps: int
    begins_ms: int = 0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault, `at_ms` after the beginning; its other draws come from the stream of its name."""

    name: str
    kind: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One history."""

    seed: str
    settings: dict[str, str] = field(default_factory=dict)
    tiny: dict[str, int] = field(default_factory=dict)  # config fields below limits; `scale`
    shape: Shape = field(default_factory=Shape)
    clients: tuple[ClientPlan, ...] = ()
    faults: tuple[FaultPlan, ...] = ()

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        shape: dict[str, Any] = fields["shape"]
        shape["network"] = NetworkShape(**shape["network"])
        fields["shape"] = Shape(**shape)
        fields["clients"] = tuple(ClientPlan(**client) for client in fields["clients"])
        fields["faults"] = tuple(FaultPlan(**fault) for fault in fields["faults"])
        return cls(**fields)


# How often each kind of client comes, as weights; a history has at least one of ALWAYS.
ALWAYS: Final = ("producer", "idempotent", "fetcher")
CLIENTS: Final = {
    "producer": 4,
    "bad producer": 1,
    "msgpack producer": 2,
    "idempotent": 5,
    "fetcher": 5,
    "msgpack fetcher": 2,
    "leaver": 2,
    "lookup": 3,
    "trimmer": 1,
    "classic member": 3,
    "consumer member": 3,
    "mixed member": 2,
    "committer": 2,
    "group admin": 1,
    "rude members": 1,
    "topic admin": 2,
    "config admin": 2,
    "deleter": 2,
    "describer": 1,
    "stranger": 1,
    "fumbler": 1,
    "hostile": 2,
}
FAULTS: Final = {
    "kill": 5,
    "recovery kill": 2,
    "power cut": 5,
    "recovery cut": 2,
    "stop": 4,
    "disk error": 5,
    "disk full": 2,
    "few descriptors": 2,
    "slow disk": 2,
    "stuck disk": 2,
    "flip": 2,
    "lost files": 2,
    "left files": 3,
    "bad start": 2,
    "emptied marker": 1,
    "left offsets": 1,
    "old log": 1,
    "accept error": 1,
    "clock jump": 2,
    "network cut": 2,
}
WITH_SEQUEL: Final = frozenset({"disk error", "flip"})
SEQUELS: Final = ("kill", "kill", "power cut")
SEQUEL_CHANCE: Final = 0.4
CALM_CHANCE: Final = 0.15  # histories without any fault: whatever objects then is no excuse's
CLIENTS_MAX: Final = 9
PARTING_CHANCE: Final = 0.1  # of a client that closes its side behind what it has sent
CAST_MAX: Final = 4  # kinds of clients beside ALWAYS, and of faults, in one history
FAULTS_MAX: Final = 4
STEPS_MAX: Final = 45
FRAME_BYTES_MAX: Final = 20_000  # above what clients send that mean well
TIGHT_CHANCE: Final = 0.15  # that a few requests fill the budget of requests ...
TIGHT_BYTES: Final = 5_000  # ... which clients that mean well do not send in one
SLOW_FSYNC_NS: Final = 100 * MS
TRANSACTIONS_CHANCE: Final = 0.3
TRANSACTION_STEPS_MAX: Final = 30
OTHERS_MAX: Final = 4  # clients beside those that run transactions
# Clients in histories with transactions, and in which share of these each comes.
BESIDE_TRANSACTIONS: Final = {
    "member transactor": 0.3,
    "marker": 0.25,
    "trimmer": 0.25,
    "deleter": 0.25,
}
# Faults in histories with transactions.
END_FAULTS: Final = (
    "kill at an end",
    "power cut at an end",
    "power cut at an end",
    "power cut in a transaction",
    "slow log at an end",
    "disk error at an end",
)
LATE_TRANSACTIONS: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
LATE_IDS: Final = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRY: Final = "transactional.id.expiration.ms"
EXPIRY_CHANCE: Final = 0.25
PER_ADDRESS: Final = "max.connections.per.ip.overrides"
# 50 partitions cost 20 s of virtual time at a start.
NEVER_DEFAULT: Final = frozenset(
    {"offsets.topic.num.partitions", "transaction.state.log.num.partitions"}
)
RIGHTS_CHANCE: Final = 0.1
# Those that ask anything at all would change ACLs, or use topics whose rights change.
NOT_BESIDE_CHANGERS: Final = frozenset({"stranger", "describer", "fumbler", "rude members"})
LISTENERS: Final = "PLAINTEXT://127.0.0.1:9092,MSGPACK://127.0.0.1:9094"
LOGIN_LISTENERS: Final = (
    "SASL_PLAINTEXT://127.0.0.1:9093,MSGPACK_SASL://127.0.0.1:9096,SASL_SSL://127.0.0.1:9098"
)
LOGIN_MECHANISMS: Final = (
    "SCRAM-SHA-256",
    "SCRAM-SHA-512,PLAIN",
    "SCRAM-SHA-256,OAUTHBEARER",
    "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
)
TLS_LISTENER: Final = "SSL://127.0.0.1:9097"
TLS_CHANCE: Final = 0.1
LOGINS_CHANCE: Final = 0.1
QUOTAS_CHANCE: Final = 0.1
SESSIONS_CHANCE: Final = 0.25
STORIES_CHANCE: Final = 0.5
# Clients that tell a story (`tests.simulation.clients.telling`), each in its turn.
STORIES: Final = (
    "lagging member",
    "hasty leader",
    "replaced member",
    "returning member",
    "remaining member",
    "slow revoker",
    "busy revoker",
    "patient member",
    "topic made anew",
    "topic that goes",
    "timeless producer",
    "slow segment",
    "prudent producer",
    "eager trimmer",
    "many producers",
    "curious reader",
    "bold operator",
    "impatient crowd",
    "changing client",
    "full house",
)
# Of these, one is told in some histories.
MORE_STORIES: Final = (
    "topic taken again",
    "careless writer",
    "hasty compactor",
    "late opening",
    "absent partition",
    "parting pusher",
    "changing transactor",
)
MORE_STORIES_CHANCE: Final = 0.2
WISH: Final = "wish"  # the fault that a story waits for
WISHING: Final = frozenset(
    {
        "topic taken again",
        "careless writer",
        "hasty compactor",
        "absent partition",
        "prudent producer",
    }
)
STORIES_MAX: Final = 3
STORIES_MS: Final = 1_000  # in which stories begin
PATIENT: Final = "patient member"  # of a group whose offsets expire at once
SPAN_MS: Final = 5_000  # in which clients come and faults happen


def write_plan(seed: str) -> Plan:
    """Return the plan that belongs to a seed."""
    chance = random.Random(f"{seed}/plan")
    settings, tiny, shape = _settings(chance), _tiny(chance), _shape(chance)
    tiny |= scale.drawn(random.Random(f"{seed}/turns"), scale.TURNS)
    if random.Random(f"{seed}/budget").random() < TIGHT_CHANCE:
        settings["socket.request.max.bytes"] = str(TIGHT_BYTES)
        settings["queued.max.request.bytes"] = str(TIGHT_BYTES)
    if shape.fsync_ns >= SLOW_FSYNC_NS:  # a stop syncs hundreds of files
        settings["barnabas.shutdown.deadline.ms"] = "300000"
    clients = _clients(chance)
    parting = random.Random(f"{seed}/parting")
    if parting.random() < PARTING_CHANCE:
        plan = ClientPlan("parting producer", "parting producer", parting.randint(2, 6))
        clients += (plan,)
    faults = _faults(chance)
    faults += _sequels(random.Random(f"{seed}/sequels"), faults)
    transactions = random.Random(f"{seed}/transactions")
    if transactions.random() < TRANSACTIONS_CHANCE:
        clients = _with_transactions(transactions, clients)
        settings[LATE_TRANSACTIONS] = str(transactions.choice((200, 1_000, 3_000)))
        if transactions.random() < EXPIRY_CHANCE:
            settings[EXPIRY] = str(transactions.choice((700, 2_000)))
            settings[LATE_IDS] = str(transactions.choice((200, 1_000)))
        for number in range(transactions.choice((0, 1, 2, 3)) if faults else 0):
            kind = transactions.choice(END_FAULTS)
            faults += (FaultPlan(f"{kind} {number}", kind, transactions.randrange(SPAN_MS)),)
    rights = random.Random(f"{seed}/rights")
    if rights.random() < RIGHTS_CHANCE:
        clients = _with_changers(rights, clients, "rights changer", (3, 12))
        settings["authorizer.class.name"] = STANDARD_AUTHORIZER
        settings["allow.everyone.if.no.acl.found"] = "true"
    logins = random.Random(f"{seed}/logins")
    if logins.random() < LOGINS_CHANCE:
        clients = _with_changers(logins, clients, "login changer", (2, 6))
        settings["listeners"] = f"{LISTENERS},{LOGIN_LISTENERS}"
        settings["sasl.enabled.mechanisms"] = logins.choice(LOGIN_MECHANISMS)
        settings["barnabas.sasl.plain.users"] = "scram"
        settings["connections.max.reauth.ms"] = str(logins.choice((0, 200, 2_000)))
    if random.Random(f"{seed}/tls").random() < TLS_CHANCE:
        settings["listeners"] = f"{settings.get('listeners', LISTENERS)},{TLS_LISTENER}"
    quotas = random.Random(f"{seed}/quotas")
    if quotas.random() < QUOTAS_CHANCE:
        clients = _with_changers(quotas, clients, "quota changer", (2, 6))
    sessions = random.Random(f"{seed}/sessions")
    if sessions.random() < SESSIONS_CHANCE:
        steps = sessions.randint(10, STEPS_MAX)
        clients += (ClientPlan("session fetcher", "session fetcher", steps),)
    clients += _stories(random.Random(f"{seed}/stories"), settings, tiny)
    clients += _one_more_story(random.Random(f"{seed}/more stories"))
    faults += tuple(
        FaultPlan(f"{WISH} of {client.name}", WISH, 0)
        for client in clients
        if client.kind in WISHING
    )
    return Plan(
        seed=seed,
        settings=settings,
        tiny=tiny,
        shape=shape,
        clients=clients,
        faults=faults,
    )


def _drawn(chance: random.Random, weights: dict[str, int], count: int) -> list[str]:
    """Draw `count` times from few kinds: first which these are, then how often each comes.

    Kinds that meet often find more than all kinds that meet seldom (A. Groce et al., "Swarm
    Testing", 2012).
    """
    cast = {
        kind: chance.choice((1, 1, 4))
        for kind in chance.choices(
            list(weights), list(weights.values()), k=chance.randint(1, CAST_MAX)
        )
    }
    return chance.choices(list(cast), list(cast.values()), k=count)


def _clients(chance: random.Random) -> tuple[ClientPlan, ...]:
    kinds = list(ALWAYS)
    kinds += _drawn(chance, CLIENTS, chance.randint(1, CLIENTS_MAX - len(kinds)))
    return tuple(
        ClientPlan(
            name=f"{kind} {number}",
            kind=kind,
            steps=chance.randint(5, STEPS_MAX),
            begins_ms=0 if chance.random() < 0.6 else chance.randrange(SPAN_MS),
        )
        for number, kind in enumerate(kinds, start=1)
    )


def _with_transactions(
    chance: random.Random, clients: tuple[ClientPlan, ...]
) -> tuple[ClientPlan, ...]:
    """Return the first of the clients, and some that run transactions, or meddle with them."""
    kinds = ["transactor"] * chance.randint(1, 3) + ["rival"] * chance.choice((0, 0, 2, 3))
    kinds += [kind for kind, share in BESIDE_TRANSACTIONS.items() if chance.random() < share]
    return clients[:OTHERS_MAX] + tuple(
        ClientPlan(
            name=f"{kind} {number}",
            kind=kind,
            steps=chance.randint(5, TRANSACTION_STEPS_MAX),
            begins_ms=0 if chance.random() < 0.6 else chance.randrange(SPAN_MS),
        )
        for number, kind in enumerate(kinds, start=OTHERS_MAX + 1)
    )


def _with_changers(
    chance: random.Random, clients: tuple[ClientPlan, ...], kind: str, steps: tuple[int, int]
) -> tuple[ClientPlan, ...]:
    """Return those clients that ask for what they know, and one or two of another kind."""
    kept = tuple(one for one in clients if one.kind not in NOT_BESIDE_CHANGERS)
    return kept + tuple(
        ClientPlan(f"{kind} {number}", kind, chance.randint(*steps))
        for number in range(1, chance.randint(1, 2) + 1)
    )


def _stories(
    chance: random.Random, settings: dict[str, str], tiny: dict[str, int]
) -> tuple[ClientPlan, ...]:
    """Return clients of different kinds, which tell their stories once or twice, in some plans."""
    if chance.random() >= STORIES_CHANCE:
        return ()
    kinds = chance.sample(STORIES, chance.randint(1, STORIES_MAX))
    if PATIENT in kinds:
        tiny["offsets_retention_minutes"] = 0
        settings["offsets.retention.check.interval.ms"] = "1000"
    return tuple(
        ClientPlan(kind, kind, chance.choice((1, 1, 2)), chance.randrange(STORIES_MS))
        for kind in kinds
    )


def _one_more_story(chance: random.Random) -> tuple[ClientPlan, ...]:
    if chance.random() >= MORE_STORIES_CHANCE:
        return ()
    kind = chance.choice(MORE_STORIES)
    return (ClientPlan(kind, kind, 1, chance.randrange(STORIES_MS)),)


def _faults(chance: random.Random) -> tuple[FaultPlan, ...]:
    if chance.random() < CALM_CHANCE:
        return ()
    kinds = _drawn(chance, FAULTS, chance.randint(1, FAULTS_MAX))
    return tuple(
        FaultPlan(f"{kind} {number}", kind, chance.randrange(SPAN_MS))
        for number, kind in enumerate(kinds, start=1)
    )


def _sequels(chance: random.Random, faults: tuple[FaultPlan, ...]) -> tuple[FaultPlan, ...]:
    """Return unclean ends soon after faults that show at the next start."""
    return tuple(
        FaultPlan(f"sequel {number}", chance.choice(SEQUELS), fault.at_ms + chance.randrange(1_500))
        for number, fault in enumerate(faults, start=1)
        if fault.kind in WITH_SEQUEL and chance.random() < SEQUEL_CHANCE
    )


def _shape(chance: random.Random) -> Shape:
    return Shape(
        reading_ns=chance.choice((200, 1 * US, 5 * US, 50 * US)),
        drift=chance.choice((1.0, 1.0, 0.9, 1.2)),
        call_ns=chance.choice((1 * US, 10 * US, 200 * US)),
        fsync_ns=chance.choice((50 * US, 1 * MS, 10 * MS, 150 * MS)),
        switch_chance=chance.choice((0.1, 0.3, 1.0)),
        cold_chance=chance.choice((0.0, 0.05, 0.5)),
        network=NetworkShape(
            latency_max_us=chance.choice((20, 400, 10_000)),
            whole_chance=chance.choice((1.0, 0.8, 0.3)),
            crumbs_chance=chance.choice((0.0, 0.1)),
            stall_chance=chance.choice((0.0, 0.002, 0.02)),
            stall_ms=chance.choice((50, 2_000)),
            window_bytes=chance.choice((700, 8 * 1024, 64 * 1024, 64 * 1024)),
        ),
    )


def _settings(chance: random.Random) -> dict[str, str]:
    """Broker keys. Most are left at their defaults in some histories."""
    choices: dict[str, tuple[object, ...]] = {
        "num.network.threads": (1, 2, 3),
        "num.io.threads": (1, 2, 4),
        "num.partitions": (1, 2, 3),
        "node.id": (1, 1),
        "barnabas.cluster.id": ("", "simulated"),
        "num.recovery.threads.per.data.dir": (1, 2),
        "queued.max.requests": (1, 2, 5, 20, 500),
        "barnabas.requests.per.connection.max": (1, 2, 5, 50),
        "barnabas.open.files.max": (8, 20, 1000),
        "barnabas.flush.stall.ms": (1, 20, 100),
        "barnabas.recovery.point.interval.ms": (100, 300, 1000),
        "barnabas.frame.deadline.ms": (500, 5_000, 30_000),
        "barnabas.validate.records": ("false", "true"),
        "connections.max.idle.ms": (3_000, 60_000, 600_000),
        "max.connections": (6, 12, 1000),
        "log.cleaner.backoff.ms": (300, 2_000, 15_000),
        "log.cleaner.min.cleanable.ratio": (0.01, 0.5),
        "log.cleaner.threads": (1, 2),
        "log.cleaner.delete.retention.ms": (0, 500, 86_400_000),
        "log.retention.check.interval.ms": (500, 3_000, 300_000),
        "log.initial.task.delay.ms": (0, 100, 30_000),
        "log.segment.delete.delay.ms": (0, 500, 60_000),
        "log.index.interval.bytes": (0, 100, 4_096),
        # Groups need batches of more than 1,000 bytes; topics have smaller segments of their own.
        "internal.segment.bytes": (1_500, 4_000, 16_000),
        "log.retention.bytes": (-1, -1, -1, 3_000),
        "log.message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime"),
        "producer.id.expiration.check.interval.ms": (500, 600_000),
        "offsets.topic.num.partitions": (1, 2, 3),
        "transaction.state.log.num.partitions": (1, 2, 3),
        "offsets.topic.compression.codec": (0, 0, 1, 4),
        "offsets.retention.check.interval.ms": (1_000, 600_000),
        "group.initial.rebalance.delay.ms": (0, 50, 3_000),
        "group.min.session.timeout.ms": (100,),
        "group.max.size": (12, 2**31 - 1),
        "group.consumer.max.size": (12, 2**31 - 1),
        "group.consumer.session.timeout.ms": (2_000, 8_000),
        "group.consumer.heartbeat.interval.ms": (500,),
        "group.consumer.migration.policy": ("bidirectional", "disabled", "upgrade", "downgrade"),
        "metadata.log.max.record.bytes.between.snapshots": (100, 1_000, 20_000_000),
        "metadata.max.retention.bytes": (1, 100_000_000),
    }
    settings = {
        name: str(chance.choice(values))
        for name, values in choices.items()
        if chance.random() < 0.8 or len(values) == 1 or name in NEVER_DEFAULT
    }
    if chance.random() < 0.15:
        settings[PER_ADDRESS] = f"localhost:{chance.choice((5, 8))}"
    if chance.random() < 0.5:
        settings["socket.request.max.bytes"] = str(FRAME_BYTES_MAX)
        settings["queued.max.request.bytes"] = str(chance.choice((1, 3)) * FRAME_BYTES_MAX)
    return settings


def _tiny(chance: random.Random) -> dict[str, int]:
    """Fields of the configuration below what their keys allow, and constants that are small."""
    choices = {
        "barnabas_unflushed_bytes_max": (500, 3_000),
        "barnabas_answer_bytes_max": (4_000, 50_000),
    }
    return {
        name: chance.choice(values) for name, values in choices.items() if chance.random() < 0.4
    } | scale.drawn(chance)
