"""Rules of faults: which request or file call they are for, and what happens to it.

    for a request     api, client, topic, partition, nth     error, delay, drop
    for a file call   call, file, nth                        error, delay, half

`client`, `topic` and `file` are patterns as of a shell. `nth` counts the requests or calls that fit
the rest. A rule is refused if it is misspelt, or if it says two things at once.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from broker.testing.command_refused import CommandRefused, check_names, suggestion
from broker.testing.named_topics import SHAPES
from broker.testing.nth_times import NthTimes
from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode

OWN_CLIENT: Final = "pytest-barnabas"  # of the kit, which rules meet only if they name it
BOTH: Final = ("nth", "error", "delay", "must_be_met")
REQUEST_FIELDS: Final = ("api", "client", "topic", "partition", "drop", *BOTH)
CALL_FIELDS: Final = ("call", "file", "half", *BOTH)
CALLS: Final = (
    "open", "create", "pread", "pwrite", "fdatasync", "truncate", "rename", "unlink",
    "sync_directory", "replace",
)  # fmt: skip
DISK_ERRORS: Final = ("EIO", "ENOSPC", "EROFS", "EDQUOT", "EMFILE")
DROPS: Final = ("before", "after")
EXAMPLE: Final = '{"api": "produce", "error": "REQUEST_TIMED_OUT"}'
DELAY_SECONDS_MAX: Final = 3600.0


@dataclass(slots=True)
class RequestRule:
    """What happens to some requests of clients."""

    given: dict[str, Any]
    api_key: ApiKey | None  # None: each
    client: str | None
    topic: str | None
    partition: int | None
    nth: NthTimes
    error: ErrorCode | None
    delay: float
    drop: str | int | None
    must_be_met: bool
    number: int = 0
    seen: int = 0  # requests that fit
    met: int = 0  # those of them to which it has happened

    def fits(self, api_key: int, client: str, topics: Mapping[str, list[int]]) -> bool:
        """Return whether a request is one that the rule counts."""
        if self.api_key is not None and self.api_key != api_key:
            return False
        if self.client is None:
            if client == OWN_CLIENT:
                return False
        elif not fnmatchcase(client, self.client):
            return False
        if self.topic is None:
            return True
        return any(
            self.is_for(topic, partition)
            for topic, partitions in topics.items()
            for partition in partitions or (None,)
        )

    def is_for(self, topic: str, partition: int | None) -> bool:
        """Return whether a part of a request is one that the rule is for."""
        if self.topic is not None and not fnmatchcase(topic, self.topic):
            return False
        return self.partition is None or self.partition == partition

    def contradicts(self, other: RequestRule) -> bool:
        """Return whether both decide what happens to the same requests."""
        mine = (self.api_key, self.client, self.topic, self.partition)
        its = (other.api_key, other.client, other.topic, other.partition)
        both_decide = self.decides and other.decides
        return mine == its and both_decide and self.nth.meets(other.nth)

    @property
    def decides(self) -> bool:
        """Whether it does more than delay."""
        return self.error is not None or self.drop is not None


@dataclass(slots=True)
class CallRule:
    """What happens to some calls of the file system."""

    given: dict[str, Any]
    call: str
    file: str
    nth: NthTimes
    error: str | None
    delay: float
    half: bool
    must_be_met: bool
    number: int = 0
    seen: int = 0
    met: int = 0
    code: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Look the error up."""
        self.code = getattr(errno, self.error) if self.error else 0

    def fits(self, call: str, path: str) -> bool:
        """Return whether a call is one that the rule counts."""
        return call == self.call and fnmatchcase(path, self.file)

    def contradicts(self, other: CallRule) -> bool:
        """Return whether both decide what happens to the same calls."""
        both_fail = bool(self.error and other.error)
        same = (self.call, self.file) == (other.call, other.file)
        return same and both_fail and self.nth.meets(other.nth)


Rule = RequestRule | CallRule


def parse(given: object) -> Rule:
    """Read a rule. Raises CommandRefused."""
    if not isinstance(given, Mapping):
        raise CommandRefused(f"the rule is {given!r}, expected an object such as {EXAMPLE}")
    is_call = "call" in given or "file" in given
    if is_call and "api" in given:
        raise CommandRefused(
            "the rule is for a request (api) and for a file call (call, file) at once: make two"
        )
    if is_call:
        return _call_rule(dict(given))
    return _request_rule(dict(given))


