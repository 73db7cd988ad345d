"""The current key set: read when it is first needed, again when it is old or lacks a key.

    first login         read, and wait for it
    older than refresh  read beside the login, which uses the old keys
    unknown kid         read, and wait: the provider has a new key; once in 10 s at most
    cannot be read      the old keys stay in use, a warning says so, and the next try is in 10 s
    has no usable key   the provider has withdrawn all: they are forgotten, and a warning says so

Logins that need the same reading wait for one. So strangers with invented key ids cause a reading
each 10 s, whatever they send.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from broker.runtime import owners
from broker.runtime.owners import Owner
from broker.security.oauth.key_download import download
from broker.security.oauth.key_set import (
    KeySet,
    KeySetError,
    NoUsableKey,
    VerificationKey,
    read_key_set,
)

logger = logging.getLogger("barnabas.security")

RETRY_NS: Final = 10 * 10**9
MS_NS: Final = 10**6

RunKeys = Callable[[Callable[[], KeySet]], Awaitable[KeySet]]


class KeySource:
    """The keys behind one URL or path; used on the loop, read by `run`, in a thread."""

    def __init__(
        self, url: str, refresh_ms: int, run: RunKeys, monotonic_ns: Callable[[], int]
    ) -> None:
        self.url = url
        self._refresh_ns = refresh_ms * MS_NS
        self._run = run
        self._monotonic_ns = monotonic_ns
        self._keys = KeySet([])
        self._read_ns: int | None = None  # when it was last read successfully
        self._tried_ns: int | None = None
        self._reading: asyncio.Task[None] | None = None

    def read(self) -> KeySet:
        """Read the keys. Blocks; for a thread. Raises KeySetError."""
        return read_key_set(download(self.url, self._monotonic_ns))

    async def matching(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        """Return the keys that may verify a token, read again if that may help."""
        now_ns = self._monotonic_ns()
        found = self._keys.matching(kid, algorithm)
        is_old = self._read_ns is None or now_ns - self._read_ns >= self._refresh_ns
        if not found or is_old:
            may_try = self._tried_ns is None or now_ns - self._tried_ns >= RETRY_NS
            if self._reading is None and may_try:
                self._tried_ns = now_ns
                self._reading = owners.spawn(Owner.LOGIN, self._read_again(), "keys")
            if not found and self._reading is not None:
                await asyncio.shield(self._reading)
                found = self._keys.matching(kid, algorithm)
        return found

    async def _read_again(self) -> None:
        try:
            self._keys = await self._run(self.read)
            self._read_ns = self._monotonic_ns()
        except KeySetError as error:
            kept = "stay in use"
            if isinstance(error, NoUsableKey):
                kept = "are withdrawn"
            kept = f"; the {len(self._keys)} keys read before {kept}" if len(self._keys) else ""
            logger.warning(
                "the keys for tokens cannot be read from %(url)s: %(error)s%(note)s",
                {"url": self.url, "error": error, "note": kept},
            )
            if isinstance(error, NoUsableKey):
                self._keys = KeySet([])
        finally:
            self._reading = None
