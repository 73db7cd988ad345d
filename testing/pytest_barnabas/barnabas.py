"""One broker for tests: where it is, what is in it, and what is done to it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from pytest_barnabas.errors import BarnabasError
from pytest_barnabas.kafka_records import KafkaRecords, Record, record_of
from pytest_barnabas.msgpack_caller import MsgpackCaller
from pytest_barnabas.rules import Asked, Rule
from pytest_barnabas.warm_process import WarmProcess

WAIT_SECONDS: Final = 10.0
LOG_BYTES_MAX: Final = 64 * 1024


class Barnabas:
    """A broker of its own directory and ports, from the constructor to `close`.

    `settings` are keys of the broker's configuration, such as `{"num.partitions": 3}`. Its methods
    raise BarnabasError if the broker does not do as it is told.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self._warm = WarmProcess.of_this_process()
        texts = {name: _setting(value) for name, value in (settings or {}).items()}
        started = self._warm.ask("start", settings=texts)
        self._number = started["broker"]
        self.directory: str = started["directory"]
        self._log: str = started["log"]
        self._last_log = ""  # of a broker that was closed
        self._listeners: dict[str, dict[str, Any]] = started["listeners"]
        self._http: dict[str, Any] | None = started["http"]
        self._caller: MsgpackCaller | None = None
        self._records = KafkaRecords(self._msgpack_caller)
        self._names = itertools.count(1)
        self._is_closed = False
        self._rules: list[Rule] = []

    def __enter__(self) -> Self:
        """Return the broker."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the broker. Raises RuleNotMet if a rule must be met and was not."""
        try:
            if error is None:
                self.check_rules()
        finally:
            self.close()

    def close(self) -> None:
        """End the broker and remove its directory."""
        if self._is_closed:
            return
        self._hang_up()
        if self._warm.is_of_this_process:  # a fork has it, too
            for rule in self._rules:
                with suppress(BarnabasError):
                    rule.keep_counts()
            self._last_log = self.log
            self._is_closed = True
            self._warm.ask("end", broker=self._number)

    # -- where it is ----------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """HOST:PORT for clients of Kafka: `bootstrap.servers`."""
        return self._address(is_msgpack=False)

    @property
    def msgpack(self) -> str:
        """HOST:PORT of the msgpack dialect."""
        return self._address(is_msgpack=True)

    @property
    def http(self) -> str:
        """The address of console, /metrics and /readyz."""
        if self._http is None:
            raise BarnabasError("the broker has no HTTP listener: barnabas.http.listener is empty")
        return f"http://{self._http['host']}:{self._http['port']}"

    @property
    def log(self) -> str:
        """The end of the broker's log; after `close` as it was then."""
        try:
            with open(self._log, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES_MAX))
                return file.read(LOG_BYTES_MAX).decode(errors="replace")
        except FileNotFoundError:  # it is closed, or the warm process has ended
            return self._last_log

    def _address(self, *, is_msgpack: bool) -> str:
        for one in self._listeners.values():
            if one["protocol"].startswith("MSGPACK") == is_msgpack:
                return f"{one['host']}:{one['port']}"
        raise BarnabasError("the setting `listeners` has none of that dialect")

    # -- what is in it --------------------------------------------------------------------------

    def topic(self, name: str | None = None, partitions: int = 1, **configs: object) -> str:
        """Create a topic and return its name, one of its own if none is given.

        `configs` are Kafka's, with `_` in place of `.`: `retention_ms=1000`.
        """
        name = name or f"topic-{next(self._names)}"
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self._records.create(name, partitions, dotted)
        return name

    def produce(
        self,
        topic: str,
        *values: bytes | str | Mapping[str, Any] | None,
        key: bytes | str | None = None,
        partition: int = 0,
    ) -> int:
        """Write records with acks=all; return the offset of the first.

        A record is a value, or a mapping with `key`, `value`, `headers` and `timestamp`.
        """
        if not values:
            raise BarnabasError("produce was given no record: name at least one value")
        return self._records.append(topic, partition, [record_of(value, key) for value in values])

    def records(
        self,
        topic: str,
        partition: int | None = None,
        *,
        at_least: int = 0,
        timeout: float = WAIT_SECONDS,
        committed: bool = True,
    ) -> list[Record]:
        """Return the records of a topic, partition by partition; wait until there are `at_least`.

        With `committed=False` those of open and aborted transactions are among them.
        """
        return self._records.wait_for(topic, partition, at_least, timeout, committed=committed)

    # -- what is done to it ---------------------------------------------------------------------

    def kill(self) -> None:
        """End the broker as `kill -9` does; `restart` begins another life."""
        self._hang_up()
        self._ask("kill")

    def stop(self) -> None:
        """Stop the broker in order; `restart` begins another life."""
        self._hang_up()
        self._ask("stop")

    def restart(self) -> None:
        """Stop the broker, if it runs, and start it again on its directory and its ports."""
        self._hang_up()
        self._ask("restart")

    # -- its directory --------------------------------------------------------------------------

    def snapshot(self, name: str = "snapshot") -> None:
        """Keep a copy of all topics, groups and settings under a name."""
        self._ask("snapshot", name=name)

    def restore(self, name: str = "snapshot") -> None:
        """Begin another life with what a snapshot has; clients connect again by themselves."""
        self._hang_up()
        self._ask("restore", name=name)

    def power_cut(self) -> int:
        """End the broker and take back all that it has not synced; return how many changes.

        `restart` begins another life. What a `kill` has left in memory counts as synced.
        """
        self._hang_up()
        return int(self._ask("cut_power")["changes"])

    # -- time -----------------------------------------------------------------------------------

    def advance(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let time pass in the broker, and wait for what it brings.

        Retention, sessions, answers that wait, transactions and producers see it; clients do not,
        and send nothing meanwhile.
        """
        passed = seconds + 60 * (minutes + 60 * (hours + 24 * days))
        self._tell("advance", seconds=passed)

    # -- faults ---------------------------------------------------------------------------------

    def rule(self, **rule: Any) -> Rule:
        """Put a rule of faults into force, and return it.

        For requests: `api` ("produce", or "*"), `client`, `topic` (patterns), `partition`; then
        `error` (a name of Kafka's), `delay` (seconds), or `drop`: the connection ends "before" the
        request is handled, "after" it, or after so many bytes of the answer. For the file system:
        `call` ("pwrite", "fdatasync", ...), `file` (a pattern); then `error` ("EIO", "ENOSPC"),
        `delay`, or `half=True`. `nth` is 3, "3+" or "2-5" of those that fit. With `must_be_met` the
        test fails if the rule was never met.
        """
        row = self._tell("add_rule", rule=rule)
        made = Rule(row["number"], rule, self._rows, self._remove_rule)
        self._rules.append(made)
        return made

    def check_rules(self) -> None:
        """Raise RuleNotMet if a rule must be met and was not."""
        for rule in self._rules:
            rule.check()

    def fill_disk(self, free_bytes: int = 0) -> None:
        """Let the broker write so many bytes more, and then find its disk full."""
        self._tell("fill_disk", free_bytes=free_bytes)

    def free_disk(self) -> None:
        """Let the disk have room again."""
        self._tell("fill_disk")

    def requests(
        self, api: str | None = None, *, client: str | None = None, topic: str | None = None
    ) -> list[Asked]:
        """Return what clients have asked, the latest 10,000, without what this object asks."""
        return [
            asked
            for asked in (Asked(**one) for one in self._ask("look").get("requests", ()))
            if (api is None or asked.api == api)
            and (client is None or asked.client == client)
            and (topic is None or topic in asked.topics)
        ]

    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [] if self._is_closed else self._ask("look").get("rules", [])
        return rows

    def _remove_rule(self, number: int) -> None:
        self._tell("remove_rule", number=number)

    def _ask(self, do: str, **fields: Any) -> dict[str, Any]:
        return self._warm.ask(do, broker=self._number, **fields)

    def _tell(self, do: str, **fields: Any) -> dict[str, Any]:
        """Have the broker's own process obey a command."""
        return self._ask("ask", command={"do": do, **fields})

    def _msgpack_caller(self) -> MsgpackCaller:
        if self._caller is None:
            host, _, port = self.msgpack.rpartition(":")
            self._caller = MsgpackCaller((host, int(port)))
        return self._caller

    def _hang_up(self) -> None:
        if self._caller is not None:
            self._caller.close()
            self._caller = None


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
