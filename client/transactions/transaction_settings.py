"""The settings of a transactional producer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ABORT_S: Final = 10.0  # how long an abort is tried: the broker aborts by itself after the timeout
TOPIC_S: Final = 10.0  # how long an unknown topic is asked for: the broker may be creating it


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """`timeout_ms`: how long the broker leaves a transaction open. `codec` as in compression.py.

    `answer_s` bounds one answer, `retry_s` all attempts of one request.
    """

    timeout_ms: int = 60_000
    answer_s: float = 30.0
    retry_s: float = 120.0
    request_bytes: int = 1024 * 1024
    codec: int = 0
    partitioner: str = "key_hash"