def _request_rule(given: dict[str, Any]) -> RequestRule:
    check_names("a rule for requests", given, REQUEST_FIELDS)
    api_key = _api_key(given.get("api"))
    topic, partition = _text(given, "topic"), given.get("partition")
    if topic is not None and api_key is not None and api_key not in SHAPES:
        known = ", ".join(sorted(key.name.lower() for key in SHAPES))
        raise CommandRefused(
            f"a rule for a topic is for one of {known}: {api_key.name.lower()} names none"
        )
    if partition is not None:
        _check_partition(partition, topic, api_key)
    error, drop = _error(given.get("error")), _drop(given.get("drop"))
    if error is not None and drop is not None:
        raise CommandRefused(
            "the rule answers an error and drops the connection, which contradict each other:"
            " keep one"
        )
    delay = _delay(given)
    if error is None and drop is None and not delay:
        raise CommandRefused("the rule does nothing: name error, delay or drop")
    return RequestRule(
        given=given,
        api_key=api_key,
        client=_text(given, "client"),
        topic=topic,
        partition=partition,
        nth=NthTimes.of(given.get("nth")),
        error=error,
        delay=delay,
        drop=drop,
        must_be_met=_flag(given, "must_be_met"),
    )


def _call_rule(given: dict[str, Any]) -> CallRule:
    check_names("a rule for file calls", given, CALL_FIELDS)
    call = given.get("call")
    if call not in CALLS:
        hint = suggestion(str(call), CALLS)
        raise CommandRefused(f"call is {call!r}, expected one of {', '.join(CALLS)}.{hint}")
    half = _flag(given, "half")
    if half and call != "pwrite":
        raise CommandRefused(f"half is for pwrite: {call} cannot be half done")
    error = given.get("error", "EIO" if half else None)
    if error is not None and error not in DISK_ERRORS:
        hint = suggestion(str(error), DISK_ERRORS)
        raise CommandRefused(
            f"error is {error!r}, expected one of {', '.join(DISK_ERRORS)} for a file call.{hint}"
        )
    delay = _delay(given)
    if error is None and not delay:
        raise CommandRefused("the rule does nothing: name error, delay or half")
    return CallRule(
        given=given,
        call=call,
        file=_text(given, "file") or "*",
        nth=NthTimes.of(given.get("nth")),
        error=error,
        delay=delay,
        half=half,
        must_be_met=_flag(given, "must_be_met"),
    )


def _api_key(name: object) -> ApiKey | None:
    if name == "*":
        return None
    known = {key.name.lower(): key for key in ApiKey}
    if not isinstance(name, str):
        raise CommandRefused("a rule names its api, such as 'produce', or '*', or its call")
    try:
        return known[name.lower()]
    except KeyError:
        hint = suggestion(name, known)
        raise CommandRefused(f"there is no api {name!r}.{hint}") from None


def _check_partition(partition: object, topic: str | None, api_key: ApiKey | None) -> None:
    if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
        raise CommandRefused(f"partition is {partition!r}, expected a number from 0 on")
    if topic is None:
        raise CommandRefused("a rule for a partition names its topic, or '*'")
    if api_key is not None and SHAPES[api_key].partitions is None:
        raise CommandRefused(f"{api_key.name.lower()} names no partitions: leave partition out")


def _error(given: object) -> ErrorCode | None:
    if given is None:
        return None
    try:
        code = ErrorCode[given] if isinstance(given, str) else ErrorCode(given)  # type: ignore[call-arg, arg-type]
    except (KeyError, ValueError):
        hint = suggestion(str(given), ErrorCode.__members__)
        raise CommandRefused(f"there is no error {given!r} in Kafka's protocol.{hint}") from None
    if code is ErrorCode.NONE:
        raise CommandRefused("error is NONE: name one, or leave it out")
    return code


def _drop(given: object) -> str | int | None:
    is_count = isinstance(given, int) and not isinstance(given, bool) and given > 0
    if given is None or given in DROPS or is_count:
        return given  # type: ignore[return-value]
    hint = suggestion(given, DROPS) if isinstance(given, str) else ""
    raise CommandRefused(
        f"drop is {given!r}, expected 'before', 'after', or after how many bytes of the answer,"
        f" from 1 on.{hint}"
    )


def _delay(given: Mapping[str, Any]) -> float:
    delay = given.get("delay", 0)
    is_number = isinstance(delay, int | float) and not isinstance(delay, bool)
    if not is_number or not 0 <= delay <= DELAY_SECONDS_MAX:
        raise CommandRefused(
            f"delay is {delay!r}, expected seconds from 0 to {DELAY_SECONDS_MAX:.0f}"
        )
    return float(delay)


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise CommandRefused(f"{name} is {value!r}, expected a text")
    return value


def _flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise CommandRefused(f"{name} is {value!r}, expected true or false")
    return value
