"""What clients have asked, the latest of it: API, client, topics, and the rules that it met."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from broker.runtime.request import Request
from broker.testing.message_line import Message
from protocol.api_keys import ApiKey

KEPT_MAX: Final = 10_000
PARTITIONS_MAX: Final = 200_000  # that they name: a consumer of 1,000 names each in each fetch


class AskedRequests:
    """The latest requests of clients. `dropped` counts those before them."""

    def __init__(self, state: Message) -> None:
        """Go on from what an earlier life has left."""
        self._kept: deque[Message] = deque(state.get("requests", ()), KEPT_MAX)
        self._count: int = state.get("count", 0)
        self._partitions = sum(map(_partitions_of, self._kept))

    def state(self) -> Message:
        """Return what the next life is given, and what tests see."""
        return {
            "count": self._count,
            "dropped": self._count - len(self._kept),
            "requests": list(self._kept),
        }

    def note(
        self, request: Request, topics: Mapping[str, list[int]], met: list[int], now_ms: int
    ) -> None:
        """Keep one request."""
        header, body, info = request.header, request.body, request.info
        self._count += 1
        entry: dict[str, Any] = {
            "number": self._count,
            "at_ms": now_ms,
            "api": ApiKey(header.api_key).name.lower(),
            "version": header.api_version,
            "client": header.client_id or "",
            "software": info.software_name,
            "peer": f"{info.peer_host}:{info.peer_port}",
            "topics": dict(topics),
            "rules": met,
        }
        for name in ("group_id", "transactional_id", "acks"):
            if (value := getattr(body, name, None)) is not None:
                entry[name] = value
        if len(self._kept) == KEPT_MAX:
            self._drop()
        self._kept.append(entry)
        self._partitions += _partitions_of(entry)
        while self._partitions > PARTITIONS_MAX and len(self._kept) > 1:
            self._drop()

    def _drop(self) -> None:
        self._partitions -= _partitions_of(self._kept.popleft())


def _partitions_of(entry: Message) -> int:
    return sum(map(len, entry["topics"].values()))
