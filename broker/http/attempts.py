"""Requests that bring a password: how many may be looked at, or wait for their refusal, at a time.

A wrong password is answered after a pause, and its connection is not displaced meanwhile, or
guesses would cost nothing. So attempts are bounded, in all and of one host, below the number of
connections: whoever guesses leaves room for Prometheus and for probes. One beyond the bound is
refused before its password is looked at, so the answer tells nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.http.http_messages import HttpAnswer, HttpRequest, sentence
from broker.runtime.metrics import Metrics

ATTEMPTS_MAX: Final = 48
OF_A_HOST_MAX: Final = 16
LOGIN: Final = "/api/v1/login"


def brings_password(request: HttpRequest) -> bool:
    """Whether a request is an attempt."""
    return "authorization" in request.headers or request.path == LOGIN


class Attempts:
    """The attempts that are under way, by host."""

    def __init__(self, metrics: Metrics) -> None:
        self._by_host: Counter[str] = Counter()
        self._metrics = metrics

    def refusal(self, host: str) -> HttpAnswer | None:
        """Return why one more is refused; None if it may be looked at."""
        of_host = self._by_host.get(host, 0)
        if self._by_host.total() < ATTEMPTS_MAX and of_host < OF_A_HOST_MAX:
            return None
        self._metrics.http_attempts_refused += 1
        return sentence(429, "Too many passwords are being tried: try again", ("Retry-After", "1"))

    @contextmanager
    def one(self, host: str) -> Iterator[None]:
        """Count an attempt until its answer may be sent."""
        self._by_host[host] += 1
        try:
            yield
        finally:
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host]
