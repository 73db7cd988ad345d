"""What a row of the handler table declares: the clauses of its API, asked one after the other.

    Whole      one right for the request                           refused as a whole
    Each       one right for each entry of a list                  refused entry by entry
    EachConfig as Each, for resources of several types             refused entry by entry
    Seen       what the answer lists must be describable           left out
    Bits       the authorized operations in an answer (KIP-430)
    Own        rules of this API alone, in a module of its own
    Hot        as Own, where a decision of before is looked up at once
    Nothing    no right at all, with the reason

The error belongs to the type of the resource: 29 for topics, 30 for groups, 31 for the cluster, 53
for transactional ids. Its place in the answer is that of each error of the API: the handler's
`error_response` makes it. `docs/security.md` prints these rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Protocol

from broker.metadata.topic_rules import TopicError, check_name
from broker.rights.asking import DENIED, NAMES_PER_TURN, Asking, Need, Refused, Turns
from broker.security.acl.acl_codes import CLUSTER_NAME, AclOperation, ResourceType
from protocol.errors import ErrorCode

CLUSTER, GROUP = ResourceType.CLUSTER, ResourceType.GROUP
TOPIC, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
NOT_ASKED: Final = -(1 << 31)  # authorized operations that the request did not ask for

# Resource types of configs in Kafka: on the wire, never renumber.
_CONFIG_TYPES: Final = {2: TOPIC, 4: CLUSTER, 8: CLUSTER, 16: CLUSTER, 32: GROUP}

Line = tuple[str, str]  # of the documentation: the right, and what happens without it


class Clause(Protocol):
    """One question of an API."""

    def ask(self, asking: Asking) -> Turns:
        """Refuse the request, or narrow it, or arrange for its answer to be completed."""
        ...

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        ...


Rights = tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Nothing:
    """The API needs no right; `reason` says why."""

    reason: str

    def ask(self, asking: Asking) -> Turns:  # noqa: ARG002
        """Ask nothing."""
        yield from ()
        return None

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        return [("none", self.reason)]


@dataclass(frozen=True, slots=True)
class Whole:
    """One of `needs` for the whole request; `field` of the request names the resource."""

    needs: tuple[Need, ...]
    field: str = ""  # the cluster has no name

    def ask(self, asking: Asking) -> Turns:
        """Refuse the request without the right."""
        yield from ()
        name = getattr(asking.request.body, self.field) if self.field else CLUSTER_NAME
        if asking.allows_some(self.needs, name):
            return None
        need = self.needs[-1]
        asking.log(need, name)
        return asking.refuse(DENIED[need.resource])

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        return [(either(self.needs), f"{DENIED[self.needs[-1].resource].name} for the request")]


@dataclass(frozen=True, slots=True)
class Each:
    """One of `needs` for each entry of a list: `items` of the request, `answers` of the answer.

    `name` is the field that names an entry; without one, an entry is a name. From version
    `id_since` on, entries have topic ids; an unknown id is left to the handler. If nothing of a
    list is left, the handler is not called, unless `calls_empty`. With `checks_name`, an invalid
    name is left to the handler, too.
    """

    needs: tuple[Need, ...]
    items: str
    answers: str
    name: str = "name"
    id_since: int | None = None
    calls_empty: bool = False
    checks_name: bool = False

    def ask(self, asking: Asking) -> Turns:
        """Take out of the list what is refused, and have it answered after the rest."""
        items: list[Any] = getattr(asking.request.body, self.items) or []
        denied: dict[int, ErrorCode] = {}
        for at, item in enumerate(items):
            code = self._refusal(asking, item)
            if code is not None:
                denied[at] = code
            if at % NAMES_PER_TURN == NAMES_PER_TURN - 1:
                yield
        if not denied:
            return None
        refused, empty = yield from self._refused(asking, items, denied)
        if len(denied) == len(items) and not self.calls_empty:
            setattr(empty, self.answers, refused)
            return Refused(empty)
        kept = [item for at, item in enumerate(items) if at not in denied]
        asking.narrow(**{self.items: kept})

        def merged(answer: Any) -> Generator[int, None, Any]:
            if not getattr(answer, "error_code", 0):  # else it has failed as a whole
                among = getattr(answer, self.answers)
                in_order = yield from _interleaved(among, len(kept), refused, denied, len(items))
                setattr(answer, self.answers, in_order)
            return answer

        asking.later.append(merged)
        return None

    def needs_of(self, item: Any) -> tuple[Need, ...]:  # noqa: ARG002
        """Return what an entry needs."""
        return self.needs

    def _refusal(self, asking: Asking, item: Any) -> ErrorCode | None:
        needs = self.needs_of(item)
        name = self.name_in(asking, item)
        if not needs or name is None or asking.allows_some(needs, name):
            return None
        asking.log(needs[-1], CLUSTER_NAME if needs[-1].resource is CLUSTER else name)
        return DENIED[needs[-1].resource]

    def name_in(self, asking: Asking, item: Any) -> str | None:
        """Return the name of an entry; None if it has an id that no topic has."""
        if self.id_since is not None and asking.request.header.api_version >= self.id_since:
            return asking.name_of(item.topic_id)
        name: str = getattr(item, self.name) if self.name else item
        if self.checks_name:
            try:
                check_name(name)
            except TopicError:
                return None
        return name

    def answer_to(self, asking: Asking, code: ErrorCode, items: Sequence[Any]) -> Any:
        """Return the answer with `code` to a request with only `items`."""
        return asking.answer_to(code, **{self.items: items})

    def _refused(
        self, asking: Asking, items: Sequence[Any], denied: dict[int, ErrorCode]
    ) -> Generator[None, None, tuple[list[Any], Any]]:
        """Return the answers for what is denied, in order, and an answer to put them into."""
        refused: list[Any] = []
        empty: Any = None
        for code, run in _runs(denied):
            empty = self.answer_to(asking, code, [items[at] for at in run])
            refused += getattr(empty, self.answers)
            if len(run) == NAMES_PER_TURN:
                yield
        if hasattr(empty, "error_code"):
            empty.error_code = ErrorCode.NONE  # only what it lists is refused
        return refused, empty

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        code = DENIED[self.needs[-1].resource]
        what = self.needs[-1].resource.name.lower().replace("_", " ")
        return [(either(self.needs), f"{code.name} for the {what}")]


@dataclass(frozen=True, slots=True)
class EachConfig(Each):
    """One operation on each resource that has configs, whatever its type."""

    def needs_of(self, item: Any) -> tuple[Need, ...]:
        """Return what an entry needs; an unknown type needs nothing, and is refused as that."""
        resource = _CONFIG_TYPES.get(item.resource_type)
        return () if resource is None else (Need(resource, self.needs[0].operation),)

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        operation = self.needs[0].operation
        return [
            (str(Need(resource, operation)), f"{DENIED[resource].name} for {what}")
            for resource, what in (
                (TOPIC, "the topic"),
                (GROUP, "the group"),
                (CLUSTER, "a broker, its loggers, or a client metrics subscription"),
            )
        ]


@dataclass(frozen=True, slots=True)
class Seen:
    """What an answer lists is left out without the right, unless the client has `unless`."""

    need: Need
    answers: str
    name: str
    unless: Need | None = None

    def ask(self, asking: Asking) -> Turns:
        """Have the answer filtered."""
        yield from ()
        if self.unless is None or not asking.allows(self.unless):
            asking.later.append(lambda answer: self.filtered(asking, answer))
        return None

    def filtered(self, asking: Asking, answer: Any) -> Generator[int, None, Any]:
        """Leave out of an answer what the client may not see."""
        kept = []
        for one in getattr(answer, self.answers):
            if asking.allows(self.need, getattr(one, self.name)):
                kept.append(one)
            yield 0
        setattr(answer, self.answers, kept)
        return answer

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        needs = (self.unless, self.need) if self.unless else (self.need,)
        return [(either(needs), "left out of the answer")]


@dataclass(frozen=True, slots=True)
class Bits:
    """The authorized operations, if the request asked for them: in each of `answers`, or in one.

    Those of the cluster are 0 for clients that may not describe it.
    """

    resource: ResourceType
    field: str
    answers: str = ""
    name: str = ""

    def ask(self, asking: Asking) -> Turns:
        """Have the bits replaced by those of the client."""
        yield from ()
        asking.later.append(lambda answer: self.set(asking, answer))
        return None

    def set(self, asking: Asking, answer: Any) -> Generator[int, None, Any]:
        """Replace the bits that the handler has set."""
        for one in getattr(answer, self.answers) if self.answers else (answer,):
            if getattr(one, self.field) != NOT_ASKED:
                name = getattr(one, self.name) if self.name else CLUSTER_NAME
                setattr(one, self.field, self._of(asking, name))
            yield 0
        return answer

    def _of(self, asking: Asking, name: str | None) -> int:
        if name is None:
            return NOT_ASKED
        if self.resource is CLUSTER and not asking.allows(Need(CLUSTER, AclOperation.DESCRIBE)):
            return 0
        return asking.operations(self.resource, name)

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        if self.resource is CLUSTER:
            return [("CLUSTER DESCRIBE", "the cluster's authorized operations are 0")]
        return []


@dataclass(frozen=True, slots=True)
class Own:
    """Rules of one API, in `broker.rights.of_<module>`; `LINES` there describes them."""

    module: str

    def ask(self, asking: Asking) -> Turns:
        """Ask what the module asks."""
        refused: Refused | None = yield from self.load().ask(asking)
        return refused

    def load(self) -> Any:
        """Return the module, imported with its first request."""
        return import_module(f"broker.rights.of_{self.module}")

    def lines(self) -> Sequence[Line]:
        """Return the clause in words."""
        lines: Sequence[Line] = self.load().LINES
        return lines


class Hot(Own):
    """Rules of an API on the hot path, of which this is the only clause.

    The module also has `keys(request)`: what the request names, if the answer is the same for
    everybody who may touch all of it, else None; None, too, if that is more than a turn may ask
    for. `key(request)` is that of the usual request, which names one thing, else None. A client
    that was allowed some keys is allowed them again without a question, until an ACL changes.
    """

    __slots__ = ()


def either(needs: Sequence[Need]) -> str:
    """Return alternatives in words."""
    return " or ".join(map(str, needs))


def _runs(denied: dict[int, ErrorCode]) -> Iterator[tuple[ErrorCode, list[int]]]:
    """Yield the places with the same code that follow each other, a bounded number at a time."""
    run: list[int] = []
    code = ErrorCode.NONE
    for at, of in denied.items():
        if run and (of is not code or len(run) == NAMES_PER_TURN):
            yield code, run
            run = []
        code = of
        run.append(at)
    if run:
        yield code, run


def _interleaved(
    among: list[Any], kept: int, refused: list[Any], denied: dict[int, ErrorCode], count: int
) -> Generator[int, None, list[Any]]:
    """Return both answers in the order of the request, as far as the answers keep it."""
    if len(among) != kept or len(refused) != len(denied):
        return among + refused
    left, right = iter(among), iter(refused)
    in_order = []
    for at in range(count):
        in_order.append(next(right if at in denied else left))
        yield 0
    return in_order
